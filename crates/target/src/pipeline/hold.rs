//! What a host has left behind goes before what it asks for next.
//!
//! A host that resets its controller, or comes back after a time-out, takes every command of before for over: it repeats those
//! that were not answered, writes something else in their place, flushes. A write of before that is still on the device, because
//! the device is slow or hangs, would then land on top of what was written after it, and nobody would ever know.
//!
//! So when a connection ends, its IOs that have not reached a device are taken back, and those on the device that change blocks are
//! its *orphans*. As long as a host has orphans in a namespace, whatever it asks for there waits: reads too, as a block that is
//! read as it was before must not become another one without a write.
//!
//! ```text
//!   connection ends: on the device? ──no──► taken back
//!                          └──yes──► orphan ──┐
//!   new command of the host ──► held ◄────────┘   until the last orphan has ended
//! ```
//!
//! A host is its NQN here: hosts differ in the identifiers (HOSTID) that they make up when they boot, and to wait in vain costs
//! less than to wait too little.
//!
//! Holds: no write of an earlier connection reaches the device after a command of a later one (`tests/bad_devices/ghosts.rs`).
//! Elsewhere: that a controller's reset is over only when its queues have nothing on the device is `nvme::subsystem::controller`.

use super::Pipeline;
use crate::intrusive_list::List;
use crate::log_throttle::Subject;
use crate::slab::Key;
use crate::switch::State;
use nvme::subsystem::IoOp;
use tracing::{info, warn};
use units::{Instant, TenantId};

/// A host in one namespace: the tenant, the subsystem's slot, the namespace.
pub(super) type Field = (TenantId, usize, u32);

/// What a host has to wait for in one namespace.
#[derive(Default)]
pub(super) struct Hold {
    /// Orphans that have not ended.
    orphans: usize,
    /// Who waits for them, in order.
    held: List,
    /// IOs that have waited; the log has the first.
    held_so_far: u64,
}

impl Pipeline {
    /// A connection has ended, and what can be taken back has been: the rest that changes blocks is orphaned.
    pub(super) fn orphan(&mut self, key: Key) {
        let Some(session) = self.sessions.get(key) else { return };
        let (tenant, subsystem) = (session.tenant, session.subsystem);
        for (nsid, lane) in session.lanes.iter() {
            for io in self.lane_links.iter(&lane.ios) {
                let slot = self.switch.ios.get_mut(io).expect("what is in a lane has not ended");
                let host_io = slot.host_io_mut();
                if changes_blocks(&host_io.command.op) {
                    host_io.is_orphan = true;
                    self.holds.entry((tenant, subsystem, nsid)).or_default().orphans += 1;
                }
            }
        }
    }

    /// Keeps an IO back, and answers true, if its host has orphans in its namespace.
    pub(super) fn holds_back(&mut self, now: Instant, io: Key) -> bool {
        if self.holds.is_empty() {
            return false;
        }
        let field = self.field_of(io);
        let Some(hold) = self.holds.get_mut(&field) else { return false };
        let slot = self.switch.ios.get_mut(io).expect("an IO that begins has not ended");
        slot.state = State::Held;
        let host_io = slot.host_io();
        self.held_links.push(&mut hold.held, io);
        hold.held_so_far += 1;
        let session = self.sessions.get(host_io.session).expect("a session outlives its IOs");
        if hold.held_so_far == 1 && self.log_throttle.allows(now, session.peer.ip(), Subject::Held) {
            let (peer, host, orphans) = (session.peer, session.admission.host(), hold.orphans);
            let (device, nsid) = (host_io.device, host_io.command.nsid);
            warn!(
                %peer, %host, nsid, device, orphans,
                "a host that came back waits: writes of its earlier connection are still on the device"
            );
        }
        true
    }

    /// An IO that is held is taken back.
    pub(super) fn leave_hold(&mut self, io: Key) {
        let field = self.field_of(io);
        if let Some(hold) = self.holds.get_mut(&field) {
            self.held_links.remove(&mut hold.held, io);
        }
    }

    /// An orphan has ended.
    pub(super) fn on_orphan_ended(&mut self, now: Instant, field: Field) {
        let hold = self.holds.get_mut(&field).expect("an orphan is counted until it ends");
        hold.orphans -= 1;
        if hold.orphans > 0 {
            return;
        }
        let hold = self.holds.remove(&field).expect("just found");
        let Hold { mut held, held_so_far, .. } = hold;
        if held_so_far > 0 {
            info!(device = %self.name, nsid = field.2, ios = held_so_far, "a host that came back goes on: its earlier writes have ended");
        }
        while let Some(io) = self.held_links.first(&held) {
            self.held_links.remove(&mut held, io);
            self.admit(now, io);
        }
    }

    fn field_of(&self, io: Key) -> Field {
        let host_io = self.switch.ios.get(io).expect("asked of an IO that has not ended").host_io();
        let session = self.sessions.get(host_io.session).expect("a session outlives its IOs");
        (session.tenant, session.subsystem, host_io.command.nsid)
    }
}

/// Whether blocks may be others afterwards.
fn changes_blocks(op: &IoOp) -> bool {
    !matches!(op, IoOp::Read | IoOp::Compare | IoOp::Verify | IoOp::Flush)
}
