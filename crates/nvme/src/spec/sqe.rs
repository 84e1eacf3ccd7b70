//! The submission queue entry: 64 bytes that describe a command.
//!
//! The struct has the layout of the wire, so a command is read in place and built in place. On fabrics the
//! data pointer is always one SGL descriptor, and byte 4 of a fabrics command is its type, not a namespace.
//!
//! Holds: the struct is 64 bytes, and every accessor reads what its setter wrote (`accessors_read_what_setters_wrote`).
//! NVM Express Base Specification: "Submission Queue Entry", "SGL descriptors".

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Opcode of every fabrics command; which one is in `Sqe::fctype`.
pub const OPCODE_FABRICS: u8 = 0x7f;

/// Byte 1, bits 7:6: SGLs for data, contiguous metadata. The only choice on fabrics.
pub const FLAGS_PSDT_SGL: u8 = 0x40;
/// Byte 1, bits 7:6: mask of PSDT.
pub const FLAGS_PSDT_MASK: u8 = 0xc0;
/// Byte 1, bits 1:0: mask of the fused operation.
pub const FLAGS_FUSE_MASK: u8 = 0x03;
/// The first command of a fused operation.
pub const FLAGS_FUSE_FIRST: u8 = 0x01;
/// The second command of a fused operation.
pub const FLAGS_FUSE_SECOND: u8 = 0x02;

/// SGL descriptor identifier: data block (type 0h), offset (subtype 1h). The data is in the capsule.
const SGL_IN_CAPSULE: u8 = 0x01;
/// SGL descriptor identifier: transport data block (type 5h), transport specific (subtype Ah). The transport
/// moves the data.
const SGL_TRANSPORT: u8 = 0x5a;
/// SGL descriptor identifier: keyed data block (type 4h), address (subtype 0h). The controller moves the data.
const SGL_KEYED: u8 = 0x40;
/// The same with subtype Fh: the answer invalidates the key.
const SGL_KEYED_INVALIDATE: u8 = 0x4f;
/// Bits of the length in a keyed descriptor.
const KEYED_LENGTH_BITS: u32 = 24;

/// Direction of a command's data: bits 1:0 of the opcode, or of the fabrics command type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// No data.
    None,
    /// Host to controller.
    ToController,
    /// Controller to host.
    FromController,
    /// Both directions; no command over fabrics does this.
    Both,
}

/// A decoded SGL descriptor, of the types that NVMe/TCP and NVMe/RDMA define.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sgl {
    /// The data is in the capsule, `offset` bytes after the start of the in-capsule data.
    InCapsule {
        /// From the start of the in-capsule data, in bytes.
        offset: u64,
        /// In bytes.
        length: u32,
    },
    /// H2CData or C2HData PDUs move the data.
    Transport {
        /// In bytes; 0 for a command without data.
        length: u32,
    },
    /// The data is in the host's memory, which the controller reads and writes (NVMe/RDMA).
    Keyed {
        /// Of the first byte, in the host's terms.
        address: u64,
        /// In bytes, below 2^24; 0 for a command without data.
        length: u32,
        /// The key that opens the memory.
        key: u32,
        /// Whether the host asks for the key to be invalidated with the answer.
        invalidates: bool,
    },
    /// Any other descriptor; this is its identifier byte.
    Other(u8),
}

/// The 16 bytes of an SGL descriptor.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct SglDescriptor {
    address: U64,
    length: U32,
    /// Upper bytes of a key, the lowest of which is in `length`.
    key: [u8; 3],
    identifier: u8,
}

impl SglDescriptor {
    /// Decodes the descriptor.
    pub fn decode(&self) -> Sgl {
        match self.identifier {
            SGL_IN_CAPSULE => Sgl::InCapsule { offset: self.address.get(), length: self.length.get() },
            SGL_TRANSPORT => Sgl::Transport { length: self.length.get() },
            SGL_KEYED | SGL_KEYED_INVALIDATE => {
                let (low, [a, b, c]) = (self.length.get(), self.key);
                Sgl::Keyed {
                    address: self.address.get(),
                    length: low & ((1 << KEYED_LENGTH_BITS) - 1),
                    key: u32::from_le_bytes([(low >> KEYED_LENGTH_BITS) as u8, a, b, c]),
                    invalidates: self.identifier == SGL_KEYED_INVALIDATE,
                }
            }
            other => Sgl::Other(other),
        }
    }
}

