//! Writes outgoing PDUs: lengths, digests, padding.
//!
//! A PDU goes out in up to three parts: header with its digest and padding (copied), payload (moved), data
//! digest (copied).
//!
//! Holds: `rules` and `reader` accept the PDUs that are written here (`every_layout_round_trips`).

use super::common::{FLAG_DATA_DIGEST, FLAG_HEADER_DIGEST, Header};
use super::digest::{Crc32c, DIGEST_SIZE, Digests, crc32c};
use crate::buffer::{Outgoing, ZEROES};

/// Longest header with digest and padding. A command capsule with its digest has 76 bytes; its data may be
/// aligned to 72 bytes, so it starts at 144.
const HEADER_MAX: usize = 144;

/// How this end writes PDUs.
#[derive(Clone, Copy, Debug)]
pub struct Framing {
    /// Negotiated digests.
    pub digests: Digests,
    /// Alignment of PDO that the peer requested, in bytes.
    pub alignment: u8,
}

impl Framing {
    /// For the handshake: no digests yet.
    pub const HANDSHAKE: Framing = Framing { digests: Digests { header: false, data: false }, alignment: 4 };

    /// Writes `header` (and fills in its common part) for a PDU with `data_length` bytes of data and the
    /// given transfer flags. If `data_length` is not 0, the data and its `data_digest` must follow.
    #[inline]
    pub fn header<B, H: Header>(
        &self,
        out: &mut impl Outgoing<B>,
        mut header: H,
        transfer_flags: u8,
        data_length: u32,
    ) {
        let hlen = H::TYPE.header_length();
        let mut flags = transfer_flags;
        let mut end = usize::from(hlen);
        if self.digests.header {
            flags |= FLAG_HEADER_DIGEST;
            end += DIGEST_SIZE;
        }
        let mut pdo = 0;
        let mut plen = end as u32;
        if data_length > 0 {
            end = end.next_multiple_of(usize::from(self.alignment));
            pdo = end as u8;
            plen = end as u32 + data_length;
            if self.digests.data {
                flags |= FLAG_DATA_DIGEST;
                plen += DIGEST_SIZE as u32;
            }
        }
        let common = header.common_mut();
        common.pdu_type = H::TYPE as u8;
        common.flags = flags;
        common.hlen = hlen;
        common.pdo = pdo;
        common.plen = plen.into();

        if end == usize::from(hlen) {
            // No digest and no padding follow.
            return out.header(header.as_bytes());
        }
        let mut encoded = [0; HEADER_MAX];
        let (head, tail) = encoded.split_at_mut(usize::from(hlen));
        head.copy_from_slice(header.as_bytes());
        if self.digests.header {
            tail[..DIGEST_SIZE].copy_from_slice(&crc32c(head).to_le_bytes());
        }
        out.header(&encoded[..end]);
    }

    /// Like `data_digest`, for `data` followed by zeroes up to `length` bytes.
    #[inline]
    pub fn filled_digest(&self, data: &[u8], length: usize) -> Option<[u8; DIGEST_SIZE]> {
        if !self.digests.data {
            return None;
        }
        if data.len() == length {
            return self.data_digest(data);
        }
        let mut digest = Crc32c::default();
        digest.update(data);
        for from in (data.len()..length).step_by(ZEROES.len()) {
            digest.update(&ZEROES[..ZEROES.len().min(length - from)]);
        }
        Some(digest.value().to_le_bytes())
    }

    /// The digest of `data`, to be written after it; `None` if data digests are off.
    pub fn data_digest(&self, data: &[u8]) -> Option<[u8; DIGEST_SIZE]> {
        self.digests.data.then(|| crc32c(data).to_le_bytes())
    }
}
