//! Answers that wait until certain IOs can reach a device no more.
//!
//! A host that preempts another with abort is promised that no write of the other comes after its own command has completed.
//! Whoever removes a namespace may give its blocks to another, so no write to it may come afterwards either. Both times the
//! IOs that have not reached a device are taken back, and the answer waits for the rest.

use super::{Pipeline, key_of};
use crate::slab::Key;
use nvme::spec::{Cqe, Status};
use nvme::subsystem::QueueKey;
use std::sync::mpsc::Sender;
use units::Instant;

/// An answer that waits for IOs of others.
pub(super) struct Fence {
    waiting: Waiting,
    /// What for.
    ios: Vec<Key>,
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
        let mut all = Vec::new();
        for queue in queues.iter().copied().map(key_of) {
            let preempted = self.ios.iter().filter(|(_, io)| io.session == queue && io.command.nsid == nsid);
            all.extend(preempted.map(|(key, _)| key));
        }
        self.refuse(now, &all, Status::PREEMPTED_AND_ABORTED);
        self.fence(Waiting::Host { session, cqe }, all);
    }

    /// Tells `done` when all of `ios` have ended.
    pub(super) fn answer_after(&mut self, done: Sender<()>, ios: Vec<Key>) {
        self.fence(Waiting::Owner(done), ios);
    }

    fn fence(&mut self, waiting: Waiting, mut ios: Vec<Key>) {
        ios.retain(|io| self.ios.get(*io).is_some());
        self.fences.push(Fence { waiting, ios });
        self.answer_fences();
    }

    /// An IO has ended.
    pub(super) fn lower_fences(&mut self, io: Key) {
        if self.fences.is_empty() {
            return;
        }
        self.fences.iter_mut().for_each(|fence| fence.ios.retain(|other| *other != io));
        self.answer_fences();
    }

    fn answer_fences(&mut self) {
        while let Some(index) = self.fences.iter().position(|fence| fence.ios.is_empty()) {
            match self.fences.swap_remove(index).waiting {
                Waiting::Host { session, cqe } => {
                    let session_or_none = self.sessions.get_mut(session);
                    if let Some(link) = session_or_none.and_then(|session| session.link.as_mut()) {
                        link.reply(cqe);
                        self.mark_dirty(session);
                    }
                }
                // Nobody waits any more if this fails.
                Waiting::Owner(done) => drop(done.send(())),
            }
        }
    }
}
