//! `none`: every IO goes to the SSD the moment it arrives, in arrival order. SPDK's and Linux's targets do this today.

use crate::lines::Lines;
use crate::{Backlog, Credit, Done, Io, Next, Policy, Share, Ticket};
use alloc::vec::Vec;
use units::{Instant, TenantId};

/// First in, first out; shares are ignored and credit is unbounded.
#[derive(Clone, Debug, Default)]
pub struct Fifo {
    queue: Lines<1>,
    /// IOs queued, by tenant.
    queued: Vec<u32>,
    in_flight: usize,
}

impl Policy for Fifo {
    fn on_arrival(&mut self, _now: Instant, io: Io) -> Ticket {
        if self.queued.len() <= io.tenant.index() {
            self.queued.resize(io.tenant.index() + 1, 0);
        }
        self.queued[io.tenant.index()] += 1;
        self.queue.push(0, io)
    }

    fn next(&mut self, _now: Instant) -> Next {
        match self.queue.pop(0) {
            Some(io) => {
                self.queued[io.tenant.index()] -= 1;
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

    fn withdraw_one(&mut self, _now: Instant, tenant: TenantId, ticket: Ticket) -> Io {
        self.queued[tenant.index()] -= 1;
        self.queue.take(0, ticket)
    }

    fn withdraw(&mut self, _now: Instant, tenant: TenantId, gone: &mut dyn FnMut(&Io) -> bool) {
        let before = self.queue.len();
        self.queue.take_all(0, |io| io.tenant == tenant && gone(io));
        if let Some(queued) = self.queued.get_mut(tenant.index()) {
            *queued -= (before - self.queue.len()) as u32;
        }
    }

    fn forget(&mut self, _now: Instant, tenant: TenantId) {
        let queued = self.queued.get(tenant.index()).copied().unwrap_or(0);
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
