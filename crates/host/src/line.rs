//! IOs that wait in the client, in the order in which they were asked for.
//!
//! Where the switch gives too little credit, or the controller is being reconnected, IOs queue up here: where they can still
//! be counted, withdrawn or sent elsewhere. The line is bounded; who finds it full is told so.
//!
//! Holds: IOs leave in the order in which they came, also those that were out and came back
//!        (`what_comes_back_keeps_its_place`).

use crate::link::Outstanding;
use crate::request::Request;
use std::collections::VecDeque;

/// The line of one controller.
#[derive(Debug)]
pub(crate) struct Line {
    /// Ascending by sequence.
    waiting: VecDeque<Outstanding>,
    next_sequence: u64,
    limit: usize,
}

impl Line {
    pub(crate) fn new(limit: usize) -> Line {
        Line { waiting: VecDeque::new(), next_sequence: 0, limit }
    }

    /// Whether a new IO finds no place. (IOs that come back always do: they had one before.)
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= self.limit
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// A new IO, at the end.
    pub(crate) fn push(&mut self, request: Request) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.waiting.push_back(Outstanding { request, sequence, losses: 0, sent: None });
    }

    /// An IO that was out, at its old place.
    pub(crate) fn put_back(&mut self, io: Outstanding) {
        let place = self.waiting.partition_point(|waiting| waiting.sequence < io.sequence);
        self.waiting.insert(place, io);
    }

    pub(crate) fn first(&self) -> Option<&Outstanding> {
        self.waiting.front()
    }

    pub(crate) fn pop(&mut self) -> Option<Outstanding> {
        self.waiting.pop_front()
    }

    /// Takes out those IOs for which `gone` answers true, in order.
    pub(crate) fn extract(&mut self, gone: impl Fn(&Request) -> bool) -> Vec<Outstanding> {
        let (out, stay) = self.waiting.drain(..).partition(|io| gone(&io.request));
        self.waiting = stay;
        Vec::from(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Operation;
    use units::Lba;

    fn line() -> Line {
        let mut line = Line::new(4);
        (0..4).for_each(|tag| line.push(Request::new(tag, 1 + tag as u32 % 2, Operation::Read, Lba(0), 1)));
        line
    }

    fn tags(line: &mut Line) -> Vec<u64> {
        std::iter::from_fn(|| line.pop()).map(|io| io.request.tag).collect()
    }

    #[test]
    fn what_comes_back_keeps_its_place() {
        let mut line = line();
        assert!(line.is_full());
        let out: Vec<_> = (0..3).map_while(|_| line.pop()).collect();
        line.push(Request::new(4, 1, Operation::Flush, Lba(0), 0));
        out.into_iter().rev().for_each(|io| line.put_back(io));
        assert_eq!(tags(&mut line), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn some_can_be_taken_out_without_disturbing_the_others() {
        let mut line = line();
        let taken: Vec<u64> =
            line.extract(|request| request.nsid == 2).iter().map(|io| io.request.tag).collect();
        assert_eq!((taken, tags(&mut line)), (vec![1, 3], vec![0, 2]));
    }
}
