//! Names of keys, and the bytes of fields.

use crate::workload::{Order, Workload};
use rand::Rng;

/// FNV-1a over the eight bytes of a number, least significant first; the absolute value, as in YCSB.
pub(crate) fn hash(number: u64) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let hashed =
        number.to_le_bytes().iter().fold(OFFSET, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
    hashed.cast_signed().unsigned_abs()
}

impl Workload {
    /// The key of a record: `user` and a number.
    pub fn key(&self, record: u64) -> String {
        let number = match self.order {
            Order::Hashed => hash(record),
            Order::Ordered => record,
        };
        format!("user{number:0width$}", width = self.zero_padding)
    }

    /// The position of a record in the order of keys, as a number.
    pub fn place(&self, record: u64) -> u64 {
        let key = self.key(record);
        // As a fraction, so that shorter numbers sort correctly.
        let digits = key.bytes().skip(4).chain(std::iter::repeat(b'0')).take(19);
        digits.fold(0, |place, digit| place * 10 + u64::from(digit - b'0'))
    }

    /// The name of a field.
    pub fn field(&self, field: u32) -> String {
        format!("{}{field}", self.field_prefix)
    }

    /// The one value that a field of a record may have when `dataintegrity` is set.
    pub fn expected(&self, record: u64, field: u32, length: usize) -> Vec<u8> {
        let mut text = format!("{}:{}", self.key(record), self.field(field));
        let mut hash = java_hash(0, &text);
        while text.len() < length {
            // Appends a hash of the text so far, computed like Java's hash of strings.
            hash = java_hash(hash, ":");
            let part = hash.to_string();
            hash = java_hash(hash, &part);
            text.push(':');
            text.push_str(&part);
        }
        text.truncate(length);
        text.into_bytes()
    }
}

/// Java's hash of a string, continued from the hash of the text before `text`.
fn java_hash(before: i32, text: &str) -> i32 {
    text.bytes().fold(before, |hash, byte| hash.wrapping_mul(31).wrapping_add(i32::from(byte)))
}

/// Random bytes from the characters that YCSB uses, so that they compress as well as its own.
pub(crate) fn random(length: usize, rng: &mut impl Rng) -> Vec<u8> {
    const MASKS: [u8; 6] = [31, 63, 95, 31, 63, 95];
    let mut bytes = vec![0; length];
    rng.fill(bytes.as_mut_slice());
    for (byte, mask) in bytes.iter_mut().zip(MASKS.iter().cycle()) {
        *byte = (*byte & mask) + b' ';
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Properties;

    #[test]
    fn a_value_to_be_checked_depends_on_record_field_and_length_alone() {
        let properties = Properties::core('a').expect("a core workload");
        let workload = Workload::new(&properties).expect("it works");
        let value = workload.expected(7, 3, 60);
        assert_eq!(value.len(), 60);
        assert!(value.starts_with(format!("{}:field3:", workload.key(7)).as_bytes()));
        assert_eq!(workload.expected(7, 3, 40), value[..40]);
        assert_ne!(workload.expected(8, 3, 60), value);
    }

    #[test]
    fn places_are_in_the_order_of_keys() {
        let workload = Workload::new(&Properties::core('a').expect("a core workload")).expect("it works");
        let mut by_key: Vec<u64> = (0..1000).collect();
        by_key.sort_by_key(|record| workload.key(*record));
        assert!(by_key.windows(2).all(|pair| workload.place(pair[0]) < workload.place(pair[1])));
    }

    #[test]
    fn text_is_hashed_as_java_does() {
        // "hello".hashCode() in Java.
        assert_eq!(java_hash(0, "hello"), 99_162_322);
        assert_eq!(java_hash(java_hash(0, "he"), "llo"), 99_162_322);
    }
}
