//! Device time in flight: how much work may be in the SSD at once, counted in the SSD's own time.
//!
//! The order of service has no effect on IOs inside the SSD. So there should only be as many as keep the SSD busy. The rest waits
//! in the switch, where weights and service lag decide, and where a tenant that asks for more than its credit delays itself alone.
//! And the IOs in the SSD wait for one another: by Little's law, as a rule, no longer than the time in flight.
//!
//! ```text
//!   limit on the device time in flight, in multiples of `thresh_min`
//!     8 ┤ one tenant: no other is in its way
//!     4 ┤          ▁▁▁▁▁▁▁▁▁▁▁           with writes, a read waits for a die that programs
//!     2 ┤▁▁▁▁▁▁▁▁╱            ╲▁▁▁▁▁▁▁   reads alone, or writes alone
//!       └┬────────┬───────────┬────────┬──► writes' part of what completed
//!        0       ⅙           ⅚         1
//! ```
//!
//! An IO's *charge* is its cost (`costs`), but at least that of a page of flash: with writes, IOs wait for dies,
//! and a read of 4 KiB holds one as long as one of 16. A tenant's *part* is twice its share of the limit: once for the SSD, and
//! once so that something of it waits in the switch. Its credit is the number of IOs that fit its part.
//!
//! IOs that hang delay no other tenant: those of a tenant that is *excused* do not count until all of them have ended.
//!
//! Holds: nothing is charged when all IOs have ended (`what_was_charged_is_taken_off`);
//!        the limit stays between its ends (`the_limit_stays_between_its_ends`).
//! Elsewhere: which tenant is next is `drr`.
//! The idea of letting no more in than keeps a device busy is throttled dispatch (Jin, Chase, Kaur, SIGMETRICS 2004; FlashFQ, ATC
//! 2013).

use crate::view::TimeInFlightView;
use crate::{Credit, Io, Mark};
use units::{ByteRate, Bytes, Instant, Nanos, TenantId};

/// Limits on device time in flight, counted in bytes of large reads as costs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlightLimits {
    /// Where all read, or all write.
    pub uniform: Bytes,
    /// Where some read and some write.
    pub mixed: Bytes,
    /// While only one tenant is active.
    pub alone: Bytes,
    /// The least that an IO is charged.
    pub io_min: Bytes,
}

impl InFlightLimits {
    /// The largest limit: many times what any SSD needs.
    pub const MAX: Bytes = Bytes::gib(1);
    /// A page of flash. Our choice: that of today's TLC, and of the model of a DCT983.
    const PAGE: Bytes = Bytes::kib(16);

    /// For an SSD with bandwidth `rate`, under-utilised at a latency of `thresh_min` or less.
    ///
    /// Ours, measured on the models of a DCT983 (`thresh_min` 250 µs): with once `thresh_min` small reads alone fall 3 % short of full
    /// speed, with twice it nothing does. With twice it readers that share with writers lose a tenth, with four times nothing; more than that
    /// adds to their latency only. A lone sequential reader of 4 KiB needs eight times it, as many of its reads are for one page.
    pub const fn of(rate: ByteRate, thresh_min: Nanos) -> InFlightLimits {
        let once = rate.0 as u128 * thresh_min.0 as u128 / NANOS_PER_SEC;
        InFlightLimits {
            uniform: size_of(2 * once),
            mixed: size_of(4 * once),
            alone: size_of(8 * once),
            io_min: InFlightLimits::PAGE,
        }
    }

    /// A fault of these limits, in words, if there is one.
    pub fn check(&self) -> Result<(), &'static str> {
        let rules = [
            (
                self.uniform > Bytes::ZERO && self.io_min > Bytes::ZERO,
                "some device time must be allowed in flight",
            ),
            (
                self.uniform <= self.mixed && self.mixed <= self.alone,
                "the limit must not be lower with writes, or for a tenant alone",
            ),
            (
                self.alone <= InFlightLimits::MAX && self.io_min <= InFlightLimits::MAX,
                "the limit must be at most 1 GiB",
            ),
        ];
        rules.iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, wrong)| Err(wrong))
    }

    /// The note on an IO of this cost: its charge.
    #[inline]
    pub(super) fn charge(&self, cost: Bytes) -> Mark {
        Mark(u32::try_from(cost.max(self.io_min).0).unwrap_or(u32::MAX))
    }

    fn between(&self, mixed: u64) -> Bytes {
        self.uniform + Bytes((self.mixed - self.uniform).0 * mixed / ONE)
    }
}

