//! The prober's view of a device: IOs go in, completions with their time come out.

use crate::prober::{Prober, Progress};
use units::Instant;

/// Reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoKind {
    /// Reads.
    Read,
    /// Writes. The data is the device's choice; it should not be compressible.
    Write,
}

/// One IO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// Returned with the completion. Unique among the IOs that are under way.
    pub tag: u64,
    /// Read or write.
    pub kind: IoKind,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u32,
}

/// The end of an IO that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Of which IO.
    pub tag: u64,
    /// When.
    pub at: Instant,
}

/// The prober's next wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Submit this IO now and poll again.
    Submit(Io),
    /// Poll again after the next completion, or at this time if it is earlier.
    Wait {
        /// `None`: only a completion matters.
        until: Option<Instant>,
    },
    /// The profile is known.
    Finished,
}

/// Something that carries out IOs.
pub trait Device {
    /// Why it cannot go on.
    type Error;

    /// The time, from any origin. It never runs backwards.
    fn now(&self) -> Instant;

    /// Starts an IO.
    ///
    /// # Errors
    /// The device failed, or the user wants to stop.
    fn submit(&mut self, io: Io) -> Result<(), Self::Error>;

    /// Waits for at least one completion, or until `until`. Adds what completed, in the order of time.
    ///
    /// # Errors
    /// An IO failed, or the user wants to stop.
    fn wait(&mut self, until: Option<Instant>, done: &mut Vec<Completion>) -> Result<(), Self::Error>;
}

/// Runs a probe on a device to its end. `observe` is called after each task, with the prober's progress and its journal.
///
/// # Errors
/// Whatever the device returns. The tasks that ended before are in the journal.
pub fn drive<D: Device>(
    prober: &mut Prober,
    device: &mut D,
    mut observe: impl FnMut(&Prober, Progress) -> Result<(), D::Error>,
) -> Result<(), D::Error> {
    let mut done = Vec::new();
    let mut seen = None;
    loop {
        match prober.poll(device.now()) {
            Step::Submit(io) => device.submit(io)?,
            Step::Wait { until } => {
                let progress = prober.progress();
                if seen != Some(progress.tasks) {
                    seen = Some(progress.tasks);
                    observe(prober, progress)?;
                }
                device.wait(until, &mut done)?;
                for completion in done.drain(..) {
                    prober.on_done(completion.at, completion.tag);
                }
            }
            Step::Finished => return observe(prober, prober.progress()),
        }
    }
}
