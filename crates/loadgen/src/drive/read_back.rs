//! The end of a run with `verify`: reads back the written data; `on_completed` compares it.

use super::{Drive, Phase};
use crate::direction::Direction;
use crate::error::BenchError;
use crate::stream::Stream;
use crate::workload::Step;
use crate::written::Written;
use reactor::Clock;
use units::Instant;

impl Drive {
    /// Reads back the data of the jobs with `verify`.
    pub(crate) fn read_back(&mut self) -> Result<(), BenchError> {
        self.phase = Phase::ReadBack;
        let now = Clock.now();
        (0..self.streams.len()).try_for_each(|number| self.fill_back(number, now))?;
        while !self.streams.iter().all(Stream::is_quiet) {
            self.step(None)?;
        }
        Ok(())
    }

    pub(crate) fn fill_back(&mut self, number: usize, now: Instant) -> Result<(), BenchError> {
        while self.streams[number].has_room() {
            let stream = &mut self.streams[number];
            let written = self.running[stream.job].written.as_mut();
            let Some(first) = written.and_then(Written::next) else { break };
            let step = Step { direction: Direction::Read, first, units: 1 };
            let departure = stream.next_given(now, step).expect("there was room");
            self.submit(number, departure)?;
        }
        Ok(())
    }
}
