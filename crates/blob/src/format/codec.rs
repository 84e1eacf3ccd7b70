//! Numbers and texts as bytes: LEB128 for numbers, length and UTF-8 for texts.
//!
//! Holds: reading arbitrary bytes ends with a value or an error, and never allocates more than the input is long
//!        (`record::tests::arbitrary_bytes_do_no_harm`).

/// The error for bytes that do not have the expected format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

pub(crate) fn put_u64(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_u64(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Reads from the front of bytes.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl Reader<'_> {
    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        let (&first, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        Ok(first)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(Malformed);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    /// Reads the number of the items that follow, each at least one byte long.
    pub(crate) fn count(&mut self) -> Result<usize, Malformed> {
        let count = usize::try_from(self.u64()?).map_err(|_| Malformed)?;
        if count > self.0.len() { Err(Malformed) } else { Ok(count) }
    }

    pub(crate) fn text(&mut self) -> Result<String, Malformed> {
        let length = self.count()?;
        let (text, rest) = self.0.split_at(length);
        self.0 = rest;
        String::from_utf8(text.to_vec()).map_err(|_| Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_u64(&mut bytes, value);
            let mut reader = Reader(&bytes);
            assert_eq!(reader.u64(), Ok(value));
            assert!(reader.0.is_empty());
        }
    }

    #[test]
    fn a_number_of_more_than_64_bits_is_malformed() {
        assert_eq!(Reader(&[0xff; 11]).u64(), Err(Malformed));
        assert_eq!(Reader(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).u64(), Err(Malformed));
        assert_eq!(Reader(&[0x80]).u64(), Err(Malformed));
    }
}
