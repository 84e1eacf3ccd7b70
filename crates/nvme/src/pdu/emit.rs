//! Lays PDUs for sending: lengths, digests, padding.
//!
//! A PDU goes out in up to three parts: header with its digest and padding (copied), payload (moved), data digest (copied).
//!
//! Holds: what is laid here, `rules` and `reader` accept (`every_layout_round_trips`).

use super::common::{FLAG_DATA_DIGEST, FLAG_HEADER_DIGEST, Header};
use super::digest::{Crc32c, DIGEST_SIZE, Digests, crc32c};
use crate::buffer::{Outgoing, ZEROES};

/// Longest header with digest and padding: a command capsule with its digest (76 bytes), its data aligned to 72.
const LAID_MAX: usize = 144;

/// How this end sends.
#[derive(Clone, Copy, Debug)]
pub struct Framing {
    /// Digests agreed.
    pub digests: Digests,
    /// What PDO must be a multiple of: the alignment the peer asked for, in bytes.
    pub alignment: u8,
}

impl Framing {
    /// For the handshake: no digests yet.
    pub const HANDSHAKE: Framing = Framing { digests: Digests { header: false, data: false }, alignment: 4 };

    /// Lays `header` (its common part is filled in) for a PDU with `data_length` bytes of data and the given transfer
    /// flags. The data and `data_digest` must follow if `data_length` is not 0.
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

        let mut laid = [0; LAID_MAX];
        let (head, tail) = laid.split_at_mut(usize::from(hlen));
        head.copy_from_slice(header.as_bytes());
        if self.digests.header {
            tail[..DIGEST_SIZE].copy_from_slice(&crc32c(head).to_le_bytes());
        }
        out.header(&laid[..end]);
    }

    /// As `data_digest`, of `data` with as many zeroes behind it as make `length` bytes.
    pub fn filled_digest(&self, data: &[u8], length: usize) -> Option<[u8; DIGEST_SIZE]> {
        if !self.digests.data || data.len() == length {
            return self.data_digest(data);
        }
        let mut digest = Crc32c::default();
        digest.update(data);
        for from in (data.len()..length).step_by(ZEROES.len()) {
            digest.update(&ZEROES[..ZEROES.len().min(length - from)]);
        }
        Some(digest.value().to_le_bytes())
    }

    /// The digest of `data`, to be laid after it; `None` if data carries none.
    pub fn data_digest(&self, data: &[u8]) -> Option<[u8; DIGEST_SIZE]> {
        self.digests.data.then(|| crc32c(data).to_le_bytes())
    }
}
