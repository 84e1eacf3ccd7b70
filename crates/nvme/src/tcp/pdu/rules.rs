//! Which headers a receiver accepts, and where the parts of the PDU are.
//!
//! The common header decides alone. If type, flags, HLEN, PDO and PLEN match each other and the handshake,
//! the PDU can be split without looking at the rest. Reserved bits are ignored. A digest flag must be set if
//! and only if that digest was negotiated and the part that it covers is present. PDO counts only if there is
//! data.
//!
//! Holds: these rules accept what `emit` writes and find its parts again (`every_layout_round_trips`).
//! Elsewhere: `target` and `host` know the commands and checks the type specific fields.

use super::common::{
    CommonHeader, End, FLAG_DATA_DIGEST, FLAG_HEADER_DIGEST, FLAG_LAST, FLAG_SUCCESS, OFFSET_FLAGS,
    OFFSET_HLEN, OFFSET_PDO, OFFSET_PLEN, OFFSET_TYPE, PduType,
};
use super::digest::{DIGEST_SIZE, Digests};
use super::term::{HEADER_COPY_MAX, Violation};

/// The rules of a receiver.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The end that receives.
    pub receiver: End,
    /// Whether the handshake is still to come.
    pub handshake: bool,
    /// Negotiated digests.
    pub digests: Digests,
    /// Alignment of PDO that this end requested, in bytes.
    pub alignment: u8,
    /// Longest in-capsule data, in bytes.
    pub in_capsule_max: u32,
}

/// Where the parts of one PDU are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Type.
    pub pdu_type: PduType,
    /// FLAGS, as received or to be sent.
    pub flags: u8,
    /// Bytes of header plus header digest.
    pub header_end: u8,
    /// Bytes of padding between header and data.
    pub padding: u8,
    /// Bytes of data.
    pub data_length: u32,
}

impl Layout {
    /// Whether a header digest follows the header.
    pub fn header_digest(&self) -> bool {
        self.flags & FLAG_HEADER_DIGEST != 0
    }

    /// Whether a data digest follows the data.
    pub fn data_digest(&self) -> bool {
        self.flags & FLAG_DATA_DIGEST != 0
    }

    /// Whether this is the last PDU of its transfer.
    pub fn last(&self) -> bool {
        self.flags & FLAG_LAST != 0
    }

    /// Whether the command succeeded and no response follows.
    pub fn success(&self) -> bool {
        self.flags & FLAG_SUCCESS != 0
    }
}

impl Rules {
    /// The layout of the PDU that starts with `header`.
    pub fn layout(&self, header: &CommonHeader) -> Result<Layout, Violation> {
        let pdu_type = PduType::from_wire(header.pdu_type)
            .filter(|pdu_type| pdu_type.receiver() == self.receiver)
            .ok_or(Violation::field(OFFSET_TYPE))?;
        let flags = header.flags;
        let header_digest = match pdu_type {
            PduType::H2cTermReq | PduType::C2hTermReq => false,
            PduType::IcReq | PduType::IcResp if self.handshake => false,
            PduType::IcReq | PduType::IcResp => return Err(Violation::SEQUENCE),
            _ if self.handshake => return Err(Violation::SEQUENCE),
            _ => self.digests.header,
        };
        if (flags & FLAG_HEADER_DIGEST != 0) != header_digest {
            return Err(Violation::field(OFFSET_FLAGS));
        }
        if pdu_type == PduType::C2hData && flags & (FLAG_SUCCESS | FLAG_LAST) == FLAG_SUCCESS {
            return Err(Violation::field(OFFSET_FLAGS));
        }
        if header.hlen != pdu_type.header_length() {
            return Err(Violation::field(OFFSET_HLEN));
        }
        let header_end = header.hlen + if header_digest { DIGEST_SIZE as u8 } else { 0 };
        let after_header =
            header.plen.get().checked_sub(u32::from(header_end)).ok_or(Violation::field(OFFSET_PLEN))?;

        let bare = Layout { pdu_type, flags, header_end, padding: 0, data_length: 0 };
        match pdu_type {
            PduType::H2cTermReq | PduType::C2hTermReq => {
                if after_header > HEADER_COPY_MAX as u32 {
                    return Err(Violation::field(OFFSET_PLEN));
                }
                Ok(Layout { data_length: after_header, ..bare })
            }
            PduType::H2cData | PduType::C2hData => self.data_layout(header, bare, after_header),
            PduType::CapsuleCmd if after_header > 0 => {
                let layout = self.data_layout(header, bare, after_header)?;
                if layout.data_length > self.in_capsule_max {
                    return Err(Violation::field(OFFSET_PLEN));
                }
                Ok(layout)
            }
            _ if flags & FLAG_DATA_DIGEST != 0 => Err(Violation::field(OFFSET_FLAGS)),
            _ if after_header > 0 => Err(Violation::field(OFFSET_PLEN)),
            _ => Ok(bare),
        }
    }

    /// The layout of a PDU with its data in the `after_header` bytes after its header.
    fn data_layout(
        &self,
        header: &CommonHeader,
        bare: Layout,
        after_header: u32,
    ) -> Result<Layout, Violation> {
        if bare.data_digest() != self.digests.data {
            return Err(Violation::field(OFFSET_FLAGS));
        }
        let padding = header.pdo.checked_sub(bare.header_end).ok_or(Violation::field(OFFSET_PDO))?;
        if !header.pdo.is_multiple_of(self.alignment) {
            return Err(Violation::field(OFFSET_PDO));
        }
        let digest = if bare.data_digest() { DIGEST_SIZE as u32 } else { 0 };
        match after_header.checked_sub(u32::from(padding) + digest) {
            None | Some(0) => Err(Violation::field(OFFSET_PLEN)),
            Some(data_length) => Ok(Layout { padding, data_length, ..bare }),
        }
    }
}