impl From<Sgl> for SglDescriptor {
    fn from(sgl: Sgl) -> Self {
        let (address, length, key, identifier) = match sgl {
            Sgl::InCapsule { offset, length } => (offset, length, [0; 3], SGL_IN_CAPSULE),
            Sgl::Transport { length } => (0, length, [0; 3], SGL_TRANSPORT),
            Sgl::Keyed { address, length, key, invalidates } => {
                assert!(length < 1 << KEYED_LENGTH_BITS, "a keyed descriptor of {length} bytes");
                let [low, upper @ ..] = key.to_le_bytes();
                let identifier = if invalidates { SGL_KEYED_INVALIDATE } else { SGL_KEYED };
                (address, length | u32::from(low) << KEYED_LENGTH_BITS, upper, identifier)
            }
            Sgl::Other(identifier) => (0, 0, [0; 3], identifier),
        };
        SglDescriptor { address: address.into(), length: length.into(), key, identifier }
    }
}

/// A submission queue entry.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Sqe {
    opcode: u8,
    flags: u8,
    cid: U16,
    nsid: U32,
    cdw2: U32,
    cdw3: U32,
    metadata: U64,
    sgl: SglDescriptor,
    cdw10: U32,
    cdw11: U32,
    cdw12: U32,
    cdw13: U32,
    cdw14: U32,
    cdw15: U32,
}

impl Sqe {
    /// Bytes on the wire.
    pub const SIZE: usize = 64;

    /// A command with this opcode. All else is 0, except the SGL flag that fabrics requires.
    pub fn new(opcode: u8) -> Self {
        Sqe { opcode, flags: FLAGS_PSDT_SGL, sgl: Sgl::Transport { length: 0 }.into(), ..Sqe::default() }
    }

    /// A fabrics command of this type.
    pub fn fabrics(fctype: u8) -> Self {
        Sqe::new(OPCODE_FABRICS).with_nsid(u32::from(fctype))
    }

    /// Operation code (byte 0).
    pub fn opcode(&self) -> u8 {
        self.opcode
    }

    /// Fused operation and PSDT (byte 1).
    pub fn flags(&self) -> u8 {
        self.flags
    }

    /// Command identifier: any 16-bit value that the host chooses.
    pub fn cid(&self) -> u16 {
        self.cid.get()
    }

    /// Namespace identifier.
    pub fn nsid(&self) -> u32 {
        self.nsid.get()
    }

    /// Whether this is a fabrics command.
    pub fn is_fabrics(&self) -> bool {
        self.opcode == OPCODE_FABRICS
    }

    /// Fabrics command type (byte 4); meaningful only if `is_fabrics`.
    pub fn fctype(&self) -> u8 {
        self.nsid.as_bytes()[0]
    }

    /// Direction of the data.
    pub fn direction(&self) -> Direction {
        let coded = if self.is_fabrics() { self.fctype() } else { self.opcode };
        match coded & 0x03 {
            0 => Direction::None,
            1 => Direction::ToController,
            2 => Direction::FromController,
            _ => Direction::Both,
        }
    }

    /// The data pointer.
    pub fn sgl(&self) -> Sgl {
        self.sgl.decode()
    }

    /// Data length in the SGL descriptor; 0 for a descriptor that no transport here defines.
    pub fn sgl_length(&self) -> u32 {
        match self.sgl() {
            Sgl::InCapsule { length, .. } | Sgl::Transport { length } | Sgl::Keyed { length, .. } => length,
            Sgl::Other(_) => 0,
        }
    }

    /// Command dwords 10 and 11 as one number: the starting LBA of most IO commands, the offset of some admin
    /// commands.
    pub fn cdw10_11(&self) -> u64 {
        u64::from(self.cdw11()) << 32 | u64::from(self.cdw10())
    }

    /// Command dword 2.
    pub fn cdw2(&self) -> u32 {
        self.cdw2.get()
    }

    /// Command dword 3.
    pub fn cdw3(&self) -> u32 {
        self.cdw3.get()
    }

    /// Command dword 10.
    pub fn cdw10(&self) -> u32 {
        self.cdw10.get()
    }

