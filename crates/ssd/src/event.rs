//! What can happen inside the device at an instant.

/// An event of the device. Numbers are indices: of a command, of a flash read operation, of a die.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A flash read operation leaves the firmware for its die.
    ReadIssued { read: u32 },
    /// A write command leaves the firmware for the write buffer.
    WriteParsed { command: u32 },
    /// A piece of a write command's data has crossed the link into the write buffer.
    WriteArrived { command: u32, slots: u32 },
    /// A flush or deallocate command leaves the firmware.
    ManagementParsed { command: u32 },
    /// A command is finished.
    Completed { command: u32 },
    /// What the die was doing ends, unless its generation has moved on since.
    DieStep { die: u32, generation: u32 },
    /// The program or erase on the die may be suspended for reads.
    SuspendDue { die: u32 },
    /// The device may have been idle for long enough to fold its SLC cache.
    IdleCheck,
}
