//! Where a command's data is, as its SGL says.
//!
//! There are two places: in the capsule, or moved by the transport (NVMe/TCP), which for NVMe/RDMA is memory of the host's with
//! a key. The SGL gives the place and the length; the opcode gives the direction. A command with an SGL that does not match is refused with a
//! status. The connection continues, because the length of the PDU is known.
//!
//! NVMe/TCP Transport Specification: "Data Transfer Mechanism"; RDMA Transport Specification: "SGL Support"; Base Specification: "SGL descriptors".

use super::Route;
use crate::spec::sqe::{FLAGS_PSDT_MASK, FLAGS_PSDT_SGL};
use crate::spec::{Direction, Sgl, Sqe, Status};

/// The treatment of a command's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Nothing: the command is complete.
    Complete,
    /// Take this many bytes from the capsule.
    InCapsule(u32),
    /// Request this many bytes from the host.
    Fetch(u32),
    /// Send up to this many bytes with the answer.
    Send(u32),
}

/// The plan for a command that came with `in_capsule` bytes of data. A transfer may have up to `transfer_max`
/// bytes.
pub(super) fn plan<R: Route>(sqe: &Sqe, in_capsule: u32, transfer_max: u32) -> Result<Plan, Status> {
    if sqe.flags() & FLAGS_PSDT_MASK != FLAGS_PSDT_SGL {
        return Err(Status::INVALID_FIELD);
    }
    match sqe.sgl() {
        Sgl::InCapsule { length, .. } if length != in_capsule => Err(Status::DATA_SGL_LENGTH_INVALID),
        Sgl::InCapsule { length: 0, .. } => Ok(Plan::Complete),
        Sgl::InCapsule { .. } if sqe.direction() == Direction::FromController => {
            Err(Status::SGL_DESCRIPTOR_TYPE_INVALID)
        }
        Sgl::InCapsule { offset, .. } if offset != 0 => Err(Status::SGL_OFFSET_INVALID),
        Sgl::InCapsule { length, .. } => Ok(Plan::InCapsule(length)),
        outside => {
            let length = R::moved(outside).ok_or(Status::SGL_DESCRIPTOR_TYPE_INVALID)?;
            if in_capsule > 0 {
                return Err(Status::DATA_SGL_LENGTH_INVALID);
            }
            match sqe.direction() {
                Direction::None | Direction::Both => Ok(Plan::Complete),
                _ if length == 0 => Ok(Plan::Complete),
                // Beyond MDTS.
                _ if length > transfer_max => Err(Status::INVALID_FIELD),
                Direction::ToController => Ok(Plan::Fetch(length)),
                Direction::FromController => Ok(Plan::Send(length)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sgl_says_where_the_data_is() {
        const TRANSFER_MAX: u32 = 1 << 20;
        let (write, read, flush, unknown) = (Sqe::new(0x01), Sqe::new(0x02), Sqe::new(0x00), Sqe::new(0x83));
        let capsule = |length| Sgl::InCapsule { offset: 0, length };
        let transport = |length| Sgl::Transport { length };
        let keyed = |length| Sgl::Keyed { address: 1 << 40, length, key: 7, invalidates: true };
        #[rustfmt::skip]
        let cases = [
            ("no data",                      flush,   transport(0),               0,    Ok(Plan::Complete)),
            ("no data, in-capsule SGL",      flush,   capsule(0),                 0,    Ok(Plan::Complete)),
            ("length without direction",     flush,   transport(4096),            0,    Ok(Plan::Complete)),
            ("opcode that cannot be",        unknown, transport(4096),            0,    Ok(Plan::Complete)),
            ("write of nothing",             write,   transport(0),               0,    Ok(Plan::Complete)),
            ("in-capsule write",             write,   capsule(4096),              4096, Ok(Plan::InCapsule(4096))),
            ("fetched write",              write,   transport(4096),            0,    Ok(Plan::Fetch(4096))),
            ("read",                         read,    transport(4096),            0,    Ok(Plan::Send(4096))),
            ("largest write",                write,   transport(1 << 20),         0,    Ok(Plan::Fetch(1 << 20))),
            ("write beyond MDTS",            write,   transport((1 << 20) + 1),   0,    Err(Status::INVALID_FIELD)),
            ("read beyond MDTS",             read,    transport(u32::MAX),        0,    Err(Status::INVALID_FIELD)),
            ("SGL longer than the data",     write,   capsule(4096),              512,  Err(Status::DATA_SGL_LENGTH_INVALID)),
            ("SGL shorter than the data",    write,   capsule(512),               4096, Err(Status::DATA_SGL_LENGTH_INVALID)),
            ("in-capsule SGL, no data",      write,   capsule(512),               0,    Err(Status::DATA_SGL_LENGTH_INVALID)),
            ("data with a transport SGL",    write,   transport(512),             512,  Err(Status::DATA_SGL_LENGTH_INVALID)),
            ("read into the capsule",        read,    capsule(512),               512,  Err(Status::SGL_DESCRIPTOR_TYPE_INVALID)),
            ("keyed SGL",                    write,   keyed(4096),                0,    Err(Status::SGL_DESCRIPTOR_TYPE_INVALID)),
            ("last segment",                 write,   Sgl::Other(0x30),           0,    Err(Status::SGL_DESCRIPTOR_TYPE_INVALID)),
            ("offset into the capsule",      write,   Sgl::InCapsule { offset: 8, length: 8 }, 8, Err(Status::SGL_OFFSET_INVALID)),
        ];
        for (what, sqe, sgl, in_capsule, expected) in cases {
            assert_eq!(plan::<()>(&sqe.with_sgl(sgl), in_capsule, TRANSFER_MAX), expected, "{what}");
        }
        assert_eq!(plan::<()>(&flush.with_flags(0), 0, TRANSFER_MAX), Err(Status::INVALID_FIELD), "PRPs");
    }
}
