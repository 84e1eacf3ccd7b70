//! IOs that wait in the client, in order of submission.
//!
//! IOs wait here if the switch gives too little credit, or while the controller reconnects. Here they can
//! still be counted, withdrawn or sent elsewhere. The queue has a limit; a caller that finds it full gets an
//! error.
//!
//! Holds: IOs leave in order of submission, even those that were sent and came back
//!        (`an_io_that_is_put_back_keeps_its_position`).

use crate::connection::Outstanding;
use crate::request::Request;
use std::collections::VecDeque;

/// The waiting IOs of one controller.
#[derive(Debug)]
pub(crate) struct WaitQueue {
    /// In ascending order of sequence.
    waiting: VecDeque<Outstanding>,
    next_sequence: u64,
    limit: usize,
}

impl WaitQueue {
    pub(crate) fn new(limit: usize) -> WaitQueue {
        WaitQueue { waiting: VecDeque::new(), next_sequence: 0, limit }
    }

    /// Whether there is no room for a new IO. (IOs that come back always have room, because they had it
    /// before.)
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= self.limit
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Adds a new IO at the end.
    pub(crate) fn push(&mut self, request: Request) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.waiting.push_back(Outstanding { request, sequence, losses: 0, sent: None });
    }

    /// Puts an IO that was sent back at its old position.
    pub(crate) fn put_back(&mut self, io: Outstanding) {
        let position = self.waiting.partition_point(|waiting| waiting.sequence < io.sequence);
        self.waiting.insert(position, io);
    }

    pub(crate) fn first(&self) -> Option<&Outstanding> {
        self.waiting.front()
    }

    pub(crate) fn pop(&mut self) -> Option<Outstanding> {
        self.waiting.pop_front()
    }

    /// Removes the IOs for which `gone` is true, in order.
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

    fn four_ios() -> WaitQueue {
        let mut queue = WaitQueue::new(4);
        (0..4).for_each(|tag| queue.push(Request::new(tag, 1 + tag as u32 % 2, Operation::Read, Lba(0), 1)));
        queue
    }

    fn tags(queue: &mut WaitQueue) -> Vec<u64> {
        std::iter::from_fn(|| queue.pop()).map(|io| io.request.tag).collect()
    }

    #[test]
    fn an_io_that_is_put_back_keeps_its_position() {
        let mut queue = four_ios();
        assert!(queue.is_full());
        let out: Vec<_> = (0..3).map_while(|_| queue.pop()).collect();
        queue.push(Request::new(4, 1, Operation::Flush, Lba(0), 0));
        out.into_iter().rev().for_each(|io| queue.put_back(io));
        assert_eq!(tags(&mut queue), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn some_ios_can_be_removed_without_changing_the_order_of_the_others() {
        let mut queue = four_ios();
        let taken: Vec<u64> =
            queue.extract(|request| request.nsid == 2).iter().map(|io| io.request.tag).collect();
        assert_eq!((taken, tags(&mut queue)), (vec![1, 3], vec![0, 2]));
    }
}
