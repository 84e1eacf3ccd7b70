//! The one grammar for sizes and times that people type: `4k`, `1.5G`, `250us`, `30s`. Command line, configuration and experiment
//! files all read it here.
//!
//! ```text
//!  size = number [ b | k | m | g | t ]              binary as in fio and nvme-cli: k, kb and kib all mean 1024 bytes
//!  time = number ns | us | ms | s | m | h | d       and fio's long forms: nsec, usec, msec, sec, min
//! ```
//!
//! Case does not matter, and a space may stand before the unit. A number may have a decimal point if the result is
//! whole: `1.5k` is 1536 bytes, `0.3k` is an error. A size without a unit is in bytes. A time must have a unit, because
//! a bare number may mean milliseconds as well as seconds; only fio's options have a default unit
//! ([`time_with_default_unit`]).
//!
//! Holds: a quantity that is printed with a unit is read back as the same amount (`what_is_written_is_read_back`).

use crate::{Bytes, Nanos};
use alloc::string::{String, ToString};
use core::str::FromStr;

/// Text that is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAQuantity {
    /// It does not begin with a number.
    #[error("`{0}` does not begin with a number; write for example 4k, 1G or 10s")]
    Number(String),
    /// It is not a whole number of bytes or nanoseconds.
    #[error("`{0}` is not a whole number of bytes or nanoseconds; write fewer digits")]
    Fraction(String),
    /// The unit after the number is not known.
    #[error("`{0}` is not a known unit; sizes have k, m, g or t, times have ns, us, ms, s, m, h or d")]
    Unit(String),
    /// A time without a unit.
    #[error("`{0}` has no unit; write for example {0}s or {0}ms")]
    NoUnit(String),
    /// It does not fit into 64 bits.
    #[error("`{0}` is too large")]
    TooLarge(String),
}

/// The number, and the unit after it.
fn split(text: &str) -> Result<(&str, &str), NotAQuantity> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    if number.is_empty() {
        return Err(NotAQuantity::Number(text.to_string()));
    }
    Ok((number, unit.trim()))
}

/// `number` × `unit`, exactly: `1.5` of 1024 is 1536, and `0.3` of it is an error. `text` is quoted in the error.
fn times(text: &str, number: &str, unit: u64) -> Result<u64, NotAQuantity> {
    let not_a_number = || NotAQuantity::Number(text.to_string());
    let too_large = || NotAQuantity::TooLarge(text.to_string());
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return Err(not_a_number());
    }
    let scale = u32::try_from(fraction.len()).ok().and_then(|digits| 10u64.checked_pow(digits));
    let (scale, fraction) = scale.zip(fraction.parse::<u64>().ok()).ok_or_else(not_a_number)?;
    let parts = u128::from(fraction) * u128::from(unit);
    if !parts.is_multiple_of(u128::from(scale)) {
        return Err(NotAQuantity::Fraction(text.to_string()));
    }
    // Less than one unit, so it fits.
    let fraction = (parts / u128::from(scale)) as u64;
    let whole: u64 = whole.parse().map_err(|_| too_large())?;
    whole.checked_mul(unit).and_then(|whole| whole.checked_add(fraction)).ok_or_else(too_large)
}

fn time(text: &str, default_unit: Option<Nanos>) -> Result<Nanos, NotAQuantity> {
    let (number, unit) = split(text)?;
    let unit = match (unit.to_ascii_lowercase().as_str(), default_unit) {
        ("ns" | "nsec", _) => 1,
        ("us" | "µs" | "usec", _) => 1_000,
        ("ms" | "msec", _) => 1_000_000,
        ("s" | "sec", _) => 1_000_000_000,
        ("m" | "min", _) => 60_000_000_000,
        ("h", _) => 3_600_000_000_000,
        ("d", _) => 86_400_000_000_000,
        ("", Some(unit)) => unit.0,
        ("", None) => return Err(NotAQuantity::NoUnit(number.to_string())),
        _ => return Err(NotAQuantity::Unit(unit.to_string())),
    };
    times(text, number, unit).map(Nanos)
}

impl FromStr for Bytes {
    type Err = NotAQuantity;

    /// A size such as `4k`, `1.5G` or `4096`.
    fn from_str(text: &str) -> Result<Bytes, NotAQuantity> {
        let (number, unit) = split(text)?;
        let shift = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return Err(NotAQuantity::Unit(unit.to_string())),
        };
        times(text, number, 1 << shift).map(Bytes)
    }
}

impl FromStr for Nanos {
    type Err = NotAQuantity;

    /// A time with its unit, such as `250us` or `1.5s`.
    fn from_str(text: &str) -> Result<Nanos, NotAQuantity> {
        time(text, None)
    }
}

/// A time as [`Nanos::from_str`] reads it, but a number without a unit counts `unit`s. For options of fio only: a bare `runtime` is
/// in seconds there, a bare `latency_target` in microseconds.
///
/// # Errors
/// As for [`Nanos::from_str`], except [`NotAQuantity::NoUnit`].
pub fn time_with_default_unit(text: &str, unit: Nanos) -> Result<Nanos, NotAQuantity> {
    time(text, Some(unit))
}

/// A decimal fraction such as `0.25`, in thousandths.
///
/// # Errors
/// It is not a number, or it has digits below a thousandth.
pub fn thousandths(text: &str) -> Result<u64, NotAQuantity> {
    times(text, text.trim(), 1000)
}

