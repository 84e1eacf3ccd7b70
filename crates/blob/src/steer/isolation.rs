//! Isolation: for a period, some SSDs take most of the writes and the others serve the reads.
//!
//! An SSD that is written to completes reads late. So in each period a part of the SSDs is the *writing* part: new
//! tables are written there, and a read uses the copy that is not there. Both have limits: if the client has more than
//! [`SPILL`] waiting to be written there, or the expected wait for the other copy is [`PENALTY`] times as long, the
//! load decides, as in `latency`. (Without these limits a rack whose SSDs are busy writing loses more than half of its
//! throughput.) A client that has not written for a period reads by load alone: sparing SSDs without writes would only
//! crowd the others. The parts rotate, so that all SSDs wear equally and hold equal amounts of data.
//!
//! In turn t, domain d (a target) writes to its SSD number t + d·(t / n) mod n, where n is the number of SSDs of the
//! second largest domain. So both copies of new data go to writing SSDs, but two SSDs that were written together are
//! seldom writing together again: once in n² turns. With fewer than two SSDs in the second domain, separation is
//! impossible, and the load alone decides.
//!
//! ```text
//!   of each domain's SSDs, in one turn       isolation           roles
//!     the one that writes                    tables and log      tables
//!     the next                               reads               log and reads
//!     the others                             reads               reads
//! ```
//!
//! The two policies differ in the place of the log. Next to the tables, it disturbs reads least, but each write of the
//! log waits behind those of tables. On SSDs of its own ([`Isolation::roles`]) it never waits for large IOs, and reads
//! there are disturbed by small writes only.
//!
//! Holds: `reads_avoid_ssds_that_are_written_to`, `who_only_reads_avoids_nothing`,
//!        `every_ssd_writes_in_its_turn`,
//!        `copies_written_together_are_seldom_busy_together`, `what_is_too_busy_is_not_kept_to`, `the_log_has_ssds_of_its_own`.
//! Like read/write isolation in Sandook (NSDI '26); parts by a fixed rotation without a central controller are ours, so
//! that all clients of a rack agree when their clocks do. So is the log apart.

use super::latency::{Latency, slowed};
use super::{Data, Load, Steering};
use crate::SsdId;
use std::collections::BTreeMap;
use units::{Instant, Nanos};

/// Time for which a part is the writing one.
const PERIOD: Nanos = Nanos::millis(500);
/// Excess of own outstanding work in the writing part over other SSDs, in reads (`latency`), up to which new data goes
/// to the writing part.
const SPILL: i64 = 3;
/// Factor by which the wait elsewhere must be longer before the writing part is read.
const PENALTY: u64 = 3;

/// Separates reads from writes.
#[derive(Clone, Debug, Default)]
pub struct Isolation {
    /// Domain and position of each SSD.
    places: BTreeMap<SsdId, (u64, u64)>,
    /// Turns until a domain writes to the same SSD again; 0 if nothing can be separated.
    count: u64,
    /// The distance of the log's SSDs from those of the tables, in positions.
    log_behind: u64,
    /// The time at which the last write of this client completed.
    wrote: Option<Instant>,
    load: Latency,
}

impl Isolation {
    /// The policy that also separates the log from the tables.
    pub fn roles() -> Isolation {
        Isolation { log_behind: 1, ..Isolation::default() }
    }

    /// The distance of an SSD from the one of its domain that gets tables. `None` if there is no separation.
    fn behind(&self, now: Instant, ssd: SsdId) -> Option<u64> {
        let turn = now.0 / PERIOD.0;
        let round = turn.checked_div(self.count)?;
        let &(domain, position) = self.places.get(&ssd)?;
        let first = turn.wrapping_add(domain.wrapping_mul(round)) % self.count;
        Some((position % self.count + self.count - first) % self.count)
    }

    fn writes(&self, now: Instant, ssd: SsdId) -> bool {
        self.behind(now, ssd) == Some(0)
    }

    /// The policy without separation.
    pub(super) fn load(&self) -> &Latency {
        &self.load
    }

    /// The same, for a decision about a read.
    pub(super) fn by_load(&mut self) -> &mut Latency {
        &mut self.load
    }

    /// Whether this client has written lately. Then similar clients probably have as well, and there are writes to
    /// avoid.
    fn is_writer(&self, now: Instant) -> bool {
        self.wrote.is_some_and(|wrote| now.saturating_since(wrote) < PERIOD)
    }
}

