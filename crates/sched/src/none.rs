//! `none`: every IO goes to the SSD the moment it arrives, in arrival order. What SPDK's and Linux's targets do today.

use crate::{Backlog, Credit, Done, Io, Next, Policy, Share};
use alloc::collections::VecDeque;
use units::{Instant, TenantId};

/// First in, first out; shares are ignored and credit is unbounded.
#[derive(Clone, Debug, Default)]
pub struct Fifo {
    queue: VecDeque<Io>,
    in_flight: usize,
}

impl Policy for Fifo {
    fn on_arrival(&mut self, _now: Instant, io: Io) {
        self.queue.push_back(io);
    }

    fn next(&mut self, _now: Instant) -> Next {
        match self.queue.pop_front() {
            Some(io) => {
                self.in_flight += 1;
                Next::Submit(io)
            }
            None => Next::Idle,
        }
    }

    fn on_completion(&mut self, _now: Instant, done: Done) -> Credit {
        assert!(self.in_flight > 0, "{done:?} ended but nothing was submitted");
        self.in_flight -= 1;
        Credit(u32::MAX)
    }

    fn withdraw(&mut self, _now: Instant, tenant: TenantId, gone: &mut dyn FnMut(&Io) -> bool) {
        self.queue.retain(|io| io.tenant != tenant || !gone(io));
    }

    fn forget(&mut self, _now: Instant, tenant: TenantId) {
        let queued = self.queue.iter().filter(|io| io.tenant == tenant).count();
        assert!(queued == 0, "{tenant} is to be forgotten with {queued} IOs queued");
    }

    fn set_share(&mut self, _now: Instant, _tenant: TenantId, _share: Share) {}

    fn credit(&self, _tenant: TenantId) -> Credit {
        Credit(u32::MAX)
    }

    fn backlog(&self) -> Backlog {
        Backlog { queued: self.queue.len(), in_flight: self.in_flight }
    }
}
