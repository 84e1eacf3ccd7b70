//! The pairs of device and tenant that have series of their own.
//!
//! A series costs a metrics server memory for as long as it keeps data, and hosts choose their names. So there is a bound: first the tenants that the configuration
//! names, hosts and namespaces, then those with the most bytes lately. A pair that was shown stays for an hour, so that series do not come and go. All others are in the totals of their
//! devices, and counted.
//!
//! Holds: the sum of the shown and of the others is the device's (`tests/forms.rs`).

use server::{SsdStats, Stats, TenantStats};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use units::{Instant, Nanos};

/// The time that a pair stays after it was chosen by its bytes.
const KEPT: Nanos = Nanos::secs(3600);
/// Bytes count from one to two of these spans.
const LATELY: Nanos = Nanos::secs(600);
/// Pairs that have histograms: a histogram is 32 series.
const HISTOGRAMS_MAX: usize = 100;

/// A pair, as a number: names are long, and there can be 65,536 pairs.
type Pair = u64;

/// Chooses pairs at every scrape. It remembers bytes, a few per pair that the target knows.
#[derive(Debug)]
pub struct Shown {
    pairs_max: usize,
    hasher: RandomState,
    /// When each of the chosen leaves.
    until: HashMap<Pair, Instant>,
    /// Bytes at the mark before the last, and at the last.
    marks: [HashMap<Pair, u64>; 2],
    marked: Option<Instant>,
}

/// The choice for one scrape.
#[derive(Debug, Default)]
pub struct Tenants {
    /// By device, in the order of [`Stats::ssds`]: places in [`SsdStats::tenants`], with whether there are histograms.
    pub(crate) of: Vec<Vec<(usize, bool)>>,
    /// Pairs that are shown, and pairs that are not.
    pub counts: [usize; 2],
}

impl Shown {
    /// A choice of at most so many pairs.
    pub fn new(pairs_max: usize) -> Shown {
        let (until, marks, marked) = Default::default();
        Shown { pairs_max, hasher: RandomState::new(), until, marks, marked }
    }

    /// Chooses pairs of `stats`, the tenants that the configuration names first.
    pub fn choose(&mut self, now: Instant, stats: &Stats) -> Tenants {
        let mut pairs = Vec::new();
        for (device, ssd) in stats.ssds.iter().enumerate() {
            for (place, tenant) in ssd.tenants.iter().enumerate() {
                let pair = self.pair(ssd, tenant);
                let bytes = tenant.counters.reads.bytes + tenant.counters.writes.bytes;
                let lately = bytes.saturating_sub(self.marks[0].get(&pair).copied().unwrap_or(0));
                let is_named = tenant.tenant.host().is_none_or(|host| stats.named.contains(host));
                pairs.push((is_named, pair, (bytes, lately), (device, place)));
            }
        }
        self.mark(now, pairs.iter().map(|(_, pair, (bytes, _), _)| (*pair, *bytes)));
        self.until.retain(|_, until| *until > now);
        let is_kept = |pair: &Pair| self.until.contains_key(pair);
        pairs.sort_by_key(|(is_named, pair, (_, lately), _)| {
            (Reverse(*is_named), Reverse(is_kept(pair)), Reverse(*lately))
        });
        let all = pairs.len();
        pairs.truncate(self.pairs_max);
        let mut of = vec![Vec::new(); stats.ssds.len()];
        for (rank, (_, pair, _, (device, place))) in pairs.iter().enumerate() {
            self.until.entry(*pair).or_insert(now + KEPT);
            of[*device].push((*place, rank < HISTOGRAMS_MAX));
        }
        of.iter_mut().for_each(|places| places.sort_unstable());
        Tenants { of, counts: [pairs.len(), all - pairs.len()] }
    }

    fn pair(&self, ssd: &SsdStats, tenant: &TenantStats) -> Pair {
        self.hasher.hash_one((&ssd.device, &tenant.tenant))
    }

    /// Notes the bytes of all pairs, if it is time.
    fn mark(&mut self, now: Instant, bytes: impl Iterator<Item = (Pair, u64)>) {
        if self.marked.is_none_or(|at| now >= at + LATELY) {
            self.marked = Some(now);
            let latest = std::mem::replace(&mut self.marks[1], bytes.collect());
            self.marks[0] = latest;
        }
    }
}

impl Tenants {
    /// All tenants, without a bound.
    pub fn all(stats: &Stats) -> Tenants {
        let of: Vec<Vec<_>> = stats
            .ssds
            .iter()
            .map(|ssd| (0..ssd.tenants.len()).map(|place| (place, true)).collect())
            .collect();
        let shown = of.iter().map(Vec::len).sum();
        Tenants { of, counts: [shown, 0] }
    }
}