/// In files: a size is a text (`"4k"`) or a whole number of bytes, a time is a text (`"10s"`).
#[cfg(feature = "serde")]
mod in_files {
    use super::*;
    use core::fmt;
    use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

    struct Size;

    impl Visitor<'_> for Size {
        type Value = Bytes;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a size such as \"4k\", or a number of bytes")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Bytes, E> {
            text.parse().map_err(E::custom)
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<Bytes, E> {
            let negative = || E::invalid_value(Unexpected::Signed(number), &self);
            u64::try_from(number).map(Bytes).map_err(|_| negative())
        }

        fn visit_u64<E: Error>(self, number: u64) -> Result<Bytes, E> {
            Ok(Bytes(number))
        }
    }

    struct Time;

    impl Visitor<'_> for Time {
        type Value = Nanos;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a time with its unit, such as \"10s\" or \"250us\"")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Nanos, E> {
            text.parse().map_err(E::custom)
        }
    }

    impl<'de> Deserialize<'de> for Bytes {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
            deserializer.deserialize_any(Size)
        }
    }

    impl<'de> Deserialize<'de> for Nanos {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
            deserializer.deserialize_any(Time)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(text: &str) -> Result<Bytes, NotAQuantity> {
        text.parse()
    }

    fn time(text: &str) -> Result<Nanos, NotAQuantity> {
        text.parse()
    }

    #[test]
    fn sizes_are_binary_whatever_the_spelling() {
        for text in ["4k", "4K", "4kb", "4KB", "4KiB", "4 KiB", " 4k ", "4096", "4096b", "4096B"] {
            assert_eq!(size(text), Ok(Bytes(4096)), "{text}");
        }
        assert_eq!(size("1G"), Ok(Bytes::gib(1)));
        assert_eq!(size("2t"), Ok(Bytes::gib(2048)));
        assert_eq!(size("1.5G"), Ok(Bytes(3 << 29)));
    }

    #[test]
    fn a_time_has_a_unit() {
        assert_eq!(time("1.5s"), Ok(Nanos::millis(1500)));
        assert_eq!(time("30S"), Ok(Nanos::secs(30)));
        assert_eq!((time("250us"), time("250 µs")), (Ok(Nanos::micros(250)), Ok(Nanos::micros(250))));
        assert_eq!(time("0.3s"), Ok(Nanos::millis(300)));
        assert_eq!(time("7ns"), Ok(Nanos(7)));
        assert_eq!((time("2m"), time("2min")), (Ok(Nanos::secs(120)), Ok(Nanos::secs(120))));
        assert_eq!((time("2h"), time("1d")), (Ok(Nanos::secs(7200)), Ok(Nanos::secs(86_400))));
        assert_eq!(time("5msec"), Ok(Nanos::millis(5)));
        assert_eq!(time("30"), Err(NotAQuantity::NoUnit("30".into())));
    }

    #[test]
    fn a_bare_time_of_a_fio_option_has_the_unit_of_that_option() {
        assert_eq!(time_with_default_unit("10", Nanos::secs(1)), Ok(Nanos::secs(10)));
        assert_eq!(time_with_default_unit("10", Nanos::micros(1)), Ok(Nanos::micros(10)));
        assert_eq!(time_with_default_unit("1.5ms", Nanos::secs(1)), Ok(Nanos::micros(1500)));
    }

    #[test]
    fn what_is_not_a_quantity_says_why() {
        assert_eq!(size(""), Err(NotAQuantity::Number(String::new())));
        assert_eq!(size("4q"), Err(NotAQuantity::Unit("q".into())));
        assert_eq!(size("4kk"), Err(NotAQuantity::Unit("kk".into())));
        assert_eq!(size("0.3k"), Err(NotAQuantity::Fraction("0.3k".into())));
        for text in ["k", "1.k", ".5k", "-4k", "1e3", "0.3", "1.2.3k", "\u{664}k"] {
            assert!(size(text).is_err(), "{text}");
        }
        assert_eq!(size("99999999t"), Err(NotAQuantity::TooLarge("99999999t".into())));
        assert_eq!(size("18446744073709551615"), Ok(Bytes(u64::MAX)));
        assert_eq!(size("18446744073709551616"), Err(NotAQuantity::TooLarge("18446744073709551616".into())));
        assert_eq!(time("4k"), Err(NotAQuantity::Unit("k".into())));
        assert_eq!(time("999999d"), Err(NotAQuantity::TooLarge("999999d".into())));
    }

    #[test]
    fn what_is_written_is_read_back() {
        for bytes in [Bytes(513), Bytes::kib(128), Bytes::mib(3), Bytes::gib(1)] {
            assert_eq!(size(&bytes.to_string()), Ok(bytes));
        }
        for span in [Nanos(7), Nanos(83_100), Nanos::micros(1500), Nanos::secs(2)] {
            assert_eq!(time(&span.to_string()), Ok(span));
        }
    }

    #[test]
    fn thousandths_are_exact() {
        assert_eq!(thousandths("0.25"), Ok(250));
        assert_eq!(thousandths("10"), Ok(10_000));
        assert!(thousandths("0.0001").is_err() && thousandths("1k").is_err());
    }
}
