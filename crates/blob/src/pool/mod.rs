//! The local allocator: micro blobs out of the mega blobs that the volume owns.
//!
//! Primary and shadow are reserved together, on SSDs of two domains (targets). Among the possible SSDs, those that the
//! steering ranks highest are chosen: with the paper's rule those with the most credit. SSDs of equal rank take turns
//! in an order that differs from volume to volume; else all volumes of a rack would begin on the same two SSDs. On an
//! SSD, the fullest mega blob is filled first. If a chosen SSD has no free micro blob left, the reply names the SSDs on
//! which to take mega blobs from the store.
//!
//! ```text
//!   reserve ──► Pair(primary, shadow)          release ──► free at once, or after a quarantine
//!          ├──► Need(ssds): take mega blobs, then ask again
//!          ├──► Single(primary): only one domain can be reached
//!          └──► Full
//! ```
//!
//! Holds: no micro blob is allocated twice (`a_place_has_one_user`); copies never share a domain
//!        (`copies_lie_in_two_domains`); equal SSDs get equal amounts (`ssds_of_equal_rank_get_equally_much`).
//! Paper: Gimbal §4.3 (the local agent). The rule for one reachable domain and the quarantine are ours.

mod free;

use crate::{Geometry, Mega, Place, SsdId};
use free::Free;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use units::Instant;

#[derive(Debug)]
struct Ssd {
    domain: String,
    /// Total number of mega blobs.
    megas: u32,
    is_up: bool,
    /// Whether the store has no mega blob left on this SSD.
    is_exhausted: bool,
    free: Free,
    quarantine: VecDeque<(Instant, u64)>,
}

impl Ssd {
    fn unused(&self) -> usize {
        self.free.len() + self.quarantine.len()
    }
}

/// The free micro blobs of a volume.
#[derive(Debug)]
pub struct Pool {
    geometry: Geometry,
    /// Differs from volume to volume.
    seed: u64,
    /// Number of micro blobs allocated so far.
    turn: u64,
    ssds: BTreeMap<SsdId, Ssd>,
    used: BTreeSet<Place>,
    megas: BTreeSet<Mega>,
}

/// The result of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reserve {
    /// Primary and shadow.
    Pair(Place, Place),
    /// Only one domain can be reached.
    Single(Place),
    /// These SSDs would be chosen, but mega blobs must be taken first.
    Need(Vec<SsdId>),
    /// No space on two domains. If a micro blob will leave quarantine, the time of that.
    Full {
        /// The time for the next try.
        until: Option<Instant>,
    },
}

impl Pool {
    /// An empty pool. `seed` differs from volume to volume.
    pub fn new(geometry: Geometry, seed: u64) -> Pool {
        Pool { geometry, seed, turn: 0, ssds: BTreeMap::new(), used: BTreeSet::new(), megas: BTreeSet::new() }
    }

    /// Adds an SSD, or updates its domain and size.
    pub fn add_ssd(&mut self, ssd: SsdId, domain: &str, megas: u32) {
        let entry = self.ssds.entry(ssd).or_insert_with(|| Ssd {
            domain: String::new(),
            megas: 0,
            is_up: false,
            is_exhausted: false,
            free: Free::new(self.geometry.mega_micros()),
            quarantine: VecDeque::new(),
        });
        domain.clone_into(&mut entry.domain);
        entry.is_exhausted &= entry.megas == megas;
        entry.megas = megas;
    }

    /// Sets whether the SSD can be reached.
    pub fn set_up(&mut self, ssd: SsdId, is_up: bool) {
        if let Some(ssd) = self.ssds.get_mut(&ssd) {
            ssd.is_up = is_up;
        }
    }

    /// Whether the SSD can be reached.
    pub fn is_up(&self, ssd: SsdId) -> bool {
        self.ssds.get(&ssd).is_some_and(|ssd| ssd.is_up)
    }

    /// Whether SSDs of two domains can be reached.
    pub fn has_pairs(&self) -> bool {
        let mut up = self.ssds.values().filter(|ssd| ssd.is_up).map(|ssd| &ssd.domain);
        up.next().is_some_and(|first| up.any(|other| other != first))
    }

