//! The factor by which a live run is slower than the modelled SSD.
//!
//! The emulated SSD, the scheduler's clock and the tenants' timetables are all slower by the same factor. So nothing
//! changes in the SSD's own time, and each microsecond of delay on this machine counts less by this factor.

use server::config::Speed;
use std::fmt;
use units::{Instant, Nanos};

/// The emulated SSD's speed is set in thousandths.
const THOUSAND: u32 = 1000;

/// A factor that divides 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lab) struct Slow(u32);

impl Slow {
    /// Parses a factor.
    pub(in crate::lab) fn parse(text: &str) -> Result<Slow, String> {
        let factor = text.parse().ok().filter(|factor| *factor > 0 && THOUSAND.is_multiple_of(*factor));
        factor.map(Slow).ok_or_else(|| {
            "not a factor that divides 1000 (the emulated SSD's speed is set in thousandths); write 5, 10, 20, 25 or 50"
                .to_owned()
        })
    }

    /// The factor.
    pub(super) fn factor(self) -> u32 {
        self.0
    }

    /// The emulated SSD's speed.
    pub(super) fn speed(self) -> Speed {
        Speed::from_thousandths(THOUSAND / self.0).expect("a divisor of a thousand is no more than that")
    }

    /// Converts a span of the SSD's time to this machine's time.
    pub(super) fn stretch(self, span: Nanos) -> Nanos {
        Nanos(span.0.saturating_mul(u64::from(self.0)))
    }

    /// Converts a span of this machine's time to the SSD's time.
    pub(super) fn shrink(self, span: Nanos) -> Nanos {
        Nanos(span.0 / u64::from(self.0))
    }

    /// The SSD's clock at this time after the start of a run.
    pub(super) fn at(self, since_start: Nanos) -> Instant {
        Instant::ZERO + self.shrink(since_start)
    }

    /// Converts a number per second of the SSD's time into a number per second here; at least 1 unless it is zero.
    pub(super) fn rate(self, per_second: u64) -> u64 {
        per_second.div_ceil(u64::from(self.0))
    }
}

impl fmt::Display for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A span as minutes and seconds.
pub(super) fn clock(span: Nanos) -> String {
    let seconds = span.0.div_ceil(1_000_000_000);
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_and_the_speed_of_the_ssd_are_each_others_inverse() {
        for factor in [1, 2, 5, 8, 20, 125, 1000] {
            let slow = Slow::parse(&factor.to_string()).expect("it divides 1000");
            assert_eq!(slow.speed().thousandths() * factor, THOUSAND);
            assert_eq!(slow.shrink(slow.stretch(Nanos(1234))), Nanos(1234));
        }
        for text in ["0", "3", "1.5", "2000", "-1", "much"] {
            assert!(Slow::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn minutes_have_sixty_seconds() {
        assert_eq!([clock(Nanos::millis(500)), clock(Nanos::secs(125))], ["0:01", "2:05"]);
    }
}
