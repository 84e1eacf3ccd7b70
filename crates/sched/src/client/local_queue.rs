//! The queue inside a host: it decides which of its VMs sends the next IO. Start-time fair queueing, one unit of cost
//! per IO.
//!
//! Holds: VMs that always have something waiting send in proportion to their shares (`vms_take_turns_by_share`).
//! Elsewhere: whether another IO may go at all is the host's window.
//! Paper: PARDA §3.4 (a local scheduler of the SFQ family serves the VMs of a host).

use alloc::vec::Vec;

/// Cost of an IO, divisible by many shares.
const COST: u128 = 1 << 32;

/// The VMs of one host.
#[derive(Clone, Debug)]
pub struct LocalQueue {
    vms: Vec<Vm>,
    /// Start tag of the last IO that went.
    virtual_time: u128,
}

#[derive(Clone, Debug)]
struct Vm {
    share: u32,
    waiting: usize,
    /// Start tag of its next IO.
    start: u128,
}

impl LocalQueue {
    /// VMs with these shares, none of them zero.
    pub fn new(shares: &[u32]) -> LocalQueue {
        let vms = shares.iter().map(|share| Vm { share: *share, waiting: 0, start: 0 });
        LocalQueue { vms: vms.collect(), virtual_time: 0 }
    }

    /// Notes that a VM has one more IO to send.
    pub fn push(&mut self, vm: usize) {
        let vm = &mut self.vms[vm];
        if vm.waiting == 0 {
            vm.start = vm.start.max(self.virtual_time);
        }
        vm.waiting += 1;
    }

    /// Whether no VM has anything to send.
    pub fn is_empty(&self) -> bool {
        self.vms.iter().all(|vm| vm.waiting == 0)
    }

    /// Takes the oldest IO of the VM with the least start tag, and returns the VM; `None` if no VM has an IO.
    pub fn pop(&mut self) -> Option<usize> {
        let waiting = self.vms.iter_mut().enumerate().filter(|(_, vm)| vm.waiting > 0);
        let (index, vm) = waiting.min_by_key(|(_, vm)| vm.start)?;
        self.virtual_time = vm.start;
        vm.start += COST / u128::from(vm.share);
        vm.waiting -= 1;
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vms_take_turns_by_share() {
        let mut queue = LocalQueue::new(&[1, 2, 5]);
        for vm in 0..3 {
            for _ in 0..1000 {
                queue.push(vm);
            }
        }
        let mut sent = [0; 3];
        for _ in 0..800 {
            sent[queue.pop().expect("all of them wait")] += 1;
        }
        assert_eq!(sent, [100, 200, 500]);
    }

    #[test]
    fn a_vm_that_was_away_has_saved_up_nothing() {
        let mut queue = LocalQueue::new(&[1, 1]);
        for _ in 0..100 {
            queue.push(0);
        }
        for _ in 0..50 {
            assert_eq!(queue.pop(), Some(0));
        }
        for _ in 0..100 {
            queue.push(1);
        }
        let first: usize = (0..20).filter_map(|_| queue.pop()).sum();
        assert!((9..=11).contains(&first), "{first} of 20 were its own");
    }

    #[test]
    fn an_empty_queue_gives_nothing() {
        let mut queue = LocalQueue::new(&[3]);
        assert!(queue.is_empty() && queue.pop().is_none());
        queue.push(0);
        assert!(!queue.is_empty());
        assert_eq!((queue.pop(), queue.pop()), (Some(0), None));
    }
}
