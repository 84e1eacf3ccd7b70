//! A device's own clock.
//!
//! An emulated SSD can run slower or faster than real time. Its scheduler runs on the same clock. So thresholds, rates and periods keep
//! the values of the SSD. The clock of a real device is the machine's clock. Promises to a tenant are in real time; with each
//! share, the scheduler gets the length of a second of real time on its clock ([`DeviceClock::second`]).
//!
//! Holds: at the real time of `to_real`, the device's clock has reached the given time (`a_deadline_is_never_early`).

use crate::config::Speed;
use units::Instant;

const THOUSAND: u128 = 1000;

/// Converts between the machine's clock and the device's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceClock {
    /// Where both clocks show the same.
    origin: Instant,
    speed: Speed,
}

impl DeviceClock {
    /// The clock of a device in real time.
    pub(crate) const REAL: DeviceClock = DeviceClock { origin: Instant::ZERO, speed: Speed::REAL_TIME };

    /// A clock that runs at `speed` from now on.
    pub(crate) fn starting(now: Instant, speed: Speed) -> DeviceClock {
        DeviceClock { origin: now, speed }
    }

    /// The device's time at a moment of the machine's clock, rounded down.
    pub(crate) fn to_device(self, real: Instant) -> Instant {
        if self.speed == Speed::REAL_TIME {
            return real;
        }
        let span = u128::from(real.saturating_since(self.origin).get());
        self.origin + units::Nanos(clamp(span * u128::from(self.speed.thousandths()) / THOUSAND))
    }

    /// The first moment of the machine's clock at which the device's clock has reached `device`.
    pub(crate) fn to_real(self, device: Instant) -> Instant {
        if self.speed == Speed::REAL_TIME || device == Instant::FAR_FUTURE {
            return device;
        }
        let span = u128::from(device.saturating_since(self.origin).get());
        self.origin + units::Nanos(clamp((span * THOUSAND).div_ceil(u128::from(self.speed.thousandths()))))
    }

    /// Converts a span of the device's time to the machine's clock, rounded up.
    pub(crate) fn to_real_span(self, device: units::Nanos) -> units::Nanos {
        let span = u128::from(device.get()) * THOUSAND;
        units::Nanos(clamp(span.div_ceil(u128::from(self.speed.thousandths()))))
    }

    /// A second of the machine's clock, on the device's clock. Speeds are thousandths, so this is exact.
    pub(crate) fn second(self) -> units::Nanos {
        units::Nanos(1_000_000 * u64::from(self.speed.thousandths()))
    }
}

fn clamp(n: u128) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Nanos;

    #[test]
    fn a_deadline_is_never_early() {
        for thousandths in [1, 7, 100, 333, 1000, 2500, 30_000] {
            let speed = Speed::from_thousandths(thousandths).expect("above zero");
            let clock = DeviceClock::starting(Instant(1_000_003), speed);
            for span in [0, 1, 2, 999, 1000, 123_457, 1 << 40] {
                let device = Instant(1_000_003) + Nanos(span);
                let real = clock.to_real(device);
                assert!(clock.to_device(real) >= device, "{thousandths}: {span} ns are not over");
                if span > 0 {
                    assert!(
                        clock.to_device(real - Nanos(1)) < device,
                        "{thousandths}: {span} ns were over before"
                    );
                }
            }
        }
    }

    #[test]
    fn a_tenth_of_the_speed_is_a_tenth_of_the_time() {
        let clock = DeviceClock::starting(Instant(500), Speed::from_thousandths(100).expect("above zero"));
        assert_eq!(clock.to_device(Instant(500 + 1000)), Instant(500 + 100));
        assert_eq!(clock.to_real_span(Nanos(100)), Nanos(1000));
    }
}
