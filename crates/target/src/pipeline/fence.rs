//! Waiting until no IO of a preempted host can come any more.
//!
//! A host that preempts another with abort is promised that no write of the other comes after its own command has completed.
//! So the IOs of the other that have not reached a device are taken back, and the answer waits for the rest.

use super::{Pipeline, key_of};
use crate::slab::Key;
use nvme::spec::Cqe;
use nvme::subsystem::QueueKey;
use units::Instant;

/// An answer that waits for IOs of others.
pub(super) struct Fence {
    /// Who waits.
    session: Key,
    cqe: Cqe,
    /// What for.
    ios: Vec<Key>,
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
            let ios: Vec<Key> = preempted.map(|(key, _)| key).collect();
            for io in &ios {
                self.ios.get_mut(*io).expect("just found").is_preempted = true;
            }
            self.withdraw(now, queue, &ios);
            all.extend(ios.into_iter().filter(|io| self.ios.get(*io).is_some()));
        }
        self.fences.push(Fence { session, cqe, ios: all });
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
            let fence = self.fences.swap_remove(index);
            if let Some(link) = self.sessions.get_mut(fence.session).and_then(|session| session.link.as_mut())
            {
                link.reply(fence.cqe);
                self.mark_dirty(fence.session);
            }
        }
    }
}
