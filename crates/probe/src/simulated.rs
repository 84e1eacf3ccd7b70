//! The SSD model as a device, in virtual time.

use crate::device::{Completion, Device, Io, IoKind};
use ssd::{Command, CommandKind, SLOT_BYTES, Ssd};
use std::convert::Infallible;
use units::{Bytes, Instant};

/// A simulated SSD. Time passes only while the prober waits.
pub struct Simulated {
    ssd: Ssd,
    now: Instant,
}

impl Simulated {
    /// Probes this SSD.
    pub fn new(ssd: Ssd) -> Simulated {
        Simulated { ssd, now: Instant::ZERO }
    }

    /// Its capacity.
    pub fn size(&self) -> Bytes {
        self.ssd.capacity()
    }

    /// The SSD, to compare the results with the truth.
    pub fn ssd(&self) -> &Ssd {
        &self.ssd
    }
}

impl Device for Simulated {
    type Error = Infallible;

    fn now(&self) -> Instant {
        self.now
    }

    fn submit(&mut self, io: Io) -> Result<(), Infallible> {
        let kind = match io.kind {
            IoKind::Read => CommandKind::Read,
            IoKind::Write => CommandKind::Write,
        };
        let slot = |bytes: u64| u32::try_from(bytes / SLOT_BYTES).expect("a modelled SSD has 32-bit slots");
        let command = Command { tag: io.tag, kind, slot: slot(io.offset), slots: slot(u64::from(io.length)) };
        self.ssd.submit(self.now, command);
        Ok(())
    }

    fn wait(&mut self, until: Option<Instant>, done: &mut Vec<Completion>) -> Result<(), Infallible> {
        let limit = until.unwrap_or(Instant::FAR_FUTURE);
        while done.is_empty() {
            let Some(at) = self.ssd.next_event().filter(|&at| at <= limit) else {
                assert!(until.is_some(), "an IO is awaited, but nothing is under way");
                self.now = limit;
                self.ssd.advance(limit, &mut |completion| {
                    done.push(Completion { tag: completion.tag, at: completion.at });
                });
                return Ok(());
            };
            self.ssd.advance(at, &mut |completion| {
                done.push(Completion { tag: completion.tag, at: completion.at });
            });
            self.now = at;
        }
        Ok(())
    }
}
