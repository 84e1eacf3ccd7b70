//! The stage between scheduler and SSD that diverts writes (`ais`), and its auxiliary store as a server with a latency and a rate.
//!
//! The store is a log on a second device: records have their heads, and the log is flushed. It never fails here, and
//! its contents do not matter: only time is simulated.

use ais::{Drive, Gate, LogOptions, Medium, OpenLog, Stage, Step, Store};
use std::io;
use units::{ByteRate, Bytes, Instant, Nanos};

/// The stage and its store.
#[derive(Clone, Debug, PartialEq)]
pub struct AuxiliaryChoice {
    /// The stage's knowledge of the SSD.
    pub drive: Drive,
    /// Size of the store.
    pub size: Bytes,
    /// Time of every operation of the store.
    pub latency: Nanos,
    /// Rate of its data.
    pub rate: ByteRate,
}

/// Work that the store has done.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stored {
    /// The end of a read.
    Served(u64),
    /// The end of a write.
    Kept(u64),
    /// The end of another step.
    Job(u64),
}

/// The stage of a run.
pub(crate) struct Auxiliary {
    pub(crate) stage: Stage,
    latency: Nanos,
    rate: ByteRate,
    free_at: Instant,
}

/// A device that has nothing and takes everything.
struct Blank;

impl Medium for Blank {
    fn read(&mut self, _at: u64, into: &mut [u8]) -> io::Result<()> {
        into.fill(0);
        Ok(())
    }

    fn write_durably(&mut self, _at: u64, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

impl Auxiliary {
    pub(crate) fn new(choice: &AuxiliaryChoice, device: Bytes) -> Auxiliary {
        let options = LogOptions {
            size: choice.size.get(),
            identity: "simulated".to_owned(),
            device_size: device.get(),
            name: [0; 16],
            boot: [1; 16],
            overwrite: false,
        };
        let log = OpenLog::open(&mut Blank, &options).expect("a blank device takes a log");
        let gate = Gate::new(choice.drive.clone(), Instant::ZERO);
        Auxiliary {
            stage: Stage::new(gate, Store::Log(Box::new(log)), Instant::ZERO),
            latency: choice.latency,
            rate: choice.rate,
            free_at: Instant::ZERO,
        }
    }

    /// The end of a step of the store that begins at `now`; `None` if the step is not the store's.
    pub(crate) fn store(
        &mut self,
        now: Instant,
        step: &Step,
        length: impl Fn(u64) -> u64,
    ) -> Option<(Instant, Stored)> {
        let (stored, bytes) = match step {
            Step::Serve { tag, .. } => (Stored::Served(*tag), length(*tag)),
            Step::Keep { tag, sequence, .. } => (Stored::Kept(*sequence), length(*tag) + ais::BLOCK),
            Step::FlushStore { job } => (Stored::Job(*job), 0),
            Step::WriteStore { job, bytes, .. } => (Stored::Job(*job), bytes.len() as u64),
            _ => return None,
        };
        let busy = self.rate.time_to_earn(Bytes(bytes)).expect("a store's rate is not zero");
        self.free_at = self.free_at.max(now) + busy;
        Some((self.free_at + self.latency, stored))
    }
}
