//! The tenants of this thread: limits for their memory, and the records of their IOs.
//!
//! Elsewhere: `crate::tenants` maps hosts to tenants, the rules for memory are `account`.

use super::Origin;
use super::message::Announcement;
use crate::account::{Accounts, ConnectionAccount, HostAccount};
use crate::config::Limits;
use crate::memory::Memory;
use crate::stats::board::{Board, Look, Record};
use crate::switch::{Failure, IoSlot};
use sched::Policy;
use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use units::{Bytes, Instant, TenantId};

struct Tenant {
    record: Arc<Record>,
    /// The account of all its connections on this thread.
    account: Arc<HostAccount>,
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

    /// A tenant may have connections from now on.
    pub(super) fn announce(&mut self, announcement: Announcement, limits: &Limits, board: &Board) {
        let Announcement { id, host, .. } = announcement;
        if self.known.len() <= id.index() {
            self.known.resize_with(id.index() + 1, || None);
        }
        let account = HostAccount::new(self.memory.of_host(limits));
        let tenant = Tenant { record: board.enter(host), account };
        if let Some(former) = self.known[id.index()].replace(tenant) {
            board.retire(&former.record);
        }
    }

    /// The NQN of a tenant's host; empty for an unknown tenant.
    pub(super) fn host(&self, tenant: TenantId) -> &str {
        self.known.get(tenant.index()).and_then(Option::as_ref).map_or("", |tenant| &*tenant.record.host)
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
        let known = known.expect("a tenant is announced before its connections");
        ConnectionAccount::new(limit, Arc::clone(&known.account), payer)
    }

    /// Other bounds, other memory.
    pub(super) fn set_memory(&mut self, memory: Memory, limits: &Limits) {
        self.memory = memory;
        let of_host = memory.of_host(limits);
        self.known.iter().flatten().for_each(|tenant| tenant.account.set_limit(of_host));
        self.accounts.set_supplies(memory.supplies(limits));
    }

    /// The hosts that the configuration names have floors of their own.
    pub(super) fn set_named(&mut self, hosts: Arc<HashSet<String>>) {
        self.accounts.set_named(hosts);
    }

    /// Counts an IO of the switch that has ended, for statistics.
    pub(super) fn count(&self, now: Instant, slot: &IoSlot<Origin>, board: &Board) {
        let Some(Some(tenant)) = self.known.get(slot.tenant().index()) else { return };
        if slot.was_served() {
            let (kind, length) = slot.charged();
            board.count(&tenant.record, kind, length, slot.latency(), slot.total(now));
        } else if slot.result().as_ref().is_err_and(Failure::is_of_device) {
            tenant.record.count_error();
        }
    }

    /// The numbers that tenants have had here.
    pub(super) fn numbers(&self) -> usize {
        self.known.len()
    }

    /// Publishes the state of `count` tenants from `first` on, and from the beginning after the last. Returns where to go on.
    /// Reads of the tenants `starved` wait for memory.
    pub(super) fn publish(
        &self,
        at: Instant,
        policy: &dyn Policy,
        starved: &[TenantId],
        (first, count): (usize, usize),
    ) -> usize {
        let numbers = self.known.len().max(1);
        for index in (0..count).map(|step| (first + step) % numbers) {
            if let Some(Some(tenant)) = self.known.get(index) {
                let id = TenantId(index as u32);
                let (view, waits_for_memory) = (policy.tenant_view(id), starved.contains(&id));
                tenant.record.publish(Look { at, view, waits_for_memory });
            }
        }
        (first + count) % numbers
    }
}