    /// The SSDs.
    pub fn ssds(&self) -> impl Iterator<Item = SsdId> + '_ {
        self.ssds.keys().copied()
    }

    /// Mega blobs of an SSD in all.
    pub fn megas_of(&self, ssd: SsdId) -> u32 {
        self.ssds.get(&ssd).map_or(0, |ssd| ssd.megas)
    }

    /// The domain of an SSD.
    pub fn domain(&self, ssd: SsdId) -> Option<&str> {
        self.ssds.get(&ssd).map(|ssd| ssd.domain.as_str())
    }

    /// Sets whether the store has no mega blob left on this SSD.
    pub fn set_exhausted(&mut self, ssd: SsdId, is_exhausted: bool) {
        if let Some(ssd) = self.ssds.get_mut(&ssd) {
            ssd.is_exhausted = is_exhausted;
        }
    }

    /// Adds a mega blob that the volume owns for data. Its micro blobs are free from `from` on, except those in `used`.
    pub fn add_mega(&mut self, mega: Mega, used: &BTreeSet<Place>, from: Instant) {
        let Some(ssd) = self.ssds.get_mut(&mega.ssd) else { return };
        if !self.megas.insert(mega) {
            return;
        }
        let first = u64::from(mega.index) * self.geometry.mega_micros();
        for micro in first..first + self.geometry.mega_micros() {
            let place = Place { ssd: mega.ssd, micro };
            if used.contains(&place) {
                self.used.insert(place);
            } else if from == Instant::ZERO {
                ssd.free.push(micro);
            } else {
                ssd.quarantine.push_back((from, micro));
            }
        }
    }

    /// Reserves a primary and a shadow on the SSDs with the highest `rank`.
    pub fn reserve(&mut self, now: Instant, rank: impl Fn(SsdId) -> i64) -> Reserve {
        self.end_quarantine(now);
        let able = self.able(rank);
        let domain = |id: SsdId| &self.ssds[&id].domain;
        let up: BTreeSet<&String> =
            self.ssds.values().filter(|ssd| ssd.is_up).map(|ssd| &ssd.domain).collect();
        let primary = able.first().copied();
        let shadow = primary.and_then(|first| able.iter().copied().find(|&id| domain(id) != domain(first)));
        let chosen: Vec<SsdId> = match (primary, shadow) {
            (Some(primary), Some(shadow)) => vec![primary, shadow],
            (Some(primary), None) if up.len() == 1 => vec![primary],
            _ => return Reserve::Full { until: self.next_release() },
        };
        let lacking: Vec<SsdId> = chosen.iter().copied().filter(|id| self.ssds[id].free.is_empty()).collect();
        if !lacking.is_empty() {
            return Reserve::Need(lacking);
        }
        let places: Vec<Place> = chosen.iter().filter_map(|&id| self.take(id)).collect();
        match places[..] {
            [primary, shadow] => Reserve::Pair(primary, shadow),
            [primary] => Reserve::Single(primary),
            _ => unreachable!("{} of {} chosen SSDs had a free micro blob", places.len(), chosen.len()),
        }
    }

    /// Reserves one micro blob on another domain than `other`, for a new copy.
    pub fn reserve_copy(
        &mut self,
        now: Instant,
        other: Option<SsdId>,
        rank: impl Fn(SsdId) -> i64,
    ) -> Reserve {
        self.end_quarantine(now);
        let avoided = other.and_then(|id| self.ssds.get(&id)).map(|ssd| ssd.domain.clone());
        let best = self.able(rank).into_iter().find(|id| Some(&self.ssds[id].domain) != avoided.as_ref());
        match best {
            None => Reserve::Full { until: self.next_release() },
            Some(id) => match self.take(id) {
                Some(place) => Reserve::Single(place),
                None => Reserve::Need(vec![id]),
            },
        }
    }

    /// The SSDs that have space or may get some, the best first.
    fn able(&self, rank: impl Fn(SsdId) -> i64) -> Vec<SsdId> {
        let order = |id: SsdId| scattered(scattered(self.seed ^ self.turn << 32) ^ u64::from(id.0));
        let is_able = |ssd: &Ssd| ssd.is_up && !(ssd.free.is_empty() && ssd.is_exhausted);
        let able = self.ssds.iter().filter(|(_, ssd)| is_able(ssd)).map(|(&id, _)| (rank(id), id));
        let mut able: Vec<(i64, SsdId)> = able.collect();
        able.sort_by_cached_key(|&(rank, id)| (std::cmp::Reverse(rank), order(id)));
        able.into_iter().map(|(_, id)| id).collect()
    }

    fn take(&mut self, id: SsdId) -> Option<Place> {
        let micro = self.ssds.get_mut(&id)?.free.pop()?;
        let place = Place { ssd: id, micro };
        assert!(self.used.insert(place), "{place:?} is handed out twice");
        // Advanced only on success: a caller that takes mega blobs and then tries again gets the SSDs for which it took
        // them.
        self.turn += 1;
        Some(place)
    }

    /// Frees a micro blob. It may be allocated again from `from` on.
    pub fn release(&mut self, place: Place, from: Instant) {
        if !self.used.remove(&place) {
            return;
        }
        if let Some(ssd) = self.ssds.get_mut(&place.ssd) {
            ssd.quarantine.push_back((from, place.micro));
        }
    }

    /// Takes out mega blobs that are wholly free, all but `keep` of each SSD.
    pub fn take_idle(&mut self, now: Instant, keep: usize) -> Vec<Mega> {
        self.end_quarantine(now);
        let whole = self.ssds.iter_mut().flat_map(|(&id, ssd)| {
            let whole = ssd.free.take_whole(keep).into_iter();
            whole.map(move |index| Mega { ssd: id, index: index as u32 })
        });
        let idle: Vec<Mega> = whole.collect();
        self.megas.retain(|mega| !idle.contains(mega));
        idle
    }

    /// Takes out one mega blob of an SSD that is wholly free, if there is one.
    pub fn take_idle_of(&mut self, now: Instant, ssd: SsdId) -> Option<Mega> {
        self.end_quarantine(now);
        let free = &mut self.ssds.get_mut(&ssd)?.free;
        let others = free.whole().checked_sub(1)?;
        let mega = Mega { ssd, index: *free.take_whole(others).first()? as u32 };
        self.megas.remove(&mega);
        Some(mega)
    }

    fn end_quarantine(&mut self, now: Instant) {
        for ssd in self.ssds.values_mut() {
            let (over, stay): (VecDeque<_>, VecDeque<_>) =
                ssd.quarantine.drain(..).partition(|&(until, _)| until <= now);
            ssd.quarantine = stay;
            over.into_iter().for_each(|(_, micro)| ssd.free.push(micro));
        }
    }

    /// The time at which the next micro blob leaves quarantine.
    pub fn next_release(&self) -> Option<Instant> {
        self.ssds.values().flat_map(|ssd| ssd.quarantine.iter().map(|&(until, _)| until)).min()
    }

    /// Free micro blobs of an SSD, including those in quarantine.
    pub fn free_of(&self, ssd: SsdId) -> u64 {
        self.ssds.get(&ssd).map_or(0, |ssd| ssd.unused() as u64)
    }

    /// Micro blobs in use, and free ones including those in quarantine.
    pub fn count(&self) -> (usize, usize) {
        let free = self.ssds.values().map(Ssd::unused).sum();
        (self.used.len(), free)
    }
}

