//! Two commands that are one IO: Compare and Write.
//!
//! The transport has found them, the subsystem checks them, the switch does them as one. Here they are one IO with a second
//! command to answer: the write is its command, the compare stands beside it.
//!
//! Holds: both commands are answered, once each, whatever becomes of the IO (`tests/fused.rs`).

use super::commands::Commands;
use super::queue_of;
use crate::account::Permit;
use crate::payload::Payload;
use crate::slab::Key;
use nvme::buffer::Buffer;
use nvme::spec::{Sqe, Status};
use nvme::subsystem::{FusedAction, IoCommand};
use units::Instant;

/// The first of two fused commands.
pub(super) struct FirstHalf {
    pub(super) cid: u16,
    /// The right to hold its data.
    pub(super) permit: Permit,
    /// What it is told if the IO is taken back, if not the same as the second.
    pub(super) if_withdrawn: Option<Status>,
}

impl Commands {
    /// Two fused commands have come, with their data.
    pub(super) fn on_fused(&mut self, now: Instant, key: Key, halves: [(Sqe, Option<Payload>); 2]) {
        let Some(session) = self.sessions.get(key) else { return };
        let route = session.route();
        let home = self.homes.get_mut(session.subsystem).filter(|_| route.wire.is_open());
        let Some(home) = home else {
            return halves.into_iter().for_each(|(_, data)| self.wires.give_back(route.thread, data));
        };
        let [(first, compared), (second, written)] = halves;
        let data = [&compared, &written].map(|payload| payload.as_ref().map(Buffer::bytes));
        match home.subsystem.on_fused_commands(queue_of(key), [&first, &second], data) {
            FusedAction::Reply(cqes) => {
                cqes.into_iter().for_each(|cqe| self.wires.send(route, cqe));
                self.wires.give_back(route.thread, compared);
                self.wires.give_back(route.thread, written);
            }
            FusedAction::Io(command) => {
                let pooled = |payload: Option<Payload>| payload.and_then(Payload::into_pooled);
                let (expected, permit_of_first) = pooled(compared).expect("a checked compare has its data");
                let (written, permit) = pooled(written).expect("a checked write has its data");
                let placement = home.placement(command.nsid);
                let work = |command: &IoCommand| placement.compare_and_write(command, [expected, written]);
                let first = FirstHalf { cid: first.cid(), permit: permit_of_first, if_withdrawn: None };
                let device = placement.device;
                self.start(
                    now,
                    key,
                    second.cid(),
                    (command, Some(permit)),
                    (device, work),
                    Some(Box::new(first)),
                );
            }
        }
    }
}
