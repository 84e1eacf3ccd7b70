//! The IOs in flight on a real device: names an IO that fails, and ends a probe whose device stops responding.

use super::stop::Stop;
use anyhow::{Result, bail};
use probe::{Io, IoKind};
use units::{Instant, Nanos};

/// Interval between checks for signals.
const LOOK: Nanos = Nanos::millis(100);
/// A device that completes nothing for this long has stopped responding. Longer than the kernel's own limit of 30 s for
/// a command.
const SILENCE_MOST: Nanos = Nanos::secs(60);

/// The IOs of one device.
pub(super) struct Watch {
    stop: Stop,
    /// Indexed by tag; tags are small.
    under_way: Vec<Option<Io>>,
    count: usize,
    /// Time of the last completion, or of the first IO after the device was idle.
    heard: Instant,
}

impl Watch {
    pub(super) fn new(stop: Stop) -> Watch {
        Watch { stop, under_way: Vec::new(), count: 0, heard: Instant::ZERO }
    }

    pub(super) fn started(&mut self, io: Io, now: Instant) {
        let tag = io.tag as usize;
        if self.under_way.len() <= tag {
            self.under_way.resize(tag + 1, None);
        }
        if self.count == 0 {
            self.heard = now;
        }
        self.count += 1;
        self.under_way[tag] = Some(io);
    }

    pub(super) fn ended(&mut self, tag: u64, now: Instant) -> Io {
        self.heard = now;
        self.count -= 1;
        self.under_way[tag as usize].take().expect("an IO that was started ends once")
    }

    /// The time until which to wait: `until`, or the next check for signals.
    ///
    /// # Errors
    /// A signal came, or the device does not respond.
    pub(super) fn before_wait(&self, now: Instant, until: Option<Instant>) -> Result<Instant> {
        self.stop.check()?;
        if self.count > 0 && now.saturating_since(self.heard) > SILENCE_MOST {
            bail!(
                "the device does not answer: {} IOs are under way, and none has ended for {SILENCE_MOST}",
                self.count
            );
        }
        let look = now + LOOK;
        Ok(until.map_or(look, |until| until.min(look)))
    }

    /// The message about an IO that failed.
    pub(super) fn failed(io: &Io) -> String {
        let kind = match io.kind {
            IoKind::Read => "read",
            IoKind::Write => "write",
        };
        format!("a {kind} of {} bytes at byte {} of the device failed", io.length, io.offset)
    }
}
