//! New commands of a host wait for the writes of its earlier connections.
//!
//! A host that resets its controller, or reconnects after a time-out, treats all earlier commands as over: it repeats those that were not
//! answered, writes other data to the same blocks, flushes. An earlier write may still be on a slow or hanging device. It would then
//! overwrite the newer data, and nobody would notice.
//!
//! So when a connection ends, its IOs that have not reached a device are withdrawn. Those on the device that change blocks are its
//! *orphans*. While a host has orphans in a namespace, its new commands for this namespace wait. Reads wait, too: a block that was read
//! must not change without a new write.
//!
//! ```text
//!   connection ends: on the device? ──no──► withdrawn
//!                          └──yes──► orphan ──┐
//!   new command of the host ──► held ◄────────┘   until the last orphan has ended
//! ```
//!
//! A host is its NQN here. Hosts invent new HOSTIDs when they boot, and waiting too long costs less than not waiting.
//!
//! Holds: no write of an earlier connection reaches the device after a command of a later one (`tests/bad_devices/ghosts.rs`).
//! Elsewhere: `nvme::subsystem::controller` ends a reset only when the controller's queues have nothing on the device.

use super::Pipeline;
use crate::intrusive_list::List;
use crate::log_throttle::Subject;
use crate::slab::Key;
use crate::switch::State;
use nvme::subsystem::IoOp;
use tracing::{info, warn};
use units::{Instant, TenantId};

/// A host in one namespace: the tenant, the subsystem's slot, the namespace.
pub(super) type HostNamespace = (TenantId, usize, u32);

/// The orphans of a host in one namespace.
#[derive(Default)]
pub(super) struct Orphans {
    /// Orphans that have not ended.
    running: usize,
    /// IOs that wait for them, in order.
    waiting: List,
    /// The number of IOs that have waited. Only the first one is logged.
    waited: u64,
}

impl Pipeline {
    /// A connection has ended, and its IOs were withdrawn where possible. The others that change blocks become orphans.
    pub(super) fn orphan(&mut self, key: Key) {
        let Some(session) = self.sessions.get(key) else { return };
        let (tenant, subsystem) = (session.tenant, session.subsystem);
        for (nsid, lane) in session.lanes.iter() {
            for io in self.lane_links.iter(&lane.ios) {
                let slot = self.switch.ios.get_mut(io).expect("what is in a lane has not ended");
                let host_io = slot.host_io_mut();
                if changes_blocks(&host_io.command.op) {
                    host_io.is_orphan = true;
                    self.orphans.entry((tenant, subsystem, nsid)).or_default().running += 1;
                }
            }
        }
    }

    /// Holds an IO, and returns true, if its host has orphans in the IO's namespace.
    pub(super) fn waits_for_orphans(&mut self, now: Instant, io: Key) -> bool {
        if self.orphans.is_empty() {
            return false;
        }
        let field = self.host_namespace_of(io);
        let Some(orphans) = self.orphans.get_mut(&field) else { return false };
        let slot = self.switch.ios.get_mut(io).expect("an IO that begins has not ended");
        slot.state = State::Held;
        let host_io = slot.host_io();
        self.orphan_links.push(&mut orphans.waiting, io);
        orphans.waited += 1;
        let session = self.sessions.get(host_io.session).expect("a session outlives its IOs");
        if orphans.waited == 1 && self.log_throttle.allows(now, session.peer.ip(), Subject::Held) {
            let (peer, host, orphans) = (session.peer, session.admission.host(), orphans.running);
            let (device, nsid) = (host_io.device, host_io.command.nsid);
            warn!(
                %peer, %host, nsid, device, orphans,
                "a host that came back waits: writes of its earlier connection are still on the device"
            );
        }
        true
    }

    /// Withdraws an IO that is held.
    pub(super) fn stop_waiting_for_orphans(&mut self, io: Key) {
        let field = self.host_namespace_of(io);
        if let Some(orphans) = self.orphans.get_mut(&field) {
            self.orphan_links.remove(&mut orphans.waiting, io);
        }
    }

    /// An orphan has ended.
    pub(super) fn on_orphan_ended(&mut self, now: Instant, field: HostNamespace) {
        let orphans = self.orphans.get_mut(&field).expect("an orphan is counted until it ends");
        orphans.running -= 1;
        if orphans.running > 0 {
            return;
        }
        let orphans = self.orphans.remove(&field).expect("just found");
        let Orphans { mut waiting, waited, .. } = orphans;
        if waited > 0 {
            info!(device = %self.name, nsid = field.2, ios = waited, "a host that came back goes on: its earlier writes have ended");
        }
        while let Some(io) = self.orphan_links.first(&waiting) {
            self.orphan_links.remove(&mut waiting, io);
            self.admit(now, io);
        }
    }

    fn host_namespace_of(&self, io: Key) -> HostNamespace {
        let host_io = self.switch.ios.get(io).expect("asked of an IO that has not ended").host_io();
        let session = self.sessions.get(host_io.session).expect("a session outlives its IOs");
        (session.tenant, session.subsystem, host_io.command.nsid)
    }
}

/// Whether the operation can change blocks.
fn changes_blocks(op: &IoOp) -> bool {
    !matches!(op, IoOp::Read | IoOp::Compare | IoOp::Verify | IoOp::Flush)
}
