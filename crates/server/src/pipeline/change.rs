//! Changes of a running pipeline: its subsystems and their namespaces, hosts, shares, bounds.
//!
//! Whatever takes blocks away (a namespace that goes or shrinks, a subsystem that goes) is answered only when no IO of it can
//! reach the device any more, so that its blocks may then be given to another owner. IOs that have not reached the device by
//! then fail with Invalid Namespace or Format; the others end as usual.
//!
//! Elsewhere: `fence` holds the answer back; `server` decides which changes are allowed.

use super::Pipeline;
use super::closing::Ending;
use super::fence::Waiting;
use super::message::ToPipeline;
use super::wipe::Wiped;
use crate::config::{Access, Limits};
use crate::device::{FileChange, Usage};
use crate::home::{Home, Placement};
use crate::listing::ConnectionFacts;
use crate::mailbox::Mailbox;
use crate::memory::Memory;
use crate::proof::KeyRing;
use crate::replies::ReplyRate;
use crate::switch::ByteRange;
use crate::tenants::Leave;
use nvme::spec::Status;
use nvme::subsystem::{HostAccess, NamespaceInfo, SavedReservations};
use reactor::Clock;
use sched::{Policy, Share};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use tracing::error;
use units::{Instant, TenantId};

/// One change.
pub(crate) enum Change {
    /// Another pipeline has come, or gone.
    Peer {
        /// Its slot.
        slot: usize,
        /// `None`: it goes, and no IO for it is under way.
        mailbox: Option<Mailbox<ToPipeline>>,
    },
    /// Another scheduler is in charge.
    Policy(Box<dyn Policy>),
    /// Other bounds.
    Limits {
        /// On connections.
        limits: Limits,
        /// Memory.
        memory: Memory,
    },
    /// The keys of hosts.
    Keys(Arc<KeyRing>),
    /// The hosts that the configuration names.
    Named(Arc<HashSet<String>>),
    /// A tenant was promised something else.
    Share {
        /// The tenant.
        tenant: TenantId,
        /// The new share.
        share: Share,
    },
    /// A subsystem is at home here from now on.
    SubsystemAdded {
        /// Its slot.
        slot: usize,
        /// The subsystem.
        home: Box<Home>,
    },
    /// A subsystem ends: its hosts are disconnected.
    SubsystemRemoved {
        /// Its slot.
        slot: usize,
        /// Told when the last of its IOs has ended.
        done: Sender<()>,
    },
    /// The connections of a host end. It may connect again.
    Disconnect {
        /// Its NQN.
        host: String,
        /// Receives the number of its connections here.
        ended: Sender<usize>,
    },
    /// Other hosts may connect to a subsystem. Those who may no longer are disconnected.
    Hosts {
        /// The subsystem's slot.
        slot: usize,
        /// The hosts that may connect.
        hosts: HostAccess,
    },
    /// A subsystem has one more namespace.
    NamespaceAdded {
        /// The subsystem's slot.
        slot: usize,
        /// Its number.
        nsid: u32,
        /// The namespace.
        info: NamespaceInfo,
        /// Where it lies.
        placement: Placement,
        /// The counter of its allocated storage.
        usage: Option<Arc<Usage>>,
        /// Reservations that were stored of it.
        saved: Option<SavedReservations>,
        /// The tenant that it is, if it is one.
        tenant: Option<TenantId>,
    },
    /// A namespace is another tenant from now on. IOs that are under way end under the tenant that they began under.
    NamespaceTenant {
        /// The subsystem's slot.
        slot: usize,
        /// Its number.
        nsid: u32,
        /// The tenant that it is; `None`: its hosts are the tenants.
        tenant: Option<TenantId>,
        /// Dropped when the last IO that counted for the former tenant has ended.
        former: Option<Leave>,
    },
    /// A namespace goes.
    NamespaceRemoved {
        /// The subsystem's slot.
        slot: usize,
        /// Its number.
        nsid: u32,
        /// Told when the last of its IOs has ended.
        done: Sender<()>,
    },
    /// A namespace has another size.
    NamespaceResized {
        /// The subsystem's slot.
        slot: usize,
        /// Its number.
        nsid: u32,
        /// Its blocks.
        blocks: u64,
        /// Told when the last IO that was checked against the old size has ended.
        done: Sender<()>,
    },
    /// A namespace becomes read-only, or writable again.
    NamespaceProtected {
        /// The subsystem's slot.
        slot: usize,
        /// Its number.
        nsid: u32,
        /// Whether hosts may only read it from now on. Writes that were accepted before end as usual.
        read_only: bool,
    },
    /// Hosts reach the namespaces of a subsystem in another way.
    Access {
        /// The subsystem's slot.
        slot: usize,
        /// The states of groups, and the groups of namespaces that are there.
        access: Access,
    },
    /// The target is drained: all namespaces are inaccessible; or not any more.
    Drained(bool),
    /// The numbers of the groups that were taken over: all of them.
    Taken(Arc<BTreeSet<u32>>),
    /// Asks for all connections of the subsystems at home here.
    List(Sender<Vec<ConnectionFacts>>),
    /// A range of the device, which no namespace has, is erased.
    Wipe {
        /// Where; not empty.
        range: ByteRange,
        /// The former owner, for the log.
        what: String,
        /// Told how that has ended.
        done: Wiped,
    },
    /// The files of a directory change.
    Files(FileChange),
    /// Told when all changes before this one are done.
    Barrier(Sender<()>),
}