const fn size_of(bytes: u128) -> Bytes {
    let (least, most) = (InFlightLimits::PAGE.0, InFlightLimits::MAX.0);
    let bytes = if bytes > most as u128 { most } else { bytes as u64 };
    Bytes(if bytes < least { least } else { bytes })
}

/// Charge of an IO that was submitted with this note.
fn charged(mark: Mark) -> Bytes {
    Bytes(u64::from(mark.0))
}

/// Fixed point: parts of a whole.
const ONE: u64 = 1 << 16;
/// Interval at which the limit is reconsidered. As `fragmentation`: some ten times the latency of a loaded SSD.
const PERIOD: Nanos = Nanos::millis(50);
/// A period that was closed so late was mostly idle: all that was seen before it is forgotten.
const PERIOD_LATEST: Nanos = Nanos::millis(100);
/// The part of the observations that is forgotten with every period: an eighth.
const MEMORY: u64 = 8;
/// A tenant's part, in multiples of its share of the limit: once in the SSD, once waiting.
const PART_PER_SHARE: u64 = 2;
const NANOS_PER_SEC: u128 = 1_000_000_000;

/// The device time in flight of one SSD.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TimeInFlight {
    limit: Bytes,
    in_flight: Bytes,
    begun: Option<Instant>,
    /// Completed IOs, in charges, and the written part of them: in this period, and before it.
    now: [u64; 2],
    past: [u64; 2],
    /// The tenant of the first IO that completed in this period, and whether an IO of another tenant did, too.
    first: Option<TenantId>,
    several: bool,
}

impl TimeInFlight {
    /// Nothing in flight, and the limit is the one for reads with writes: the load is not known yet.
    pub(super) fn new(limits: &InFlightLimits) -> TimeInFlight {
        TimeInFlight { limit: limits.mixed, ..TimeInFlight::default() }
    }

    pub(super) fn view(&self) -> TimeInFlightView {
        TimeInFlightView { limit: self.limit, in_flight: self.in_flight }
    }

    /// Sets the limit from now on.
    pub(super) fn set_limit(&mut self, limit: Bytes) {
        self.limit = limit;
    }

    /// Whether the next IO must wait until one ends.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.in_flight >= self.limit
    }

    /// The part of a tenant of this weight among active ones of `active_weight` in all, itself included.
    pub(super) fn part(&self, weight: u32, active_weight: u64) -> Bytes {
        // Below 2³⁰ × 2 × 2³².
        Bytes(self.limit.0 * PART_PER_SHARE * u64::from(weight) / active_weight)
    }

    /// The part of a tenant that may have all of it.
    pub(super) fn whole(&self) -> Bytes {
        Bytes(self.limit.0 * PART_PER_SHARE)
    }

    /// Counts a completed IO. Returns whether the limit has changed.
    #[inline]
    pub(super) fn on_completion(&mut self, now: Instant, limits: &InFlightLimits, io: &Io) -> bool {
        let charge = charged(io.mark).0;
        self.now[0] += charge;
        if io.kind.pays_as_write() {
            self.now[1] += charge;
        }
        let another = *self.first.get_or_insert(io.tenant) != io.tenant && !self.several;
        self.several |= another;
        let span = now.since(*self.begun.get_or_insert(now));
        if span >= PERIOD { self.close_period(now, span, limits) } else { another && self.relimit(limits) }
    }

    fn close_period(&mut self, now: Instant, span: Nanos, limits: &InFlightLimits) -> bool {
        self.begun = Some(now);
        let seen = core::mem::take(&mut self.now);
        if span > PERIOD_LATEST {
            self.past = [0; 2];
        } else {
            self.past = [0, 1].map(|of| self.past[of] - self.past[of] / MEMORY + seen[of]);
        }
        let changed = self.relimit(limits);
        (self.first, self.several) = (None, false);
        changed
    }

    fn relimit(&mut self, limits: &InFlightLimits) -> bool {
        let [all, writes] = self.past;
        if all == 0 {
            return false; // nothing was seen yet
        }
        let written = (u128::from(writes) * u128::from(ONE) / u128::from(all)) as u64;
        // A load counts as a mix from a sixth of either kind on.
        let mixed = (8 * written * (ONE - written) / ONE).min(ONE);
        let limit = if self.several { limits.between(mixed) } else { limits.alone };
        core::mem::replace(&mut self.limit, limit) != limit
    }
}

