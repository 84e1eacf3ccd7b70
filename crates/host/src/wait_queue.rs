//! IOs that wait in the client: four priority classes, each in order of submission.
//!
//! IOs wait here if the switch gives too little credit, or while the controller reconnects. Here they can
//! still be counted, withdrawn or sent elsewhere. The queue has a limit; a caller that finds it full gets an
//! error.
//!
//! The most urgent class goes first, as in the switch, and with the switch's quotas: so the least urgent one is not forgotten.
//!
//! Holds: the IOs of a class leave in order of submission, even those that were sent and came back
//!        (`an_io_that_is_put_back_keeps_its_position`); an urgent one overtakes, and in each cycle every class has its quota
//!        (`a_cycle_serves_each_class_its_quota`).

use crate::connection::Outstanding;
use crate::request::{Class, Request};
use sched::RoundConfig;
use std::collections::VecDeque;

/// IOs of each class that leave in a cycle, if all classes have any: as in the switch.
const QUOTAS: [u32; Class::ALL.len()] = RoundConfig::STANDARD.class_quotas;

/// The waiting IOs of one controller.
#[derive(Debug)]
pub(crate) struct WaitQueue {
    /// In ascending order of sequence.
    classes: [VecDeque<Outstanding>; Class::ALL.len()],
    /// IOs of each class that have left in this cycle.
    served: [u32; Class::ALL.len()],
    next_sequence: u64,
    limit: usize,
}

impl WaitQueue {
    pub(crate) fn new(limit: usize) -> WaitQueue {
        WaitQueue { classes: Default::default(), served: Default::default(), next_sequence: 0, limit }
    }

    /// Whether there is no room for a new IO. (IOs that come back always have room, because they had it
    /// before.)
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.limit
    }

    pub(crate) fn len(&self) -> usize {
        self.classes.iter().map(VecDeque::len).sum()
    }

    /// Adds a new IO at the end of its class.
    pub(crate) fn push(&mut self, request: Request) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let line = &mut self.classes[request.class as usize];
        line.push_back(Outstanding { request, sequence, losses: 0, sent: None });
    }

    /// Puts an IO that was sent back at its old position.
    pub(crate) fn put_back(&mut self, io: Outstanding) {
        let line = &mut self.classes[io.request.class as usize];
        let position = line.partition_point(|waiting| waiting.sequence < io.sequence);
        line.insert(position, io);
    }

    /// The class that is next, and whether a new cycle begins with it.
    fn turn(&self) -> Option<(usize, bool)> {
        let mut waiting = (0..QUOTAS.len()).filter(|class| !self.classes[*class].is_empty());
        let first = waiting.clone().next()?;
        let entitled = waiting.find(|class| self.served[*class] < QUOTAS[*class]);
        Some(entitled.map_or((first, true), |class| (class, false)))
    }

    /// The IO that `pop` would take.
    pub(crate) fn first(&self) -> Option<&Outstanding> {
        self.turn().and_then(|(class, _)| self.classes[class].front())
    }

    pub(crate) fn pop(&mut self) -> Option<Outstanding> {
        let (class, begins) = self.turn()?;
        if begins {
            self.served = Default::default();
        }
        self.served[class] += 1;
        self.classes[class].pop_front()
    }

    /// Removes the IOs for which `gone` is true; in order of submission.
    pub(crate) fn extract(&mut self, gone: impl Fn(&Request) -> bool) -> Vec<Outstanding> {
        let mut all = Vec::new();
        for line in &mut self.classes {
            let (out, stay): (VecDeque<_>, _) = line.drain(..).partition(|io| gone(&io.request));
            *line = stay;
            all.extend(out);
        }
        all.sort_by_key(|io| io.sequence);
        all
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
    fn a_cycle_serves_each_class_its_quota() {
        let mut queue = WaitQueue::new(200);
        for tag in 0..160 {
            let class = Class::ALL[3 - tag as usize / 40];
            queue.push(Request { class, ..Request::new(tag, 1, Operation::Read, Lba(0), 1) });
        }
        for cycle in 0..2 {
            let order: Vec<Class> = (0..23).filter_map(|_| queue.pop()).map(|io| io.request.class).collect();
            let expected =
                Class::ALL.iter().zip(QUOTAS).flat_map(|(class, quota)| vec![*class; quota as usize]);
            assert_eq!(order, expected.collect::<Vec<_>>(), "cycle {cycle}");
        }
        // Eight of the most urgent are left: then the others share the turns.
        let rest: Vec<Class> = std::iter::from_fn(|| queue.pop()).map(|io| io.request.class).collect();
        assert_eq!(rest.iter().take(8).collect::<Vec<_>>(), vec![&Class::Urgent; 8]);
        assert_eq!(rest.len(), 160 - 46);
        let urgent = Request { class: Class::Urgent, ..Request::new(1000, 1, Operation::Read, Lba(0), 1) };
        (0..4).for_each(|tag| queue.push(Request::new(tag, 1, Operation::Read, Lba(0), 1)));
        queue.push(urgent);
        assert_eq!(tags(&mut queue), [1000, 0, 1, 2, 3], "it overtakes");
    }

    #[test]
    fn what_is_removed_is_in_order_of_submission_across_classes() {
        let mut queue = WaitQueue::new(8);
        for (tag, class) in [Class::Idle, Class::Urgent, Class::Normal, Class::Urgent].into_iter().enumerate()
        {
            queue.push(Request { class, ..Request::new(tag as u64, 1, Operation::Read, Lba(0), 1) });
        }
        let gone: Vec<u64> = queue.extract(|_| true).iter().map(|io| io.request.tag).collect();
        assert_eq!((gone, queue.len()), (vec![0, 1, 2, 3], 0));
    }

    #[test]
    fn some_ios_can_be_removed_without_changing_the_order_of_the_others() {
        let mut queue = four_ios();
        let taken: Vec<u64> =
            queue.extract(|request| request.nsid == 2).iter().map(|io| io.request.tag).collect();
        assert_eq!((taken, tags(&mut queue)), (vec![1, 3], vec![0, 2]));
    }
}