impl Pipeline {
    /// Sets the promises to a tenant, within the limits of the scheduler.
    pub(super) fn promise(&mut self, now: Instant, tenant: TenantId, share: Share) {
        let answer = self.commands.switch.set_share(now, tenant, share);
        let name = self.tenants.name(tenant);
        self.objectives.on_share(&self.name, (tenant, &name), answer, share.slo.is_some());
    }

    /// Carries out a change.
    pub(super) fn on_change(&mut self, now: Instant, change: Change) {
        match change {
            Change::Peer { slot, mailbox } => {
                self.commands.port.set(slot, mailbox);
            }
            Change::Policy(policy) => {
                self.learning.keep(self.commands.switch.policy());
                for (tenant, answer) in self.commands.switch.replace_policy(now, policy) {
                    let name = self.tenants.name(tenant);
                    self.objectives.on_share(&self.name, (tenant, &name), answer, true);
                }
            }
            Change::Limits { limits, memory } => {
                self.limits = limits;
                self.tenants.set_memory(memory, &self.limits);
                let commands = &mut self.commands;
                commands.homes.set_keep_alive_max(self.limits.keep_alive_max);
                commands.reply_rate = ReplyRate::of(&self.limits);
                commands.wires.here.set_memory(memory.arrivals);
                commands.reads.set_limit(memory.reads);
            }
            Change::Keys(keys) => self.commands.proofs.shared.keys = keys,
            Change::Named(hosts) => {
                self.commands.homes.set_named(&hosts);
                self.tenants.set_named(hosts);
            }
            Change::Share { tenant, share } => self.promise(now, tenant, share),
            Change::SubsystemAdded { slot, home } => self.commands.homes.add(slot, *home),
            Change::SubsystemRemoved { slot, done } => self.remove_subsystem(now, slot, done),
            Change::Hosts { slot, hosts } => {
                if let Some(home) = self.commands.homes.get_mut(slot) {
                    home.subsystem.set_hosts(hosts);
                }
            }
            Change::NamespaceAdded { slot, nsid, info, placement, usage, saved, tenant } => {
                let Some(home) = self.commands.homes.get_mut(slot) else { return };
                if let Err(error) = home.subsystem.add_namespace(nsid, info) {
                    return error!(nsid, %error, "the namespace cannot be added");
                }
                home.place(nsid, placement, usage);
                home.set_tenant(nsid, tenant);
                let restored = saved.map(|saved| home.subsystem.restore_reservations(nsid, saved));
                if let Some(Err(error)) = restored {
                    // They were read before, by the same rules: a bug of ours. Serving no host is safer than serving a wrong one.
                    error!(nsid, %error, "its reservations cannot be restored: the namespace is not served");
                    drop(home.subsystem.remove_namespace(nsid));
                    home.displace(nsid);
                }
                self.commands.sessions.set_tenant(slot, nsid, tenant);
            }
            Change::NamespaceTenant { slot, nsid, tenant, former } => {
                let Some(home) = self.commands.homes.get_mut(slot) else { return };
                home.set_tenant(nsid, tenant);
                self.commands.sessions.set_tenant(slot, nsid, tenant);
                if let Some(former) = former {
                    let lanes = self.commands.sessions.lanes_of(slot, Some(nsid));
                    self.commands.answer_after(now, Waiting::Number(former), &lanes, None);
                }
            }
            Change::NamespaceRemoved { slot, nsid, done } => {
                // Sends the reservations to be stored on their way.
                self.run_subsystems(now);
                let Some(home) = self.commands.homes.get_mut(slot) else { return };
                if let Err(error) = home.subsystem.remove_namespace(nsid) {
                    return error!(nsid, %error, "the namespace cannot be removed");
                }
                home.displace(nsid);
                let lanes = self.commands.sessions.lanes_of(slot, Some(nsid));
                self.commands.answer_after(
                    now,
                    Waiting::Owner(done),
                    &lanes,
                    Some(Status::INVALID_NAMESPACE),
                );
            }
            Change::NamespaceResized { slot, nsid, blocks, done } => {
                let Some(home) = self.commands.homes.get_mut(slot) else { return };
                if let Err(error) = home.subsystem.resize_namespace(nsid, blocks) {
                    return error!(nsid, %error, "the namespace cannot be resized");
                }
                home.resize_usage(nsid, blocks);
                let lanes = self.commands.sessions.lanes_of(slot, Some(nsid));
                self.commands.answer_after(now, Waiting::Owner(done), &lanes, None);
            }
            Change::NamespaceProtected { slot, nsid, read_only } => {
                let Some(home) = self.commands.homes.get_mut(slot) else { return };
                if let Err(error) = home.subsystem.protect_namespace(nsid, read_only) {
                    error!(nsid, %error, "the write protection of the namespace cannot be changed");
                }
            }
            Change::Access { slot, access } => {
                if let Err(error) = self.commands.homes.set_access(slot, access) {
                    error!(%error, "the access states of a subsystem cannot be changed");
                }
            }
            Change::Drained(is_drained) => self.commands.homes.set_drained(is_drained),
            Change::Taken(groups) => self.commands.homes.set_taken(groups),
            // Whoever asked may have waited too long already.
            Change::List(answer) => drop(answer.send(self.list(now))),
            Change::Wipe { range, what, done } => {
                self.wipes.begin(now, &mut self.commands.switch, (range, what), done);
            }
            // By the clock of this moment: the hold of a snapshot may begin and end within one turn.
            Change::Files(change) => {
                self.commands.switch.change_files(Clock.now(), &mut self.reactor, change);
            }
            Change::Disconnect { host, ended } => self.disconnect(now, &host, ended),
            // Whoever asked may have waited too long already.
            Change::Barrier(done) => drop(done.send(())),
        }
    }

    fn disconnect(&mut self, now: Instant, host: &str, ended: Sender<usize>) {
        let keys = self.commands.sessions.find_all(|session| session.admission.host() == host);
        let count = keys.len();
        for key in keys {
            self.commands.close_session(now, key, Ending::ByOperator, &mut self.reactor);
        }
        // Whoever asked may have waited too long already.
        let _ = ended.send(count);
    }

    fn remove_subsystem(&mut self, now: Instant, slot: usize, done: Sender<()>) {
        for key in self.commands.sessions.find_all(|session| session.subsystem == slot) {
            self.commands.close_session(now, key, Ending::SubsystemRemoved, &mut self.reactor);
        }
        self.commands.homes.remove(slot);
        let left = self.commands.sessions.lanes_of(slot, None);
        self.commands.answer_after(now, Waiting::Owner(done), &left, None);
    }
}
