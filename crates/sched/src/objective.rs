//! Latency objectives of tenants, and a scheduler's answer to them.
//!
//! "The 99th percentile of latency is at most x, as long as the tenant asks for at most y IOPS": the form in which ReFlex takes objectives
//! (§3.2, with the 95th percentile), and in which operators think of them.
//!
//! Elsewhere: `reflex` keeps objectives by a calibration, and `level::objectives` by the latencies that it sees.

use crate::policy::{SECOND, scaled};
use crate::reflex::TokenRate;
use units::{Bytes, Nanos};

/// A service-level objective: IOs per second, and a bound on their latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slo {
    /// IOs of 4 KiB per second; a larger one counts as several. Never zero.
    pub iops: u64,
    /// Reads, per cent of the IOs. The bound is one for reads; with 0 it is one for writes.
    pub read_percent: u8,
    /// The percentile, and so the part of the IOs that may take longer.
    pub percentile: Percentile,
    /// The bound on latency, in the switch and on the SSD.
    pub latency: Nanos,
}

/// A percentile of latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Percentile {
    /// One IO in 20 may take longer.
    P95,
    /// One in 100.
    P99,
}

impl Percentile {
    /// One IO in this many may take longer.
    pub const fn one_in(self) -> u64 {
        match self {
            Percentile::P95 => 20,
            Percentile::P99 => 100,
        }
    }
}

impl core::fmt::Display for Percentile {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Percentile::P95 => write!(f, "95th percentile"),
            Percentile::P99 => write!(f, "99th percentile"),
        }
    }
}

/// A service-level objective and the clock that it is meant on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Objective {
    /// The promise, in the tenant's time.
    pub slo: Slo,
    /// Length of the tenant's second on the scheduler's clock ([`Share::second`](crate::Share::second)).
    pub second: Nanos,
}

impl Objective {
    /// The bound on the latency, on the scheduler's clock; rounded down, so that the promise is kept.
    pub fn latency(&self) -> Nanos {
        scaled(self.slo.latency, self.second, SECOND)
    }

    /// A span of the scheduler's clock in the tenant's time, rounded up.
    pub(crate) fn in_tenants_time(&self, span: Nanos) -> Nanos {
        let nanos = u128::from(span.0) * u128::from(SECOND.0);
        Nanos(u64::try_from(nanos.div_ceil(u128::from(self.second.0))).unwrap_or(u64::MAX))
    }
}

/// State of an objective that is not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// It is promised, by the facts known of the SSD.
    Promised,
    /// Too little is known of the SSD to decide. It is tried; the result is in
    /// [`TenantView::objective`](crate::TenantView::objective).
    Tried,
}

/// Reason why an objective cannot be promised. All numbers are in the tenant's own time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It asks for nothing, or for more reads than IOs.
    #[error("an objective of {} IOPS with {} % reads below {} means nothing", .0.iops, .0.read_percent, .0.latency)]
    Meaningless(Slo),
    /// The calibration is one of another percentile.
    #[error("the calibration is one of the 95th percentile: nothing is known of the {0}")]
    NotCalibrated(Percentile),
    /// The SSD was never seen to be so fast.
    #[error("a bound of {bound} is stricter than {strictest}, the strictest that was calibrated")]
    TooStrict {
        /// The bound asked for.
        bound: Nanos,
        /// The strictest in the calibration.
        strictest: Nanos,
    },
    /// The reservations would exceed the tokens that the SSD can spend at the strictest bound.
    #[error(
        "{} tokens/s are asked for, but others have reserved {} of {}", .asked.whole(), .reserved.whole(), .supply.whole()
    )]
    TooMuch {
        /// Tokens per second asked for.
        asked: TokenRate,
        /// Tokens per second that others have reserved.
        reserved: TokenRate,
        /// Tokens per second that the SSD can spend.
        supply: TokenRate,
    },
    /// The SSD is slower, however little others do.
    #[error(
        "reads of {size} take longer than {bound} on this SSD even with as little else on it as an objective may cause: {seen} of the \
         {seen_of} that were seen took longer, up to {least}"
    )]
    TooSlow {
        /// The bound asked for.
        bound: Nanos,
        /// The size class of the reads.
        size: Bytes,
        /// The percentile that was seen with little else in the SSD.
        least: Nanos,
        /// Number of those that took longer than the bound.
        seen: u32,
        /// Number of IOs seen.
        seen_of: u32,
    },
    /// Its IOs alone would take more of the SSD than objectives may have.
    #[error(
        "{iops} IOPS take {asked} % of the SSD's time; objectives may have {most} %, of which others have {others} %"
    )]
    TooManyIos {
        /// IOs per second asked for.
        iops: u64,
        /// Part of the SSD's time that they take, per cent.
        asked: u64,
        /// Part that other objectives take.
        others: u64,
        /// Part that all may take.
        most: u64,
    },
}