/// One tenant's device time in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TenantTime {
    charged: Bytes,
    /// Whether its IOs do not count for the SSD until all of them have ended.
    is_excused: bool,
    /// Whether its IOs never count: they go whatever others have in the SSD, so others go whatever it has there.
    is_promised: bool,
    /// Moving average of the charges of its IOs, times [`MEAN_WEIGHT`]; zero before the first.
    mean: u64,
}

/// Weight of an IO in the average: one in this number.
const MEAN_WEIGHT: u64 = 16;

impl TenantTime {
    /// Whether another IO may go without more than `part` (and one IO) being in the SSD.
    #[inline]
    pub(super) fn may_submit(&self, part: Bytes) -> bool {
        self.charged < part || self.charged == Bytes::ZERO
    }

    /// Whether the tenant has in the SSD at least half of its credit, or half of `part`: while its credit holds it
    /// back, none of its IOs may wait here, and some of those that its credit allows are always on the wire.
    #[inline]
    pub(super) fn is_held_to(&self, part: Bytes) -> bool {
        let usual = self.mean.max(MEAN_WEIGHT);
        // The credit falls short of the part by less than one IO: where that decides, nothing is divided.
        if self.charged.0 * 2 + usual / MEAN_WEIGHT + 1 < part.0 {
            return false;
        }
        let credited = part.0 * MEAN_WEIGHT / usual * usual / MEAN_WEIGHT;
        let most = if credited == 0 { part.0 } else { credited };
        self.charged > Bytes::ZERO && self.charged.0 * 2 >= most
    }

    pub(super) fn has_any(&self) -> bool {
        self.charged > Bytes::ZERO
    }

    /// Charge of this many IOs of the tenant's usual charge.
    #[inline]
    pub(super) fn usual(&self, ios: u64) -> Bytes {
        Bytes((self.mean * ios).div_ceil(MEAN_WEIGHT))
    }

    /// The IOs of the tenant's usual charge that fit `part`, one at least.
    pub(super) fn credit(&self, part: Bytes, limits: &InFlightLimits) -> Credit {
        let usual = if self.mean == 0 { limits.io_min.0 * MEAN_WEIGHT } else { self.mean };
        Credit(u32::try_from(part.0 * MEAN_WEIGHT / usual).unwrap_or(u32::MAX).max(1))
    }

    #[inline]
    pub(super) fn on_submit(&mut self, time: &mut TimeInFlight, mark: Mark) {
        let charge = charged(mark);
        self.charged += charge;
        if self.counts() {
            time.in_flight += charge;
        }
        let mean = if self.mean == 0 { charge.0 * MEAN_WEIGHT } else { self.mean };
        self.mean = mean - mean / MEAN_WEIGHT + charge.0;
    }

    /// The IO that was submitted with `mark` has ended.
    #[inline]
    pub(super) fn on_end(&mut self, time: &mut TimeInFlight, mark: Mark) {
        let charge = charged(mark);
        assert!(charge <= self.charged, "an IO of {charge} ended where {} are in flight", self.charged);
        self.charged -= charge;
        if self.counts() {
            time.in_flight -= charge;
        }
        self.is_excused &= self.charged > Bytes::ZERO;
    }

    /// Whether it counts for the SSD.
    #[inline]
    fn counts(&self) -> bool {
        !(self.is_excused | self.is_promised)
    }

    /// Stops counting the tenant's IOs, which may never end, until all of them have ended.
    pub(super) fn excuse(&mut self, time: &mut TimeInFlight) {
        if self.counts() {
            time.in_flight -= self.charged;
        }
        self.is_excused = self.charged > Bytes::ZERO;
    }

    /// Counts the tenant's IOs as promised, so that they go to the SSD whatever others have there, or as ordinary ones.
    pub(super) fn promise(&mut self, time: &mut TimeInFlight, is_promised: bool) {
        let before = if self.counts() { self.charged } else { Bytes::ZERO };
        self.is_promised = is_promised;
        let after = if self.counts() { self.charged } else { Bytes::ZERO };
        time.in_flight = time.in_flight + after - before;
    }
}

#[cfg(test)]
#[path = "in_flight_tests.rs"]
mod tests;
