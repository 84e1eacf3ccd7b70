//! CRC32C, the digest of headers and data.
//!
//! The digest of a header or a whole payload is computed in one call. The digest of a payload that arrives in
//! fragments is updated with each fragment, so nothing is read twice: only the CRC register is kept between
//! fragments.
//!
//! Holds: fragments give the same digest as the whole (`fragments_digest_like_the_whole`).

use crc_fast::{CrcAlgorithm, Digest};

/// Bytes of a digest on the wire.
pub const DIGEST_SIZE: usize = 4;

/// Digests that a connection uses, negotiated by ICReq and ICResp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// Headers have a digest.
    pub header: bool,
    /// Data has a digest.
    pub data: bool,
}

/// Bits of the DGST field.
const DGST_HEADER: u8 = 0x01;
const DGST_DATA: u8 = 0x02;

impl Digests {
    /// The DGST field.
    pub fn to_wire(self) -> u8 {
        (u8::from(self.header) * DGST_HEADER) | (u8::from(self.data) * DGST_DATA)
    }

    /// From the DGST field; `None` if a reserved bit is set.
    pub fn from_wire(field: u8) -> Option<Digests> {
        let digests = Digests { header: field & DGST_HEADER != 0, data: field & DGST_DATA != 0 };
        (digests.to_wire() == field).then_some(digests)
    }
}

/// CRC32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// A CRC32C that is updated fragment by fragment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crc32c {
    /// `None` before the first fragment.
    register: Option<u64>,
}

impl Crc32c {
    /// Adds the next fragment.
    pub fn update(&mut self, fragment: &[u8]) {
        let mut digest = match self.register {
            None => Digest::new(CrcAlgorithm::Crc32Iscsi),
            Some(register) => Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, register),
        };
        digest.update(fragment);
        self.register = Some(digest.get_state());
    }

    /// The digest of all fragments so far.
    pub fn value(&self) -> u32 {
        match self.register {
            None => crc32c(&[]),
            Some(register) => {
                Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, register).finalize() as u32
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_polynomial_is_castagnoli() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn fragments_digest_like_the_whole() {
        let bytes: Vec<u8> = (0..1000u32).map(|i| (i * 7) as u8).collect();
        for cut in [0, 1, 3, 64, 511, 999, 1000] {
            let mut crc = Crc32c::default();
            crc.update(&bytes[..cut]);
            crc.update(&bytes[cut..]);
            assert_eq!(crc.value(), crc32c(&bytes), "cut at {cut}");
        }
    }

    #[test]
    fn reserved_bits_of_dgst_are_refused() {
        for field in 0..=3 {
            assert_eq!(Digests::from_wire(field).map(Digests::to_wire), Some(field));
        }
        assert_eq!(Digests::from_wire(4), None);
    }
}
