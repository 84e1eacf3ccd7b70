//! Answers that wait until certain IOs can reach a device no more.
//!
//! A host that preempts another with abort is promised that no write of the other comes after its own command has completed.
//! Whoever removes a namespace may give its blocks to another, so no write to it may come afterwards either. Both times the
//! IOs that have not reached a device are taken back, and the answer waits for the rest.
//!
//! Holds: raising a fence looks at no IO that an earlier one has looked at, the end of an IO at no fence that it does not lower
//!        (`a_fence_costs_what_it_fences`).

use super::commands::Commands;
use super::key_of;
use crate::slab::{Key, Slab};
use crate::tenants::Leave;
use nvme::spec::{Cqe, Status};
use nvme::subsystem::QueueKey;
use std::sync::mpsc::Sender;
use units::Instant;

/// An answer that waits for IOs of others.
struct Fence {
    waiting: Waiting,
    /// Lanes with such IOs, and one more while it is being raised.
    lanes: usize,
}

/// The waiting party.
pub(super) enum Waiting {
    /// A host, for this completion.
    Host { session: Key, cqe: Cqe },
    /// Whoever changes the target.
    Owner(Sender<()>),
    /// The number of a namespace that is no tenant any more.
    Number(Leave),
}

/// All of them.
pub(super) struct Fences {
    fences: Slab<Fence>,
}

impl Fences {
    pub(super) fn new() -> Fences {
        Fences { fences: Slab::new() }
    }

    /// A fence that stands until it was lowered once for its being raised, and once for each lane.
    fn raise(&mut self, waiting: Waiting) -> Key {
        self.fences.insert(Fence { waiting, lanes: 1 })
    }

    /// There is a lane with IOs to wait for.
    fn add_lane(&mut self, fence: Key) {
        self.fences.get_mut(fence).expect("it is being raised").lanes += 1;
    }

    /// Counts one lane as finished. Returns the waiting party after the last one.
    fn lower(&mut self, fence: Key) -> Option<Waiting> {
        let raised = self.fences.get_mut(fence).expect("a fence stands until nothing keeps it");
        raised.lanes -= 1;
        if raised.lanes > 0 {
            return None;
        }
        Some(self.fences.remove(fence)?.waiting)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.fences.len()
    }
}

impl Commands {
    /// Aborts the IOs of `queues` in namespace `nsid`; answers `cqe` on `session` when all of them have ended.
    pub(super) fn raise_fence(
        &mut self,
        now: Instant,
        session: Key,
        nsid: u32,
        queues: &[QueueKey],
        cqe: Cqe,
    ) {
        let fence = self.fences.raise(Waiting::Host { session, cqe });
        for queue in queues {
            self.fence_lane(now, fence, key_of(*queue), nsid, Some(Status::PREEMPTED_AND_ABORTED));
        }
        self.fence_is_up(fence);
    }

    /// Notifies `waiting` when all IOs in these lanes have ended, each a connection and a namespace. With a status, those that have not
    /// reached a device end at once, with it.
    pub(super) fn answer_after(
        &mut self,
        now: Instant,
        waiting: Waiting,
        lanes: &[(Key, u32)],
        refusal: Option<Status>,
    ) {
        let fence = self.fences.raise(waiting);
        for (session, nsid) in lanes {
            self.fence_lane(now, fence, *session, *nsid, refusal);
        }
        self.fence_is_up(fence);
    }

    fn fence_lane(&mut self, now: Instant, fence: Key, session: Key, nsid: u32, refusal: Option<Status>) {
        let moment = self.sessions.moment();
        if let Some(status) = refusal {
            let sequence = |io| Some(self.switch.ios.get(io)?.host_io().sequence);
            let is_since = |io, moment| sequence(io).is_some_and(|sequence| sequence >= moment);
            for io in self.sessions.refuse(session, nsid, is_since) {
                self.refuse_io(now, io, status);
            }
        }
        // The last of them may have removed the session.
        if self.sessions.fence(session, nsid, moment, fence) {
            self.fences.add_lane(fence);
        }
    }

    /// All lanes are known.
    fn fence_is_up(&mut self, fence: Key) {
        self.port.ask_back();
        self.lower(fence);
    }

    /// An IO in this lane has ended, and is in it no more.
    pub(super) fn lower_fences(&mut self, session: Key, nsid: u32) {
        loop {
            let sequence = |io| Some(self.switch.ios.get(io)?.host_io().sequence);
            let is_before = |io, moment| sequence(io).is_some_and(|sequence| sequence < moment);
            let Some(fence) = self.sessions.next_fallen(session, nsid, is_before) else { return };
            self.lower(fence);
        }
    }

    fn lower(&mut self, fence: Key) {
        match self.fences.lower(fence) {
            Some(Waiting::Host { session, cqe }) => self.reply(session, cqe),
            // This fails only if the receiver has given up waiting.
            Some(Waiting::Owner(done)) => drop(done.send(())),
            Some(Waiting::Number(leave)) => drop(leave),
            None => {}
        }
    }
}
