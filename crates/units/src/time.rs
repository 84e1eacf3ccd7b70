//! Points in time and spans of time, in nanoseconds.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Sub};

/// A span of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// No time.
    pub const ZERO: Nanos = Nanos(0);

    /// `n` microseconds.
    pub const fn micros(n: u64) -> Nanos {
        Nanos(n * 1_000)
    }

    /// `n` milliseconds.
    pub const fn millis(n: u64) -> Nanos {
        Nanos(n * 1_000_000)
    }

    /// `n` seconds.
    pub const fn secs(n: u64) -> Nanos {
        Nanos(n * 1_000_000_000)
    }

    /// The bare count.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Seconds, for people and plots; never for decisions.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// `self - other`, or zero if that would be negative.
    pub const fn saturating_sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.checked_add(other.0).expect("span of time overflows 64 bits"))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        *self = *self + other;
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Nanos>>(items: I) -> Nanos {
        items.fold(Nanos::ZERO, Add::add)
    }
}

impl fmt::Display for Nanos {
    /// Three significant digits or more in the unit that suits: `83.1 µs`, `1.50 ms`, `2.00 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0 as f64;
        match self.0 {
            0..1_000 => write!(f, "{} ns", self.0),
            1_000..1_000_000 => write!(f, "{:.1} µs", n / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.2} ms", n / 1e6),
            _ => write!(f, "{:.2} s", n / 1e9),
        }
    }
}

/// A point in time: nanoseconds since an origin that the caller chose (the start of a simulation, the boot of the machine).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

/// The earliest of these, if there is any. Without branches: it is asked in every turn of a thread.
#[inline]
pub fn earliest<const COUNT: usize>(all: [Option<Instant>; COUNT]) -> Option<Instant> {
    let first =
        all.into_iter().fold(Instant::FAR_FUTURE, |first, at| first.min(at.unwrap_or(Instant::FAR_FUTURE)));
    (first != Instant::FAR_FUTURE).then_some(first)
}

impl Instant {
    /// The origin.
    pub const ZERO: Instant = Instant(0);
    /// A point that no run reaches.
    pub const FAR_FUTURE: Instant = Instant(u64::MAX);

    /// The time from `earlier` to `self`.
    ///
    /// # Panics
    /// If `earlier` is later than `self`: time that runs backwards is a bug of ours.
    pub fn since(self, earlier: Instant) -> Nanos {
        Nanos(self.0.checked_sub(earlier.0).expect("time runs backwards"))
    }

    /// The time from `earlier` to `self`, or zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Instant) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// Seconds since the origin, for people and plots; never for decisions.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add<Nanos> for Instant {
    type Output = Instant;
    /// Saturates at [`Instant::FAR_FUTURE`], so that "never" plus a while is still never.
    fn add(self, span: Nanos) -> Instant {
        Instant(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Nanos> for Instant {
    fn add_assign(&mut self, span: Nanos) {
        *self = *self + span;
    }
}

impl Sub<Nanos> for Instant {
    type Output = Instant;
    /// Saturates at the origin.
    fn sub(self, span: Nanos) -> Instant {
        Instant(self.0.saturating_sub(span.0))
    }
}
