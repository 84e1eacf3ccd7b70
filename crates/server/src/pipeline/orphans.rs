//! New commands of a host wait for the writes of its earlier connections.
//!
//! A host that resets its controller, or reconnects after a time-out, treats all earlier commands as over: it repeats those that were not
//! answered, writes other data to the same blocks, flushes. An earlier write may still be on a slow or hanging device. It would then
//! overwrite the newer data without any error.
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

use super::commands::Commands;
use crate::intrusive_list::{Links, List};
use crate::log_throttle::Subject;
use crate::slab::Key;
use crate::switch::State;
use nvme::subsystem::IoOp;
use std::collections::BTreeMap;
use tracing::{info, warn};
use units::{Instant, TenantId};

/// A host in one namespace: the tenant, the subsystem's slot, the namespace.
pub(super) type HostNamespace = (TenantId, usize, u32);

/// The orphans of a host in one namespace.
#[derive(Default)]
struct Field {
    /// Orphans that have not ended.
    running: usize,
    /// IOs that wait for them, in order.
    waiting: List,
    /// The number of IOs that have waited. Only the first one is logged.
    waited: u64,
}

/// IOs that earlier connections of hosts have left on the device, and the IOs that wait for them.
#[derive(Default)]
pub(super) struct Orphans {
    fields: BTreeMap<HostNamespace, Field>,
    links: Links,
}

/// An IO was held.
struct Held {
    is_first: bool,
    /// The number of orphans.
    orphans: usize,
}

/// IOs that need not wait any more.
struct Released {
    waiting: List,
    waited: u64,
}

impl Orphans {
    /// There is one more.
    fn add(&mut self, host: HostNamespace) {
        self.fields.entry(host).or_default().running += 1;
    }

    /// Has an IO wait, if there is something to wait for.
    fn hold(&mut self, host: HostNamespace, io: Key) -> Option<Held> {
        let field = self.fields.get_mut(&host)?;
        self.links.push(&mut field.waiting, io);
        field.waited += 1;
        Some(Held { is_first: field.waited == 1, orphans: field.running })
    }

    /// An IO does not wait any more.
    fn release(&mut self, host: HostNamespace, io: Key) {
        if let Some(field) = self.fields.get_mut(&host) {
            self.links.remove(&mut field.waiting, io);
        }
    }

    /// An orphan has ended. If it was the last one, all that waited go on.
    fn on_ended(&mut self, host: HostNamespace) -> Option<Released> {
        let field = self.fields.get_mut(&host).expect("an orphan is counted until it ends");
        field.running -= 1;
        if field.running > 0 {
            return None;
        }
        let Field { waiting, waited, .. } = self.fields.remove(&host).expect("just found");
        Some(Released { waiting, waited })
    }

    /// The next one that goes on.
    fn next(&mut self, released: &mut Released) -> Option<Key> {
        let io = self.links.first(&released.waiting)?;
        self.links.remove(&mut released.waiting, io);
        Some(io)
    }
}

impl Commands {
    /// A connection has ended, and its IOs were withdrawn where possible. The others that change blocks become orphans.
    pub(super) fn orphan(&mut self, key: Key) {
        let Some(session) = self.sessions.get(key) else { return };
        let (tenant, subsystem) = (session.tenant, session.subsystem);
        for io in self.sessions.ios_of(key) {
            let slot = self.switch.ios.get_mut(io).expect("what is in a lane has not ended");
            let host_io = slot.host_io_mut();
            if changes_blocks(&host_io.command.op) {
                host_io.is_orphan = true;
                self.orphans.add((tenant, subsystem, host_io.command.nsid));
            }
        }
    }

    /// Holds an IO, and returns true, if its host has orphans in the IO's namespace.
    #[inline]
    pub(super) fn waits_for_orphans(&mut self, now: Instant, io: Key) -> bool {
        !self.orphans.fields.is_empty() && self.hold(now, io)
    }

    #[cold]
    fn hold(&mut self, now: Instant, io: Key) -> bool {
        let host = self.host_namespace_of(io);
        let Some(held) = self.orphans.hold(host, io) else { return false };
        let slot = self.switch.ios.get_mut(io).expect("an IO that begins has not ended");
        slot.state = State::Held;
        let host_io = slot.host_io();
        let session = self.sessions.get(host_io.session).expect("a session outlives its IOs");
        if held.is_first && self.log_throttle.allows(now, session.peer.ip(), Subject::Held) {
            let (peer, host, orphans) = (session.peer, session.admission.host(), held.orphans);
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
        let host = self.host_namespace_of(io);
        self.orphans.release(host, io);
    }

    /// An orphan has ended.
    pub(super) fn on_orphan_ended(&mut self, now: Instant, host: HostNamespace) {
        let Some(mut released) = self.orphans.on_ended(host) else { return };
        if released.waited > 0 {
            let ios = released.waited;
            info!(device = %self.device, nsid = host.2, ios, "a host that came back goes on: its earlier writes have ended");
        }
        while let Some(io) = self.orphans.next(&mut released) {
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
