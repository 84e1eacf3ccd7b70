//! Answers that wait until certain IOs can reach a device no more.
//!
//! A host that preempts another with abort is promised that no write of the other comes after its own command has completed.
//! Whoever removes a namespace may give its blocks to another, so no write to it may come afterwards either. Both times the
//! IOs that have not reached a device are taken back, and the answer waits for the rest.
//!
//! Holds: raising a fence looks at no IO that an earlier one has looked at, the end of an IO at no fence that it does not lower
//!        (`a_fence_costs_what_it_fences`).

use super::{Pipeline, key_of};
use crate::slab::Key;
use nvme::spec::{Cqe, Status};
use nvme::subsystem::QueueKey;
use std::sync::mpsc::Sender;
use units::Instant;

/// An answer that waits for IOs of others.
pub(super) struct Fence {
    waiting: Waiting,
    /// Lanes with such IOs, and one more while it is being raised.
    lanes: usize,
}

/// Who waits.
enum Waiting {
    /// A host, for this completion.
    Host { session: Key, cqe: Cqe },
    /// Whoever changes the target.
    Owner(Sender<()>),
}

impl Pipeline {
    /// Aborts the IOs of `queues` in namespace `nsid`; answers `cqe` on `session` when all of them have ended.
    pub(super) fn raise_fence(
        &mut self,
        now: Instant,
        session: Key,
        nsid: u32,
        queues: &[QueueKey],
        cqe: Cqe,
    ) {
        let fence = self.fences.insert(Fence { waiting: Waiting::Host { session, cqe }, lanes: 1 });
        for queue in queues {
            self.fence_lane(now, fence, key_of(*queue), nsid, Some(Status::PREEMPTED_AND_ABORTED));
        }
        self.fence_is_up(fence);
    }

    /// Tells `done` when all IOs in these lanes have ended, each a connection and a namespace. With a status, those that have not
    /// reached a device end at once, with it.
    pub(super) fn answer_after(
        &mut self,
        now: Instant,
        done: Sender<()>,
        lanes: &[(Key, u32)],
        refusal: Option<Status>,
    ) {
        let fence = self.fences.insert(Fence { waiting: Waiting::Owner(done), lanes: 1 });
        for (session, nsid) in lanes {
            self.fence_lane(now, fence, *session, *nsid, refusal);
        }
        self.fence_is_up(fence);
    }

    fn fence_lane(&mut self, now: Instant, fence: Key, session: Key, nsid: u32, refusal: Option<Status>) {
        let moment = self.started;
        if let Some(status) = refusal {
            let Some(lane) = self.sessions.get_mut(session).and_then(|session| session.lanes.get(nsid))
            else {
                return;
            };
            let before = std::mem::replace(&mut lane.refused_before, moment);
            let newest_first =
                std::iter::successors(self.lane_links.last(&lane.ios), |io| self.lane_links.before(*io));
            let ios = &self.switch.ios;
            let is_new = |io: &Key| ios.get(*io).is_some_and(|slot| slot.host_io().sequence >= before);
            let ios: Vec<Key> = newest_first.take_while(is_new).collect();
            for io in ios.into_iter().rev() {
                self.refuse_io(now, io, status);
            }
        }
        // The session may have gone with the last of them.
        let Some(lane) = self.sessions.get_mut(session).and_then(|session| session.lanes.get(nsid)) else {
            return;
        };
        if !lane.ios.is_empty() {
            lane.fences.push_back((moment, fence));
            self.fences.get_mut(fence).expect("it is being raised").lanes += 1;
        }
    }

    /// All lanes are known.
    fn fence_is_up(&mut self, fence: Key) {
        self.ask_others_back();
        self.lower(fence);
    }

    /// An IO in this lane has ended, and is in it no more.
    pub(super) fn lower_fences(&mut self, session: Key, nsid: u32) {
        loop {
            let Some(lane) = self.sessions.get_mut(session).and_then(|session| session.lanes.get(nsid))
            else {
                return;
            };
            let Some(&(moment, fence)) = lane.fences.front() else { return };
            let oldest = self.lane_links.first(&lane.ios).and_then(|io| self.switch.ios.get(io));
            if oldest.is_some_and(|oldest| oldest.host_io().sequence < moment) {
                return;
            }
            lane.fences.pop_front();
            self.lower(fence);
        }
    }

    /// One thing less to wait for.
    fn lower(&mut self, fence: Key) {
        let raised = self.fences.get_mut(fence).expect("a fence stands until nothing keeps it");
        raised.lanes -= 1;
        if raised.lanes > 0 {
            return;
        }
        match self.fences.remove(fence).expect("just found").waiting {
            Waiting::Host { session, cqe } => self.reply(session, cqe),
            // Nobody waits any more if this fails.
            Waiting::Owner(done) => drop(done.send(())),
        }
    }
}