impl Steering for Isolation {
    fn read(&mut self, now: Instant, copies: [(SsdId, Load); 2]) -> usize {
        let [one, other] = copies.map(|(ssd, _)| self.writes(now, ssd));
        if one == other || !self.is_writer(now) {
            return self.load.read(now, copies);
        }
        let [quiet, writing] = [usize::from(one), usize::from(other)];
        let score = |copy: usize| self.load.score(now, copies[copy].0, copies[copy].1);
        if score(quiet) > score(writing) * PENALTY { writing } else { quiet }
    }

    fn rank(&self, now: Instant, ssd: SsdId, load: Load, data: Data) -> i64 {
        let place = match data {
            Data::Bulk => 0,
            Data::Log => self.log_behind,
        };
        let part = if self.behind(now, ssd) == Some(place) { SPILL } else { 0 };
        4 * part - slowed(load)
    }

    fn on_completion(&mut self, now: Instant, ssd: SsdId, is_read: bool, bytes: u64, latency: Nanos) {
        if !is_read {
            self.wrote = Some(now);
        }
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
        policy.on_completion(Instant::ZERO, SsdId(0), false, 4096, Nanos::micros(50));
        (policy, ssds.into_iter().map(|(ssd, _)| ssd).collect())
    }

    #[test]
    fn reads_avoid_ssds_that_are_written_to() {
        let (mut policy, ssds) = rack();
        let load = Load::default();
        let best = ssds
            .iter()
            .copied()
            .max_by_key(|ssd| policy.rank(Instant::ZERO, *ssd, load, Data::Bulk))
            .expect("12");
        let quiet = ssds.iter().copied().find(|ssd| !policy.writes(Instant::ZERO, *ssd)).expect("most");
        assert!(policy.writes(Instant::ZERO, best));
        assert_eq!(policy.read(Instant::ZERO, [(best, load), (quiet, load)]), 1);
        assert_eq!(policy.read(Instant::ZERO, [(quiet, load), (best, load)]), 0);
    }

    #[test]
    fn who_only_reads_avoids_nothing() {
        let (mut policy, ssds) = rack();
        let later = Instant::ZERO + PERIOD;
        let writing = ssds.iter().copied().find(|ssd| policy.writes(later, *ssd)).expect("some");
        let quiet = ssds.iter().copied().find(|ssd| !policy.writes(later, *ssd)).expect("most");
        let load = Load::default();
        let reads = |policy: &mut Isolation| {
            (0..10).filter(|_| policy.read(later, [(writing, load), (quiet, load)]) == 0).count()
        };
        assert_eq!(reads(&mut policy), 5, "by turns");
        policy.on_completion(later, quiet, false, 4096, Nanos::micros(50));
        assert_eq!(reads(&mut policy), 0);
    }

    #[test]
    fn the_log_has_ssds_of_its_own() {
        let (isolation, ssds) = rack();
        let roles = Isolation { log_behind: 1, ..isolation.clone() };
        let best = |policy: &Isolation, data| -> Vec<SsdId> {
            let rank = |ssd: SsdId| policy.rank(Instant::ZERO, ssd, Load::default(), data);
            let most = ssds.iter().map(|ssd| rank(*ssd)).max().expect("12");
            ssds.iter().copied().filter(|ssd| rank(*ssd) == most).collect()
        };
        let (tables, log) = (best(&roles, Data::Bulk), best(&roles, Data::Log));
        assert_eq!((tables.len(), log.len()), (3, 3), "one of each target");
        assert!(log.iter().all(|ssd| !tables.contains(ssd)));
        assert_eq!(best(&isolation, Data::Log), tables);
        assert_eq!(best(&isolation, Data::Bulk), tables);
    }

    #[test]
    fn what_is_too_busy_is_not_kept_to() {
        let (mut policy, ssds) = rack();
        let writing = ssds.iter().copied().find(|ssd| policy.writes(Instant::ZERO, *ssd)).expect("some");
        let quiet = ssds.iter().copied().find(|ssd| !policy.writes(Instant::ZERO, *ssd)).expect("most");
        let idle = Load::default();
        let behind = Load { in_flight: 16, writing: 4 << 20, ..idle };
        assert!(
            policy.rank(Instant::ZERO, writing, behind, Data::Bulk)
                < policy.rank(Instant::ZERO, quiet, idle, Data::Bulk),
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
