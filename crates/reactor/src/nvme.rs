//! NVMe commands that bypass the kernel's block layer: requests to a namespace of `/dev/ngXnY`, and its answers.
//!
//! Linux passes a command to the device unchanged through io_uring (`NVME_URING_CMD_IO`), and gives the device's own
//! status back. The block layer does not merge, split or schedule, so long operations are split here.
//!
//! Elsewhere: the ring that such commands need is `ring::device`; the caller interprets the data of an Identify.

use crate::disk::{Pieces, Step};
use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use units::Bytes;

/// `NVME_URING_CMD_IO` of linux/nvme_ioctl.h: `_IOWR('N', 0x80, struct nvme_uring_cmd)`.
pub(crate) const NVME_URING_CMD_IO: u32 = 0xc048_4e80;
/// `NVME_IOCTL_ID`: `_IO('N', 0x40)`.
const NVME_IOCTL_ID: u64 = 0x4e40;
/// `NVME_IOCTL_ADMIN_CMD`: `_IOWR('N', 0x41, struct nvme_passthru_cmd)`.
const NVME_IOCTL_ADMIN_CMD: u64 = 0xc048_4e41;

const IDENTIFY: u8 = 0x06;
const IDENTIFY_LENGTH: usize = 4096;

const FLUSH: u8 = 0x00;
const WRITE: u8 = 0x01;
const READ: u8 = 0x02;
const WRITE_ZEROES: u8 = 0x08;
const DATASET_MANAGEMENT: u8 = 0x09;
/// Force Unit Access, in command dword 12.
const FUA: u32 = 1 << 30;
/// Deallocate, in command dword 11 of Dataset Management.
const DEALLOCATE: u32 = 1 << 2;
/// Blocks that the 16-bit count of a command can name.
const BLOCKS_MAX: u64 = 1 << 16;
/// Blocks of one range of a Dataset Management: the most is 2³² − 1.
const RANGE_BLOCKS_MAX: u64 = 1 << 31;
/// The most that one command moves: the driver takes at most 127 pages that are not adjacent.
const DATA_MAX: u64 = 256 << 10;
/// Number of zeros that are kept for a namespace without Write Zeroes.
pub(crate) const ZEROES_KEPT: u64 = 128 << 10;

/// The properties of a namespace that are needed to read and write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvmeNamespace {
    /// Its identifier.
    pub nsid: u32,
    /// log2 of the bytes of a logical block.
    pub block_size_log2: u32,
    /// The most that one command may move (MDTS); `None` if the controller names no limit.
    pub transfer_max: Option<Bytes>,
    /// Whether it has Write Zeroes; if not, zeros are written.
    pub has_write_zeroes: bool,
    /// Whether it has Dataset Management; if not, a discard is [`io::ErrorKind::Unsupported`].
    pub has_deallocate: bool,
}

impl NvmeNamespace {
    /// The limits by which operations are split. The controller's limit is not for commands without data; Linux applies
    /// it to Write Zeroes anyway, and so do we.
    pub(crate) fn pieces(&self) -> Pieces {
        let blocks = |count: u64| count << self.block_size_log2;
        let limit = self.transfer_max.map_or(u64::MAX, Bytes::get).max(blocks(1));
        let zeroes =
            if self.has_write_zeroes { limit.min(blocks(BLOCKS_MAX)) } else { ZEROES_KEPT.min(limit) };
        Pieces {
            data: limit.min(DATA_MAX).min(blocks(BLOCKS_MAX)),
            zeroes,
            discard: blocks(RANGE_BLOCKS_MAX),
        }
    }

    /// Whether a range of bytes is one of blocks.
    pub(crate) fn is_aligned(&self, offset: u64, length: u64) -> bool {
        let mask = (1 << self.block_size_log2) - 1;
        (offset | length) & mask == 0
    }

    /// The range of a Dataset Management: attributes, blocks, first block.
    pub(crate) fn range(&self, offset: u64, length: u64) -> [u32; 4] {
        let (first, count) = (offset >> self.block_size_log2, length >> self.block_size_log2);
        [0, count as u32, first as u32, (first >> 32) as u32]
    }

