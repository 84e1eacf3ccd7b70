//! Where a namespace lies, and an NVMe command as work for a switch.

use crate::switch::{ByteRange, Copying, Halves, Work};
use nvme::subsystem::{IoCommand, IoOp};
use reactor::IoBuffer;
use sched::Priority;
use units::Lba;

/// Where a namespace lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placement {
    /// The slot of its device's pipeline.
    pub(crate) device: usize,
    /// Its first byte there.
    pub(crate) offset: u64,
    /// log2 of its block size.
    pub(crate) block_log2: u8,
}

impl Placement {
    fn range(self, lba: Lba, blocks: u32) -> ByteRange {
        ByteRange {
            offset: self.offset + (lba.0 << self.block_log2),
            length: u64::from(blocks) << self.block_log2,
        }
    }

    /// The work that `command`, which was checked, asks for.
    ///
    /// # Panics
    /// If a write or compare comes without data in a pool's buffer: the transport delivers every one with it.
    #[inline]
    pub(crate) fn work(self, command: &IoCommand, buffer: Option<IoBuffer>) -> Work {
        let range = self.range(command.lba, command.blocks);
        match &command.op {
            IoOp::Read => Work::Read(range),
            IoOp::Write => {
                assert!(buffer.is_some(), "a write without data");
                Work::Write { range, buffer, durable: command.fua }
            }
            IoOp::Compare => Work::Compare { range, expected: buffer.expect("a compare has data") },
            IoOp::CompareAndWrite => unreachable!("a pair has two buffers"),
            IoOp::Copy(sources) => {
                let sources = sources.iter().map(|part| self.range(part.lba, part.blocks)).collect();
                Work::Copy(Box::new(Copying::new(sources, range.offset, command.fua, buffer)))
            }
            IoOp::Verify => Work::Verify(range),
            IoOp::Flush => Work::Flush(ByteRange { offset: self.offset, length: 1 << self.block_log2 }),
            IoOp::WriteZeroes { .. } => Work::WriteZeroes { range, durable: command.fua },
            IoOp::Deallocate(ranges) => {
                Work::Deallocate(ranges.iter().map(|part| self.range(part.lba, part.blocks)).collect())
            }
        }
    }
}

impl Placement {
    /// The work that a Compare and Write asks for, which was checked.
    pub(crate) fn compare_and_write(self, command: &IoCommand, [expected, written]: [IoBuffer; 2]) -> Work {
        let halves = Box::new(Halves { expected, written: Some(written) });
        Work::CompareAndWrite { range: self.range(command.lba, command.blocks), halves, durable: command.fua }
    }
}

/// The scheduler's name for a command's class.
pub(crate) fn priority_of(command: &IoCommand) -> Priority {
    Priority::new(command.priority.index()).expect("both count four classes")
}
