//! The tenants of this thread: limits for their memory, and the records of their IOs.
//!
//! Elsewhere: `crate::tenants` maps hosts to tenants, the rules for memory are `account`.

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
    /// The account of all its connections on this thread.
    account: Arc<HostAccount>,
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

    /// A tenant may have connections from now on.
    pub(super) fn announce(&mut self, announcement: Announcement, limits: &Limits, board: &Board) {
        let Announcement { id, host, .. } = announcement;
        if self.known.len() <= id.index() {
            self.known.resize_with(id.index() + 1, || None);
        }
        let account = HostAccount::new(self.memory.of_host(limits));
        let tenant = Tenant { record: board.enter(host), account, reasons: Reasons::default() };
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
        let (host, total) = (Arc::clone(&tenant.record.host), memory + in_switch);
        board.slow.offer(SlowIo {
            ended: now,
            host,
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