    /// The command of a step. `memory` is that of its data: the buffer's, a range's, or zeros for a namespace without Write Zeroes.
    pub(crate) fn command(&self, step: Step, memory: u64) -> NvmeCommand {
        let of_blocks = |opcode: u8, offset: u64, length: u64, data_length: u64| {
            let (first, count) = (offset >> self.block_size_log2, length >> self.block_size_log2);
            NvmeCommand {
                opcode,
                nsid: self.nsid,
                address: if data_length > 0 { memory } else { 0 },
                data_length: data_length as u32,
                dwords: [first as u32, (first >> 32) as u32, count.saturating_sub(1) as u32, 0, 0, 0],
                ..NvmeCommand::default()
            }
        };
        match step {
            Step::Read { length, offset, .. } => of_blocks(READ, offset, length as u64, length as u64),
            Step::Write { length, offset, durable, .. } => {
                let mut command = of_blocks(WRITE, offset, length as u64, length as u64);
                command.dwords[2] |= if durable { FUA } else { 0 };
                command
            }
            Step::WriteZeroes { offset, length } if self.has_write_zeroes => {
                of_blocks(WRITE_ZEROES, offset, length, 0)
            }
            Step::WriteZeroes { offset, length } => of_blocks(WRITE, offset, length, length),
            Step::Discard { .. } => NvmeCommand {
                opcode: DATASET_MANAGEMENT,
                nsid: self.nsid,
                address: memory,
                data_length: mem::size_of::<[u32; 4]>() as u32,
                // One range, counted from zero.
                dwords: [0, DEALLOCATE, 0, 0, 0, 0],
                ..NvmeCommand::default()
            },
            Step::Fsync { .. } => NvmeCommand { opcode: FLUSH, nsid: self.nsid, ..NvmeCommand::default() },
        }
    }
}

/// A command as Linux takes it: `struct nvme_uring_cmd`, which is `struct nvme_passthru_cmd` except for its last field.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NvmeCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    nsid: u32,
    /// Command dwords 2 and 3.
    low_dwords: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_length: u32,
    data_length: u32,
    /// Command dwords 10 to 15.
    dwords: [u32; 6],
    /// Zero: the driver's own.
    timeout_ms: u32,
    result: u32,
}

impl NvmeCommand {
    /// The command in the last bytes of a submission entry.
    pub(crate) fn to_bytes(self) -> [u8; 80] {
        let mut bytes = [0; 80];
        let mut at = 0;
        let mut put = |field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        put(&[self.opcode, self.flags]);
        put(&self.reserved.to_ne_bytes());
        put(&self.nsid.to_ne_bytes());
        self.low_dwords.iter().for_each(|dword| put(&dword.to_ne_bytes()));
        put(&self.metadata.to_ne_bytes());
        put(&self.address.to_ne_bytes());
        put(&self.metadata_length.to_ne_bytes());
        put(&self.data_length.to_ne_bytes());
        self.dwords.iter().for_each(|dword| put(&dword.to_ne_bytes()));
        put(&self.timeout_ms.to_ne_bytes());
        put(&self.result.to_ne_bytes());
        bytes
    }
}

/// The status with which an NVMe device refused or failed a command; passed inside an [`io::Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the device answered with status {code_type:#x}/{code:#04x}{}", if *.do_not_retry { " (do not retry)" } else { "" })]
pub struct CommandStatus {
    /// Status code type.
    pub code_type: u8,
    /// Status code.
    pub code: u8,
    /// The same command would fail again.
    pub do_not_retry: bool,
}

impl CommandStatus {
    /// Capacity Exceeded: a thin device is full.
    const CAPACITY_EXCEEDED: (u8, u8) = (0, 0x81);

    /// From the status field as the driver gives it: without the phase tag.
    fn from_field(field: u16) -> CommandStatus {
        CommandStatus {
            code_type: (field >> 8) as u8 & 7,
            code: field as u8,
            do_not_retry: field & 1 << 14 != 0,
        }
    }

    /// The status that an error carries, if it is a device's.
    pub fn of(error: &io::Error) -> Option<CommandStatus> {
        error.get_ref()?.downcast_ref::<CommandStatus>().copied()
    }
}

impl From<CommandStatus> for io::Error {
    fn from(status: CommandStatus) -> io::Error {
        let kind = match (status.code_type, status.code) {
            CommandStatus::CAPACITY_EXCEEDED => io::ErrorKind::StorageFull,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, status)
    }
}

/// The outcome of a command's completion: zero, a status, or the driver's own error. If the driver cancels a command
/// because it resets the controller, it reports the command as interrupted; the device may or may not have done it, so
/// it is not repeated here.
pub(crate) fn outcome(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        // As much as was asked for.
        Ok(0) => Ok(usize::MAX),
        Ok(field) => Err(CommandStatus::from_field(field as u16).into()),
        Err(error) if error.raw_os_error() == Some(libc::EINTR) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the driver gave the command up: it has reset the controller",
        )),
        Err(error) => Err(error),
    }
}

/// The identifier of the namespace that a generic character device stands for.
///
/// # Errors
/// The system's own: it is something else (`ENOTTY`).
pub fn nvme_namespace_id(device: &File) -> io::Result<u32> {
    // SAFETY: no pointers.
    let id = unsafe { libc::ioctl(device.as_raw_fd(), NVME_IOCTL_ID as _) };
    u32::try_from(id).map_err(|_| io::Error::last_os_error())
}

