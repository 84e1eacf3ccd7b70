//! When to ask streams with a timetable for their next IO.
//!
//! A stream is asked whenever one of its IOs ends, and each time it may answer that its next IO is due at the same moment. Only one
//! entry per stream counts. Otherwise every completed IO would add an entry, and each entry would ask again.
//!
//! Holds: a stream has at most one valid entry, the earliest it asked for (`a_stream_is_called_once`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use units::Instant;

/// Moments and streams, by number.
#[derive(Debug, Default)]
pub(crate) struct Due {
    heap: BinaryHeap<Reverse<(Instant, usize)>>,
    /// The valid entry of each stream; other entries of the heap are ignored.
    wanted: Vec<Option<Instant>>,
}

impl Due {
    /// Asks the stream at this moment, unless an earlier entry exists.
    pub(crate) fn at(&mut self, moment: Instant, stream: usize) {
        if self.wanted.len() <= stream {
            self.wanted.resize(stream + 1, None);
        }
        if self.wanted[stream].is_none_or(|wanted| moment < wanted) {
            self.wanted[stream] = Some(moment);
            self.heap.push(Reverse((moment, stream)));
        }
    }

    /// The next moment at which a stream may have to be asked.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((moment, _))| *moment)
    }

    /// A stream to ask now.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<usize> {
        while let Some(&Reverse((moment, stream))) = self.heap.peek()
            && moment <= now
        {
            self.heap.pop();
            if self.wanted[stream] == Some(moment) {
                self.wanted[stream] = None;
                return Some(stream);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_called_once() {
        let mut due = Due::default();
        for moment in [30, 20, 20, 40] {
            due.at(Instant(moment), 1);
        }
        due.at(Instant(25), 0);
        assert_eq!((due.next(), due.pop(Instant(19))), (Some(Instant(20)), None));
        assert_eq!(
            [due.pop(Instant(50)), due.pop(Instant(50)), due.pop(Instant(50))],
            [Some(1), Some(0), None]
        );
        assert_eq!(due.next(), None, "nothing is left behind");
        due.at(Instant(60), 1);
        assert_eq!(due.pop(Instant(60)), Some(1), "it may ask again");
    }
}
