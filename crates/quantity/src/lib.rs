//! Quantities as people type them: `4k`, `1G`, `500ms`, `200m` a second.
//!
//! Sizes follow fio: a suffix is binary (`k` = 1024) and case does not matter; `KiB`, `kb` and `k` are the same. Times carry
//! `ns`, `us`, `ms`, `s`, `m`, `h` or `d` (and fio's longer spellings of them); a bare number is seconds. A number may have
//! a decimal point as long as the whole comes out even: `1.5G`.

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};
use std::fmt;
use std::str::FromStr;
use units::{Bytes, Nanos};

/// A number of bytes, or of bytes per second, as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub Bytes);

/// A span of time as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Nanos);

/// Text that is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotAQuantity {
    /// It does not begin with a number.
    Number(String),
    /// It is no whole number of bytes or nanoseconds.
    Fine(String),
    /// The unit after the number is not known.
    Unit(String),
    /// More than 64 bits can count.
    TooLarge(String),
}

impl fmt::Display for NotAQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotAQuantity::Number(text) => {
                write!(f, "`{text}` does not begin with a number; write for example 4k, 1G, 10s")
            }
            NotAQuantity::Fine(text) => {
                write!(f, "`{text}` is no whole number of bytes or nanoseconds; give fewer digits")
            }
            NotAQuantity::Unit(unit) => {
                write!(
                    f,
                    "`{unit}` is no unit here; sizes know k, m, g, t and times know ns, us, ms, s, m, h, d"
                )
            }
            NotAQuantity::TooLarge(text) => write!(f, "`{text}` is more than can be counted"),
        }
    }
}

impl std::error::Error for NotAQuantity {}

/// Where the number ends and the unit begins.
fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim())
}

/// `number` × `unit`, exactly: `1.5` of 1024 is 1536, and `0.3` of it is nothing whole.
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
        return Err(NotAQuantity::Fine(text.to_string()));
    }
    let fraction = (parts / u128::from(scale)) as u64;
    let whole: u64 = whole.parse().map_err(|_| too_large())?;
    whole.checked_mul(unit).and_then(|whole| whole.checked_add(fraction)).ok_or_else(too_large)
}

impl FromStr for Size {
    type Err = NotAQuantity;
    fn from_str(text: &str) -> Result<Size, NotAQuantity> {
        let (number, unit) = split(text.trim());
        let shift = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ if number.is_empty() => return Err(NotAQuantity::Number(text.to_string())),
            _ => return Err(NotAQuantity::Unit(unit.to_string())),
        };
        Ok(Size(Bytes(times(text, number, 1 << shift)?)))
    }
}

impl FromStr for Span {
    type Err = NotAQuantity;
    fn from_str(text: &str) -> Result<Span, NotAQuantity> {
        let (number, unit) = split(text.trim());
        let nanos_per_unit = match unit.to_ascii_lowercase().as_str() {
            "ns" | "nsec" => 1,
            "us" | "µs" | "usec" => 1_000,
            "ms" | "msec" => 1_000_000,
            "" | "s" | "sec" => 1_000_000_000,
            "m" | "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "d" => 86_400_000_000_000,
            _ if number.is_empty() => return Err(NotAQuantity::Number(text.to_string())),
            _ => return Err(NotAQuantity::Unit(unit.to_string())),
        };
        Ok(Span(Nanos(times(text, number, nanos_per_unit)?)))
    }
}

/// Reads a quantity from a string (`"4k"`) or a bare number (`4096`).
struct Quantity<T>(std::marker::PhantomData<T>);

impl<T: FromStr<Err = NotAQuantity>> Visitor<'_> for Quantity<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or a number with a unit such as \"4k\" or \"10s\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        if number < 0 {
            return Err(E::invalid_value(Unexpected::Signed(number), &self));
        }
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        deserializer.deserialize_any(Quantity(std::marker::PhantomData))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        deserializer.deserialize_any(Quantity(std::marker::PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary_whatever_the_spelling() {
        for text in ["4k", "4K", "4kb", "4KiB", "4 KiB", "4096", "4096b"] {
            assert_eq!(text.parse(), Ok(Size(Bytes(4096))), "{text}");
        }
        assert_eq!("1G".parse(), Ok(Size(Bytes::gib(1))));
        assert_eq!("2t".parse(), Ok(Size(Bytes::gib(2048))));
        assert_eq!("1.5G".parse(), Ok(Size(Bytes(3 << 29))));
    }

    #[test]
    fn a_bare_time_is_seconds() {
        assert_eq!("10".parse(), Ok(Span(Nanos::secs(10))));
        assert_eq!("1.5s".parse(), Ok(Span(Nanos::millis(1500))));
        assert_eq!("250us".parse(), Ok(Span(Nanos::micros(250))));
        assert_eq!("0.3s".parse(), Ok(Span(Nanos::millis(300))));
        assert_eq!("7ns".parse(), Ok(Span(Nanos(7))));
        assert_eq!("2m".parse(), Ok(Span(Nanos::secs(120))));
        assert_eq!("1d".parse(), Ok(Span(Nanos::secs(86_400))));
        assert_eq!("5msec".parse(), Ok(Span(Nanos::millis(5))));
    }

    #[test]
    fn nonsense_says_what_is_wrong_with_it() {
        assert_eq!("".parse::<Size>(), Err(NotAQuantity::Number(String::new())));
        assert_eq!("4q".parse::<Size>(), Err(NotAQuantity::Unit("q".into())));
        assert_eq!("0.3k".parse::<Size>(), Err(NotAQuantity::Fine("0.3k".into())));
        for text in ["k", "1.k", ".5k", "-4k", "1e3", "\u{664}k"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
        assert_eq!("99999999t".parse::<Size>(), Err(NotAQuantity::TooLarge("99999999t".into())));
        assert_eq!("4k".parse::<Span>(), Err(NotAQuantity::Unit("k".into())));
    }
}
