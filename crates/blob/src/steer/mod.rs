//! Decides which copy to read and where to place new data: one small trait, six policies.
//!
//! - [`Credit`]: the copy whose SSD has more credit. The paper's rule, Gimbal §4.3.
//! - [`Latency`]: the copy from which the read is expected sooner, by observed over expected latency and own work.
//! - [`Isolation`]: some SSDs take most writes for a while, the others serve the reads.
//! - The same by [`Isolation::roles`]: some SSDs take new tables, others the log, the rest only reads.
//! - [`Adaptive`]: isolation where it serves more than latency, found by trying both. The default.
//! - [`Primary`]: always the primary copy; the baseline for the others.
//!
//! Holds: a policy chooses among the reachable SSDs, and the same observations give the same choices
//!        (`choices_follow_from_observations_alone`).

mod adaptive;
mod credit;
mod isolation;
mod latency;
mod primary;

pub use adaptive::Adaptive;
pub use credit::Credit;
pub use isolation::Isolation;
pub use latency::Latency;
pub use primary::Primary;

use crate::SsdId;
use units::{Instant, Nanos, Slowdown};

/// A client's view of an SSD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Number of IOs that it may have in flight, as the switch last reported; `None` if the switch reports none.
    pub credit: Option<u32>,
    /// IOs outstanding.
    pub in_flight: u32,
    /// Bytes of the writes among them.
    pub writing: u64,
    /// Factor by which reads take longer there than usual, as the switch last reported.
    pub reads: Slowdown,
    /// The same for writes.
    pub writes: Slowdown,
}

/// A switch's report that an SSD is slow now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slow {
    /// The factor by which reads take longer than usual.
    pub reads: Slowdown,
    /// The same for writes.
    pub writes: Slowdown,
    /// Time, on the client's own clock, at which the report expires unless it is renewed.
    pub until: Instant,
}

impl Load {
    /// Whether the switch reports the SSD as slow, for reads or writes: an SSD that writes slowly completes reads late
    /// as well.
    pub(crate) fn is_slow(self) -> bool {
        self.reads.is_slow() || self.writes.is_slow()
    }

    /// Adds the switch's last report.
    #[must_use]
    pub fn told(mut self, now: Instant, slow: Option<Slow>) -> Load {
        if let Some(slow) = slow.filter(|slow| now < slow.until) {
            (self.reads, self.writes) = (slow.reads, slow.writes);
        }
        self
    }
}

/// Kinds of data to be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// Written in small pieces that a caller waits for, and seldom read.
    Log,
    /// Anything else.
    Bulk,
}

/// A policy for reading and placing. `now` is the wall clock, so that the clients of a rack can do the same at the same
/// time.
pub trait Steering {
    /// Chooses which of two copies to read.
    fn read(&mut self, now: Instant, copies: [(SsdId, Load); 2]) -> usize;

    /// The rank of an SSD for new data; the highest is taken.
    fn rank(&self, now: Instant, ssd: SsdId, load: Load, data: Data) -> i64;

    /// Observes an IO that has succeeded after `latency`.
    fn on_completion(&mut self, now: Instant, ssd: SsdId, is_read: bool, bytes: u64, latency: Nanos);

    /// Sets the SSDs that exist, each with its domain.
    fn on_ssds(&mut self, ssds: &[(SsdId, String)]);
}

/// The policies by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The paper's rule.
    Credit,
    /// By observed over expected latency and own work.
    Latency,
    /// Reads and writes on different SSDs.
    Isolation,
    /// Reads, tables and the log on different SSDs.
    Roles,
    /// Isolation or latency, whichever serves more.
    #[default]
    Adaptive,
    /// No balancing.
    Primary,
}

impl Policy {
    /// All policies, with their names.
    pub const ALL: [(&'static str, Policy); 6] = [
        ("credit", Policy::Credit),
        ("latency", Policy::Latency),
        ("isolation", Policy::Isolation),
        ("roles", Policy::Roles),
        ("adaptive", Policy::Adaptive),
        ("primary", Policy::Primary),
    ];

    /// A new policy of this kind.
    pub fn start(self) -> Box<dyn Steering> {
        match self {
            Policy::Credit => Box::new(Credit::default()),
            Policy::Latency => Box::new(Latency::default()),
            Policy::Isolation => Box::new(Isolation::default()),
            Policy::Roles => Box::new(Isolation::roles()),
            Policy::Adaptive => Box::new(Adaptive::default()),
            Policy::Primary => Box::new(Primary::default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_follow_from_observations_alone() {
        for (name, policy) in Policy::ALL {
            let run = || {
                let mut steering = policy.start();
                steering.on_ssds(&[(SsdId(0), "a".to_owned()), (SsdId(1), "b".to_owned())]);
                let mut choices = Vec::new();
                for step in 0..500u64 {
                    let now = Instant(step * 1_000_000);
                    let load = |of| Load {
                        credit: Some(20 + (step * of % 7) as u32),
                        in_flight: (step % 5) as u32,
                        writing: step % 3 * 4096,
                        ..Load::default()
                    };
                    let side = steering.read(now, [(SsdId(0), load(3)), (SsdId(1), load(5))]);
                    assert!(side < 2, "{name} chose copy {side}");
                    let latency = Nanos::micros(100 + step * 13 % 50);
                    steering.on_completion(now, SsdId(side as u32), true, 4096, latency);
                    choices.push(side);
                }
                choices
            };
            assert_eq!(run(), run(), "{name}");
        }
    }
}