/// Scatters the bits of a number.
fn scattered(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry = Geometry { block: 512, micro: 1024, mega: 32_768, slots: 4 };

    fn pool() -> Pool {
        let mut pool = Pool::new(GEOMETRY, 7);
        for id in 0..4 {
            pool.add_ssd(SsdId(id), &format!("target-{}", id / 2), 4);
            pool.set_up(SsdId(id), true);
        }
        pool
    }

    fn fill(pool: &mut Pool) {
        for id in 0..4 {
            pool.add_mega(Mega { ssd: SsdId(id), index: 1 }, &BTreeSet::new(), Instant::ZERO);
        }
    }

    #[test]
    fn an_empty_pool_says_where_mega_blobs_are_needed() {
        let mut pool = pool();
        let by_number = |ssd: SsdId| i64::from(ssd.0);
        assert_eq!(pool.reserve(Instant::ZERO, by_number), Reserve::Need(vec![SsdId(3), SsdId(1)]));
        pool.add_mega(Mega { ssd: SsdId(3), index: 0 }, &BTreeSet::new(), Instant::ZERO);
        assert_eq!(pool.reserve(Instant::ZERO, by_number), Reserve::Need(vec![SsdId(1)]));
    }

    #[test]
    fn copies_lie_in_two_domains() {
        let mut pool = pool();
        fill(&mut pool);
        for round in 0..32 {
            let rank = |ssd: SsdId| i64::from((ssd.0 * 7 + round * 5) % 4);
            let Reserve::Pair(primary, shadow) = pool.reserve(Instant::ZERO, rank) else { break };
            assert_ne!(primary.ssd.0 / 2, shadow.ssd.0 / 2);
            assert_eq!(rank(primary.ssd), 3, "the primary goes where there is most credit");
        }
    }

    #[test]
    fn ssds_of_equal_rank_get_equally_much() {
        let mut counts = [[0; 4]; 2];
        let mut firsts = BTreeSet::new();
        for seed in 0..20 {
            let mut pool = Pool { seed, ..pool() };
            fill(&mut pool);
            for pair in 0..16 {
                let Reserve::Pair(primary, shadow) = pool.reserve(Instant::ZERO, |_| 0) else {
                    panic!("there is space")
                };
                counts[0][primary.ssd.0 as usize] += 1;
                counts[1][shadow.ssd.0 as usize] += 1;
                if pair == 0 {
                    firsts.insert((primary.ssd, shadow.ssd));
                }
            }
        }
        assert!(counts.iter().flatten().all(|count| (50..110).contains(count)), "of 80 each: {counts:?}");
        assert!(firsts.len() > 4, "all volumes begin in the same place: {firsts:?}");
    }

    #[test]
    fn a_place_has_one_user() {
        let mut pool = pool();
        fill(&mut pool);
        (0..4).for_each(|id| pool.set_exhausted(SsdId(id), true));
        let mut seen = BTreeSet::new();
        while let Reserve::Pair(primary, shadow) = pool.reserve(Instant::ZERO, |ssd| i64::from(ssd.0 % 2)) {
            assert!(seen.insert(primary) && seen.insert(shadow));
        }
        assert_eq!(seen.len(), 4 * 32);
        assert_eq!(pool.reserve(Instant::ZERO, |_| 0), Reserve::Full { until: None });
        let (later, first) = (Instant(50), *seen.iter().next().expect("there were some"));
        pool.release(first, later);
        assert_eq!(
            pool.reserve(Instant(49), |_| 0),
            Reserve::Full { until: Some(later) },
            "released micro blobs are in quarantine first"
        );
        assert_eq!(pool.reserve_copy(later, Some(SsdId(2)), |_| 0), Reserve::Single(first));
    }

    #[test]
    fn only_wholly_free_mega_blobs_are_idle() {
        let mut pool = pool();
        fill(&mut pool);
        let lowest = |ssd: SsdId| -i64::from(ssd.0);
        let Reserve::Pair(primary, shadow) = pool.reserve(Instant::ZERO, lowest) else {
            panic!("there is space")
        };
        let idle = pool.take_idle(Instant::ZERO, 0);
        assert_eq!(idle, [Mega { ssd: SsdId(1), index: 1 }, Mega { ssd: SsdId(3), index: 1 }]);
        pool.release(primary, Instant(9));
        pool.release(shadow, Instant(9));
        assert!(pool.take_idle(Instant(8), 0).is_empty(), "a micro blob is in quarantine");
        assert!(pool.take_idle(Instant(9), 1).is_empty(), "one of each SSD is kept");
        assert_eq!(pool.take_idle_of(Instant(9), SsdId(2)), Some(Mega { ssd: SsdId(2), index: 1 }));
        assert_eq!(pool.take_idle_of(Instant(9), SsdId(2)), None);
        assert_eq!(pool.take_idle(Instant(9), 0), [Mega { ssd: SsdId(0), index: 1 }]);
    }

    #[test]
    fn with_one_domain_left_there_is_one_copy() {
        let mut pool = pool();
        fill(&mut pool);
        pool.set_up(SsdId(0), false);
        pool.set_up(SsdId(1), false);
        assert!(matches!(pool.reserve(Instant::ZERO, |_| 0), Reserve::Single(place) if place.ssd.0 >= 2));
        assert!(matches!(pool.reserve_copy(Instant::ZERO, Some(SsdId(3)), |_| 0), Reserve::Full { .. }));
    }

    #[test]
    fn a_full_target_is_no_reason_to_give_up_the_second_copy() {
        let mut pool = pool();
        fill(&mut pool);
        (0..4).for_each(|id| pool.set_exhausted(SsdId(id), true));
        while let Reserve::Single(_) = pool.reserve_copy(Instant::ZERO, Some(SsdId(2)), |_| 0) {}
        assert_eq!(pool.reserve(Instant::ZERO, |_| 0), Reserve::Full { until: None });
    }
}
