//! The tenants of this thread: limits for their memory, and the records of their IOs.
//!
//! Memory is held for hosts: what a connection sends or is sent lies in buffers of its thread, whatever namespaces its IOs are in, so the accounts
//! are those of hosts and addresses also where a namespace is the tenant. A host with two namespaces on one connection has the memory of one host for both.
//!
//! Elsewhere: `crate::tenants` numbers hosts and namespaces, the rules for memory are `account`.

use super::Origin;
use super::message::Announcement;
use super::reasons::{Reason, Reasons};
use crate::account::{Accounts, ConnectionAccount, HostAccount};
use crate::config::Limits;
use crate::device::DeviceClock;
use crate::memory::Memory;
use crate::stats::SlowIo;
use crate::stats::board::{Board, Look, Record};
use crate::switch::{Failure, IoSlot};
use sched::{Policy, TenantView};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use units::{Bytes, Instant, TenantId};

struct Tenant {
    record: Arc<Record>,
    /// Of a host: the account of all its connections on this thread.
    account: Option<Arc<HostAccount>>,
    /// Why it waits, as of the last looks.
    reasons: Reasons,
}

/// See the module.
pub(super) struct Tenants {
    /// By number.
    known: Vec<Option<Tenant>>,
    /// The payers for memory.
    accounts: Accounts,
    /// This thread's part of `limits.memory`.
    memory: Memory,
}

impl Tenants {
    pub(super) fn new(memory: Memory, limits: &Limits) -> Tenants {
        Tenants { known: Vec::new(), accounts: Accounts::new(memory.supplies(limits)), memory }
    }

    /// A tenant may have IOs from now on.
    pub(super) fn announce(&mut self, announcement: Announcement, limits: &Limits, board: &Board) {
        let Announcement { id, name, .. } = announcement;
        if self.known.len() <= id.index() {
            self.known.resize_with(id.index() + 1, || None);
        }
        let account = name.host().map(|_| HostAccount::new(self.memory.of_host(limits)));
        let tenant = Tenant { record: board.enter(name), account, reasons: Reasons::default() };
        if let Some(former) = self.known[id.index()].replace(tenant) {
            board.retire(&former.record);
        }
    }

    /// A tenant has no IOs any more, and no connections. Returns whether it was known.
    pub(super) fn remove(&mut self, tenant: TenantId, board: &Board) -> bool {
        let Some(tenant) = self.known.get_mut(tenant.index()).and_then(Option::take) else { return false };
        board.retire(&tenant.record);
        true
    }

    /// The name of a tenant; empty for an unknown one.
    pub(super) fn name(&self, tenant: TenantId) -> String {
        let known = self.known.get(tenant.index()).and_then(Option::as_ref);
        known.map_or_else(String::new, |tenant| tenant.record.name.to_string())
    }

    /// The account of a new connection, with `limit`.
    pub(super) fn account(
        &mut self,
        tenant: TenantId,
        host: &str,
        peer: SocketAddr,
        limit: Bytes,
    ) -> Arc<ConnectionAccount> {
        let payer = self.accounts.payer(Some(host), peer.ip());
        let known = self.known.get(tenant.index()).and_then(Option::as_ref);
        let known = known.and_then(|tenant| tenant.account.as_ref());
        let account = known.expect("a host is announced before its connections");
        ConnectionAccount::new(limit, Arc::clone(account), payer)
    }

    /// Other bounds, other memory.
    pub(super) fn set_memory(&mut self, memory: Memory, limits: &Limits) {
        self.memory = memory;
        let of_host = memory.of_host(limits);
        let accounts = self.known.iter().flatten().filter_map(|tenant| tenant.account.as_ref());
        accounts.for_each(|account| account.set_limit(of_host));
        self.accounts.set_supplies(memory.supplies(limits));
    }

    /// The hosts that the configuration names have floors of their own.
    pub(super) fn set_named(&mut self, hosts: Arc<HashSet<String>>) {
        self.accounts.set_named(hosts);
    }

    /// Counts an IO of the switch that has ended, for statistics. Returns whether it may be one of the slowest.
    #[inline]
    pub(super) fn count(&self, now: Instant, slot: &IoSlot<Origin>, board: &Board) -> bool {
        let Some(Some(tenant)) = self.known.get(slot.tenant().index()) else { return false };
        if slot.was_served() {
            let ((kind, length), total) = (slot.charged(), slot.total(now));
            board.count(&tenant.record, kind, length, slot.latency(), total);
            return board.slow.wants(total + slot.waited_for_memory());
        } else if slot.result().as_ref().is_err_and(Failure::is_of_device) {
            tenant.record.count_error();
        }
        false
    }

    /// Keeps an IO that has ended and may be one of the slowest, with the reasons for its time.
    #[cold]
    pub(super) fn keep_slow(
        &mut self,
        now: Instant,
        slot: &IoSlot<Origin>,
        board: &Board,
        (policy, clock): (&dyn Policy, DeviceClock),
    ) {
        let id = slot.tenant();
        let Some(Some(tenant)) = self.known.get_mut(id.index()) else { return };
        tenant.reasons.set(now, reason_of(policy.tenant_view(id).as_ref()));
        let ((kind, length), memory, in_switch) = (slot.charged(), slot.waited_for_memory(), slot.total(now));
        let device = clock.to_real_span(slot.latency()).min(in_switch);
        let queued = in_switch.saturating_sub(device);
        let arrived = Instant(now.0 - in_switch.get());
        let mut why = tenant.reasons.between(arrived, arrived + queued);
        why.memory = memory;
        let place = match &slot.owner {
            Origin::Local(io) => Some((io.command.nsid, io.command.lba.0)),
            _ => None,
        };
        let (tenant, total) = (tenant.record.name.clone(), memory + in_switch);
        board.slow.offer(SlowIo {
            ended: now,
            tenant,
            kind,
            length,
            place,
            total,
            memory,
            queued,
            device,
            why,
        });
    }

    /// The numbers that tenants have had here.
    pub(super) fn numbers(&self) -> usize {
        self.known.len()
    }

    /// Publishes the state of `count` tenants from `first` on, and from the beginning after the last. Returns where to go on.
    /// Reads of the tenants `starved` wait for memory.
    pub(super) fn publish(
        &mut self,
        at: Instant,
        policy: &dyn Policy,
        starved: &[TenantId],
        (first, count): (usize, usize),
    ) -> usize {
        let numbers = self.known.len().max(1);
        for index in (0..count).map(|step| (first + step) % numbers) {
            if let Some(Some(tenant)) = self.known.get_mut(index) {
                let id = TenantId(index as u32);
                let (view, waits_for_memory) = (policy.tenant_view(id), starved.contains(&id));
                tenant.reasons.set(at, reason_of(view.as_ref()));
                tenant.record.publish(Look { at, view, waits_for_memory });
            }
        }
        (first + count) % numbers
    }
}

/// Why a tenant waits that a scheduler sees so.
fn reason_of(view: Option<&TenantView>) -> Reason {
    view.map_or(Reason::default(), |view| Reason {
        wait: view.waits_for,
        is_credit_used_up: view.has_used_up_its_credit(),
    })
}