    /// Command dword 11.
    pub fn cdw11(&self) -> u32 {
        self.cdw11.get()
    }

    /// Command dword 12.
    pub fn cdw12(&self) -> u32 {
        self.cdw12.get()
    }

    /// Command dword 13.
    pub fn cdw13(&self) -> u32 {
        self.cdw13.get()
    }

    /// Command dword 14.
    pub fn cdw14(&self) -> u32 {
        self.cdw14.get()
    }

    /// Command dword 15.
    pub fn cdw15(&self) -> u32 {
        self.cdw15.get()
    }

    /// Sets the command identifier.
    #[must_use]
    pub fn with_cid(mut self, cid: u16) -> Self {
        self.cid = cid.into();
        self
    }

    /// Sets the namespace identifier.
    #[must_use]
    pub fn with_nsid(mut self, nsid: u32) -> Self {
        self.nsid = nsid.into();
        self
    }

    /// Sets the flags (fused operation, PSDT).
    #[must_use]
    pub fn with_flags(mut self, flags: u8) -> Self {
        self.flags = flags;
        self
    }

    /// Sets the data pointer.
    #[must_use]
    pub fn with_sgl(mut self, sgl: Sgl) -> Self {
        self.sgl = sgl.into();
        self
    }

    /// Sets command dwords 10 to 15.
    #[must_use]
    pub fn with_cdw10_15(mut self, dwords: [u32; 6]) -> Self {
        [self.cdw10, self.cdw11, self.cdw12, self.cdw13, self.cdw14, self.cdw15] = dwords.map(U32::new);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accessors_read_what_setters_wrote() {
        let sqe = Sqe::new(0x01)
            .with_cid(0x101a)
            .with_nsid(7)
            .with_sgl(Sgl::InCapsule { offset: 0, length: 4096 })
            .with_cdw10_15([10, 11, 12, 13, 14, 15]);
        let bytes = sqe.as_bytes();
        assert_eq!(bytes.len(), Sqe::SIZE);
        assert_eq!(&bytes[..8], &[0x01, 0x40, 0x1a, 0x10, 7, 0, 0, 0]);
        assert_eq!(&bytes[24..40], &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0x01]);

        let sqe = Sqe::read_from_bytes(bytes).expect("64 bytes");
        assert_eq!((sqe.opcode(), sqe.flags(), sqe.cid(), sqe.nsid()), (0x01, 0x40, 0x101a, 7));
        assert_eq!(sqe.sgl(), Sgl::InCapsule { offset: 0, length: 4096 });
        let dwords = [sqe.cdw10(), sqe.cdw11(), sqe.cdw12(), sqe.cdw13(), sqe.cdw14(), sqe.cdw15()];
        assert_eq!(dwords, [10, 11, 12, 13, 14, 15]);
    }

    #[test]
    fn a_keyed_descriptor_has_a_length_of_three_bytes_and_a_key_of_four() {
        let keyed = |invalidates| Sgl::Keyed {
            address: 0x1122_3344_5566_7788,
            length: 0x0a_0b0c,
            key: 0xdead_beef,
            invalidates,
        };
        for (invalidates, identifier) in [(false, 0x40), (true, 0x4f)] {
            let sqe = Sqe::new(0x02).with_sgl(keyed(invalidates));
            let bytes = &sqe.as_bytes()[24..40];
            assert_eq!(bytes[..8], [0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
            assert_eq!(bytes[8..], [0x0c, 0x0b, 0x0a, 0xef, 0xbe, 0xad, 0xde, identifier]);
            assert_eq!((sqe.sgl(), sqe.sgl_length()), (keyed(invalidates), 0x0a_0b0c));
        }
    }

    #[test]
    fn direction_is_in_the_opcode_or_in_the_fabrics_type() {
        assert_eq!(Sqe::new(0x00).direction(), Direction::None);
        assert_eq!(Sqe::new(0x01).direction(), Direction::ToController);
        assert_eq!(Sqe::new(0x02).direction(), Direction::FromController);
        assert_eq!(Sqe::fabrics(0x01).direction(), Direction::ToController);
        assert_eq!(Sqe::fabrics(0x04).direction(), Direction::None);
    }
}
