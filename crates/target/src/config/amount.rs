//! Amounts as people write them: `100G`, `4KiB`, `250us`, `30s`.
//!
//! Sizes are binary, as fio's and nvme-cli's are: `K`, `KB` and `KiB` all mean 1024 bytes. A bare number is a number of
//! bytes. A span of time always names its unit, as nobody can tell milliseconds from seconds otherwise.

use units::{Bytes, Nanos};

const SIZE_SUFFIXES: [(&str, u64); 14] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1 << 40),
    ("GB", 1 << 30),
    ("MB", 1 << 20),
    ("KB", 1 << 10),
    ("T", 1 << 40),
    ("G", 1 << 30),
    ("M", 1 << 20),
    ("K", 1 << 10),
    ("B", 1),
    ("", 1),
];

const SPAN_SUFFIXES: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// `100G` → bytes; `None` if it is not a size.
pub fn parse_size(text: &str) -> Option<Bytes> {
    let text = text.trim();
    SIZE_SUFFIXES.iter().find_map(|&(suffix, unit)| {
        let number = strip_suffix_ignoring_case(text, suffix)?;
        Some(Bytes(whole_units(number, unit)?))
    })
}

/// `250us` → nanoseconds; `None` if it is not a span of time.
pub fn parse_span(text: &str) -> Option<Nanos> {
    let text = text.trim();
    SPAN_SUFFIXES
        .iter()
        .find_map(|&(suffix, unit)| Some(Nanos(whole_units(text.strip_suffix(suffix)?, unit)?)))
}

/// A decimal fraction such as `0.25` in thousandths; `None` if it is not one, or finer than a thousandth.
pub(super) fn parse_thousandths(text: &str) -> Option<u64> {
    whole_units(text.trim(), 1000)
}

/// `number` × `unit`, where `number` may have a decimal point as long as the product is whole (`1.5K` is 1536 bytes).
fn whole_units(number: &str, unit: u64) -> Option<u64> {
    let number = number.trim_end();
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let scale = 10u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let scaled = u128::from(fraction.parse::<u64>().ok()?) * u128::from(unit);
    if scaled % u128::from(scale) != 0 {
        return None;
    }
    let fraction = u64::try_from(scaled / u128::from(scale)).ok()?;
    whole.parse::<u64>().ok()?.checked_mul(unit)?.checked_add(fraction)
}

fn strip_suffix_ignoring_case<'a>(text: &'a str, suffix: &str) -> Option<&'a str> {
    let at = text.len().checked_sub(suffix.len())?;
    let (front, back) = (text.get(..at)?, text.get(at..)?);
    back.eq_ignore_ascii_case(suffix).then_some(front)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary_whatever_their_suffix_is_called() {
        for text in ["4096", "4K", "4k", "4KB", "4KiB", "4 KiB", "4096B"] {
            assert_eq!(parse_size(text), Some(Bytes(4096)), "{text}");
        }
        assert_eq!(parse_size("1.5G"), Some(Bytes(3 << 29)));
        assert_eq!(parse_size("2T"), Some(Bytes(2 << 40)));
    }

    #[test]
    fn what_is_not_a_size_is_not_guessed_at() {
        for text in ["", "K", "1Q", "-4K", "1.K", "0.3", "1e3", "99999999999T", "4KK", "٤K"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    #[test]
    fn a_span_of_time_names_its_unit() {
        assert_eq!(parse_span("250us"), Some(Nanos::micros(250)));
        assert_eq!(parse_span("1.5ms"), Some(Nanos::micros(1500)));
        assert_eq!(parse_span("30s"), Some(Nanos::secs(30)));
        assert_eq!(parse_span("2m"), Some(Nanos::secs(120)));
        assert_eq!(
            (parse_span("2h"), parse_span("1d")),
            (Some(Nanos::secs(7200)), Some(Nanos::secs(86_400)))
        );
        assert_eq!(parse_span("30"), None);
    }

    #[test]
    fn thousandths_are_exact() {
        assert_eq!(parse_thousandths("0.25"), Some(250));
        assert_eq!(parse_thousandths("10"), Some(10_000));
        assert_eq!(parse_thousandths("0.0001"), None);
    }
}