/// The data structure that an Identify command with this CNS value gives.
///
/// # Errors
/// The system's own (`EACCES` without the right to), or the device's status.
pub fn nvme_identify(device: &File, nsid: u32, cns: u8) -> io::Result<Vec<u8>> {
    let mut data = vec![0u8; IDENTIFY_LENGTH];
    let mut command = NvmeCommand {
        opcode: IDENTIFY,
        nsid,
        address: data.as_mut_ptr() as u64,
        data_length: IDENTIFY_LENGTH as u32,
        dwords: [u32::from(cns), 0, 0, 0, 0, 0],
        ..NvmeCommand::default()
    };
    // SAFETY: the structure has the layout of the kernel's, and names `data`, which is as long as it says and outlives the call.
    let status = unsafe { libc::ioctl(device.as_raw_fd(), NVME_IOCTL_ADMIN_CMD as _, &mut command) };
    match status {
        0 => Ok(data),
        field @ 1.. => Err(CommandStatus::from_field(field as u16).into()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    fn namespace() -> NvmeNamespace {
        NvmeNamespace {
            nsid: 7,
            block_size_log2: 9,
            transfer_max: Some(Bytes::kib(128)),
            has_write_zeroes: true,
            has_deallocate: true,
        }
    }

    fn dword(bytes: &[u8; 80], number: usize) -> u32 {
        // Dwords 10 to 15 begin behind the two lengths.
        let at = 40 + 4 * (number - 10);
        u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
    }

    #[test]
    fn a_write_names_its_blocks_from_zero_and_carries_fua() {
        assert_eq!(mem::size_of::<NvmeCommand>(), 72);
        let offset = (1u64 << 40) + 512;
        let step = Step::Write { from: ptr::null(), length: 8192, offset, durable: true };
        let bytes = namespace().command(step, 0xabcd_0000).to_bytes();
        assert_eq!((bytes[0], bytes[4]), (WRITE, 7));
        assert_eq!(bytes[24..32], 0xabcd_0000u64.to_ne_bytes());
        assert_eq!(bytes[36..40], 8192u32.to_ne_bytes());
        let first = (offset >> 9) as u32;
        assert_eq!([10, 11, 12].map(|number| dword(&bytes, number)), [first, 0, 15 | 1 << 30]);
        assert_eq!(bytes[72..], [0; 8]);
    }

    #[test]
    fn what_has_no_data_names_no_memory() {
        let bytes = namespace().command(Step::WriteZeroes { offset: 4096, length: 1 << 20 }, 99).to_bytes();
        assert_eq!((bytes[0], &bytes[24..40]), (WRITE_ZEROES, &[0; 16][..]));
        assert_eq!((dword(&bytes, 10), dword(&bytes, 12)), (8, 2047));
        let bytes = namespace().command(Step::Fsync { data_only: true }, 99).to_bytes();
        assert_eq!((bytes[0], &bytes[24..40]), (FLUSH, &[0; 16][..]));
        let without = NvmeNamespace { has_write_zeroes: false, ..namespace() };
        let bytes = without.command(Step::WriteZeroes { offset: 0, length: 4096 }, 99).to_bytes();
        assert_eq!((bytes[0], dword(&bytes, 12)), (WRITE, 7), "zeros are written instead");
    }

    #[test]
    fn a_discard_names_one_range() {
        let bytes = namespace().command(Step::Discard { offset: 512, length: 1024 }, 99).to_bytes();
        assert_eq!((bytes[0], dword(&bytes, 10), dword(&bytes, 11)), (DATASET_MANAGEMENT, 0, DEALLOCATE));
        assert_eq!(namespace().range(1 << 42, 1 << 32), [0, 1 << 23, 0, 2]);
    }

    #[test]
    fn operations_are_cut_to_what_the_controller_and_the_command_can_take() {
        let pieces = namespace().pieces();
        assert_eq!((pieces.data, pieces.zeroes, pieces.discard), (128 << 10, 128 << 10, 1 << 40));
        let unlimited = NvmeNamespace { transfer_max: None, ..namespace() }.pieces();
        assert_eq!((unlimited.data, unlimited.zeroes), (DATA_MAX, 32 << 20));
        let without = NvmeNamespace { has_write_zeroes: false, ..namespace() }.pieces();
        assert_eq!(without.zeroes, ZEROES_KEPT);
        assert!(namespace().is_aligned(512, 1024) && !namespace().is_aligned(512, 100));
    }

    #[test]
    fn a_status_is_carried_in_an_error() {
        assert_eq!(outcome(Ok(0)).expect("done"), usize::MAX);
        let error = outcome(Ok(0x4281)).expect_err("a status");
        let status = CommandStatus::of(&error).expect("a device's");
        assert_eq!(status, CommandStatus { code_type: 2, code: 0x81, do_not_retry: true });
        assert_eq!(outcome(Ok(0x81)).expect_err("full").kind(), io::ErrorKind::StorageFull);
        let given_up = outcome(Err(io::Error::from_raw_os_error(libc::EINTR))).expect_err("given up");
        assert_eq!(given_up.kind(), io::ErrorKind::TimedOut, "it is not repeated");
        assert!(CommandStatus::of(&given_up).is_none());
    }
}
