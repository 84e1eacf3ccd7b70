//! Isolation: for a period, some SSDs take most of the writes and the others serve the reads.
//!
//! An SSD that is written to answers reads late. So in each period a part of the SSDs is the *writing* part: new data goes
//! there, and a read goes to the copy that is not there. Both within limits: when the client has more than [`SPILL`] waiting to be written
//! there, or the other copy's expected wait is [`PENALTY`] times as long, the load decides, as in `latency`. (Without these limits a rack whose
//! SSDs are busy writing loses more than half of its throughput.) The parts rotate, so that all SSDs wear alike and hold alike.
//!
//! In turn t, domain d (a target) writes to its SSD number t + d·(t / n) mod n, where n is the number of SSDs that the second
//! largest domain has. So both copies of new data go to writing SSDs, but those that were written together are seldom
//! writing together again: once in n² turns. With fewer than two SSDs in the second domain there is nothing to separate,
//! and the load alone decides.
//!
//! Holds: `reads_avoid_ssds_that_are_written_to`, `every_ssd_writes_in_its_turn`,
//!        `copies_written_together_are_seldom_busy_together`, `what_is_too_busy_is_not_kept_to`.
//! Like read/write isolation in Sandook (NSDI '26); parts by a fixed rotation without a central controller are ours, so
//! that all clients of a rack agree when their clocks do.

use super::latency::{Latency, slowed};
use super::{Load, Steering};
use crate::SsdId;
use std::collections::BTreeMap;
use units::{Instant, Nanos};

/// How long a part is the writing one.
const PERIOD: Nanos = Nanos::millis(500);
/// So much more work of its own than elsewhere a client has in the writing part, in reads (`latency`).
const SPILL: i64 = 3;
/// So many times longer a wait is borne before the writing part is read.
const PENALTY: u64 = 3;

/// Separates reads from writes.
#[derive(Clone, Debug, Default)]
pub struct Isolation {
    /// Domain and position of each SSD.
    places: BTreeMap<SsdId, (u64, u64)>,
    /// Turns until a domain writes to the same SSD again; 0 if nothing can be separated.
    count: u64,
    load: Latency,
}

impl Isolation {
    fn writes(&self, now: Instant, ssd: SsdId) -> bool {
        let turn = now.0 / PERIOD.0;
        let (Some(round), Some(&(domain, position))) = (turn.checked_div(self.count), self.places.get(&ssd))
        else {
            return false;
        };
        position % self.count == turn.wrapping_add(domain.wrapping_mul(round)) % self.count
    }
}

impl Steering for Isolation {
    fn read(&mut self, now: Instant, copies: [(SsdId, Load); 2]) -> usize {
        let [one, other] = copies.map(|(ssd, _)| self.writes(now, ssd));
        if one == other {
            return self.load.read(now, copies);
        }
        let [quiet, writing] = [usize::from(one), usize::from(other)];
        let score = |copy: usize| self.load.score(now, copies[copy].0, copies[copy].1);
        if score(quiet) > score(writing) * PENALTY { writing } else { quiet }
    }

    fn rank(&self, now: Instant, ssd: SsdId, load: Load) -> i64 {
        let part = if self.writes(now, ssd) { SPILL } else { 0 };
        4 * part - slowed(load)
    }

    fn on_completion(&mut self, now: Instant, ssd: SsdId, is_read: bool, bytes: u64, latency: Nanos) {
        self.load.on_completion(now, ssd, is_read, bytes, latency);
    }

    fn on_ssds(&mut self, ssds: &[(SsdId, String)]) {
        let mut domains: BTreeMap<&str, Vec<SsdId>> = BTreeMap::new();
        for (ssd, domain) in ssds {
            domains.entry(domain).or_default().push(*ssd);
        }
        let mut sizes: Vec<usize> = domains.values().map(Vec::len).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let count = sizes.get(1).copied().unwrap_or(0) as u64;
        self.count = if count < 2 { 0 } else { count };
        self.places.clear();
        for (domain, ssds) in domains.values_mut().enumerate() {
            ssds.sort();
            for (position, ssd) in ssds.iter().enumerate() {
                self.places.insert(*ssd, (domain as u64, position as u64));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rack() -> (Isolation, Vec<SsdId>) {
        let mut policy = Isolation::default();
        let ssds: Vec<_> = (0..12).map(|n| (SsdId(n), format!("target-{}", n / 4))).collect();
        policy.on_ssds(&ssds);
        (policy, ssds.into_iter().map(|(ssd, _)| ssd).collect())
    }

    #[test]
    fn reads_avoid_ssds_that_are_written_to() {
        let (mut policy, ssds) = rack();
        let load = Load::default();
        let best = ssds.iter().copied().max_by_key(|ssd| policy.rank(Instant::ZERO, *ssd, load)).expect("12");
        let quiet = ssds.iter().copied().find(|ssd| !policy.writes(Instant::ZERO, *ssd)).expect("most");
        assert!(policy.writes(Instant::ZERO, best));
        assert_eq!(policy.read(Instant::ZERO, [(best, load), (quiet, load)]), 1);
        assert_eq!(policy.read(Instant::ZERO, [(quiet, load), (best, load)]), 0);
    }

    #[test]
    fn what_is_too_busy_is_not_kept_to() {
        let (mut policy, ssds) = rack();
        let writing = ssds.iter().copied().find(|ssd| policy.writes(Instant::ZERO, *ssd)).expect("some");
        let quiet = ssds.iter().copied().find(|ssd| !policy.writes(Instant::ZERO, *ssd)).expect("most");
        let idle = Load::default();
        let behind = Load { in_flight: 16, writing: 4 << 20, ..idle };
        assert!(
            policy.rank(Instant::ZERO, writing, behind) < policy.rank(Instant::ZERO, quiet, idle),
            "writes spill"
        );
        let crowded = Load { in_flight: 60, ..idle };
        assert_eq!(policy.read(Instant::ZERO, [(writing, idle), (quiet, crowded)]), 0, "so do reads");
    }

    #[test]
    fn every_ssd_writes_in_its_turn() {
        let (policy, ssds) = rack();
        for ssd in ssds {
            let turns = (0..40).filter(|n| policy.writes(Instant(n * PERIOD.0), ssd)).count();
            assert_eq!(turns, 10, "{ssd}, one of four in its domain writes a quarter of the time");
        }
    }

    #[test]
    fn copies_written_together_are_seldom_busy_together() {
        let (policy, ssds) = rack();
        let writing = |turn: u64| -> Vec<SsdId> {
            ssds.iter().copied().filter(|ssd| policy.writes(Instant(turn * PERIOD.0), *ssd)).collect()
        };
        let pair = [writing(0)[0], writing(0)[1]];
        let both = (0..160).filter(|&turn| pair.iter().all(|ssd| writing(turn).contains(ssd))).count();
        assert_eq!(both, 10);
    }

    #[test]
    fn two_ssds_have_nothing_to_separate() {
        let mut policy = Isolation::default();
        policy.on_ssds(&[(SsdId(0), "a".to_owned()), (SsdId(1), "b".to_owned())]);
        assert!(!policy.writes(Instant::ZERO, SsdId(0)) && !policy.writes(Instant::ZERO, SsdId(1)));
    }
}
