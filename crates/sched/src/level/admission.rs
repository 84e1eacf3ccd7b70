//! Admission of objectives: whether the SSD can keep one, from the prices and from the latencies that were seen.

use super::books::Books;
use super::kind::Kind;
use super::learnt::LearntReads;
use super::load_curve::{self, Answer, LoadCurve};
use super::objectives::PROMISED_MOST;
use super::prices::Prices;
use super::rules::LevelRules;
use crate::{Admitted, Io, IoKind, Objective, Refused, Share};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use units::{Bytes, Nanos, TenantId};

/// Facts about tenants and SSD that admission takes into account.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'a> {
    books: &'a Books,
    prices: &'a Prices,
    /// Whether any IO was served.
    has_served: bool,
}

impl Known<'_> {
    /// The facts in these rules.
    pub(super) fn of(rules: &LevelRules, has_served: bool) -> Known<'_> {
        Known { books: &rules.books, prices: &rules.prices, has_served }
    }
}

/// The latencies of reads that were seen, and the objectives that were refused.
#[derive(Clone, Debug)]
pub(super) struct Admission {
    curve: LoadCurve,
    /// Reads of this period that are still to be noted in the curve.
    to_note: u32,
    /// The part of the SSD's time that writing tenants had in the last period, in 1024ths.
    written: u64,
    refused: BTreeMap<TenantId, Refused>,
}

impl Admission {
    /// Admission with nothing seen.
    pub(super) fn new() -> Admission {
        Admission { curve: LoadCurve::new(), to_note: 0, written: 0, refused: BTreeMap::new() }
    }

    /// Takes over the latencies that an earlier run has seen.
    pub(super) fn tell(&mut self, reads: &[LearntReads]) {
        self.curve.tell(reads);
    }

    /// The latencies that were seen, to be kept.
    pub(super) fn learnt(&self) -> Vec<LearntReads> {
        self.curve.learnt()
    }

    /// Notes the latency of an IO that has ended, with this much device time in flight.
    #[inline]
    pub(super) fn on_completion(&mut self, io: &Io, in_flight: Bytes, latency: Nanos) {
        if self.to_note > 0 && io.kind == IoKind::Read {
            self.to_note -= 1;
            let others = in_flight.saturating_sub(Bytes(u64::from(io.mark.0)));
            self.curve.note(io.length, others, self.written, latency);
        }
    }

    /// Begins a period, after one of `span` in which writing tenants had `written` of the device time.
    pub(super) fn on_period(&mut self, written: u64, span: Nanos, is_probe: bool, is_squeezed: bool) {
        let written = u128::from(written) << 10;
        self.written = u64::try_from(written / u128::from(span.0.max(1))).unwrap_or(u64::MAX);
        // A probe is no state that lasts.
        self.to_note = match (is_probe, is_squeezed) {
            (true, _) => 0,
            // It may not last.
            (false, true) => load_curve::NOTED_SQUEEZED,
            (false, false) => load_curve::NOTED,
        };
    }

    /// The refusal of the tenant's objective, if it was refused.
    pub(super) fn refused(&self, tenant: TenantId) -> Option<Refused> {
        self.refused.get(&tenant).copied()
    }

    /// The objective of a share to keep, and whether the SSD is too slow for it now; notes a refusal.
    pub(super) fn take<'a>(
        &mut self,
        tenant: TenantId,
        share: &Share,
        others: impl Iterator<Item = &'a Objective>,
        known: &Known<'_>,
    ) -> (Option<Objective>, bool) {
        self.refused.remove(&tenant);
        let Some(objective) = share.objective() else { return (None, false) };
        match self.admit(tenant, &objective, others, known) {
            Ok(_) => (Some(objective), false),
            // The SSD may recover.
            Err(Refused::TooSlow { .. }) => (Some(objective), true),
            Err(refused) => {
                self.refused.insert(tenant, refused);
                (None, false)
            }
        }
    }

    /// Whether the objective can be kept together with those of others, by the prices and latencies seen until now.
    pub(super) fn admit<'a>(
        &self,
        tenant: TenantId,
        objective: &Objective,
        others: impl Iterator<Item = &'a Objective>,
        known: &Known<'_>,
    ) -> Result<Admitted, Refused> {
        let slo = objective.slo;
        if slo.iops == 0 || slo.read_percent > 100 || slo.latency == Nanos::ZERO {
            return Err(Refused::Meaningless(slo));
        }
        let others: u64 = others.map(|other| asks_for(known.prices, other).unwrap_or(0)).sum();
        let asked = asks_for(known.prices, objective).unwrap_or(0);
        if asked.saturating_add(others) > PROMISED_MOST * 10 {
            let [asked, others] = [asked, others].map(|thousandths| thousandths.div_ceil(10));
            return Err(Refused::TooManyIos { iops: slo.iops, asked, others, most: PROMISED_MOST });
        }
        if slo.read_percent == 0 {
            return Ok(Admitted::Tried);
        }
        let size = known.books.length(tenant).unwrap_or(Bytes::kib(4));
        // Until the first IO, assume that tenants write.
        let writes = self.written > 0 || !known.has_served;
        match self.curve.answer(size, objective.latency(), slo.percentile, writes) {
            Answer::Kept => Ok(Admitted::Promised),
            Answer::Missed { least, late, seen } => {
                let least = objective.in_tenants_time(least);
                Err(Refused::TooSlow { bound: slo.latency, size, least, seen: late, seen_of: seen })
            }
            Answer::Unknown => Ok(Admitted::Tried),
        }
    }
}

/// The part of the SSD's time that an objective's IOs take, in thousandths; `None` if their prices are not known.
fn asks_for(prices: &Prices, objective: &Objective) -> Option<u64> {
    let length = Bytes::kib(4);
    let reads = u64::from(objective.slo.read_percent.min(100));
    let time = |kind: IoKind| {
        let work = Kind::of(1, u32::from(kind == IoKind::Read), length.0);
        (prices.measured(work) > 0).then(|| prices.of(work, kind, length).0)
    };
    let of = |part: u64, kind| if part > 0 { time(kind).map(|time| time * part) } else { Some(0) };
    let hundred = of(reads, IoKind::Read)? + of(100 - reads, IoKind::Write)?;
    let all = u128::from(objective.slo.iops) * u128::from(hundred) * 10;
    Some(u64::try_from(all / u128::from(objective.second.0.max(1))).unwrap_or(u64::MAX))
}
