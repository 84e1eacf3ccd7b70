//! Values as a file has them, exact: reading one back gives the same value.

use units::{Bytes, Nanos};

/// The suffixes of sizes, the largest first.
const SIZES: [(&str, u64); 4] = [("T", 1 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)];
/// The units of time, the largest first.
const SPANS: [(&str, u64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

/// A size with the largest suffix that leaves a whole number.
pub(super) fn size(size: Bytes) -> String {
    whole(size.get(), &SIZES)
}

/// A span of time with the largest unit that leaves a whole number.
pub(super) fn span(span: Nanos) -> String {
    match span.get() {
        0 => "0s".to_owned(),
        nanos => whole(nanos, &SPANS),
    }
}

fn whole(number: u64, units: &[(&str, u64)]) -> String {
    let fits = |(_, unit): &&(&str, u64)| number > 0 && number.is_multiple_of(*unit);
    match units.iter().find(fits) {
        Some((suffix, unit)) => format!("{}{suffix}", number / unit),
        None => number.to_string(),
    }
}

/// A whole number of a configuration that passes its check.
pub(super) fn count(number: u64) -> toml::Value {
    toml::Value::Integer(i64::try_from(number).expect("`bounds` refuses larger numbers than TOML has"))
}

/// The word for `value` among the words that a reader knows.
pub(super) fn word<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> &'static str {
    words.iter().find_map(|(word, other)| (other == value).then_some(*word)).expect("every value has a word")
}

/// A factor in thousandths.
pub(super) fn factor(thousandths: u64) -> toml::Value {
    match thousandths.is_multiple_of(1000) {
        true => count(thousandths / 1000),
        false => toml::Value::Float(thousandths as f64 / 1000.0),
    }
}
