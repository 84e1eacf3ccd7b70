//! SPDK's rate limits of a block device: an allowance for every millisecond.
//!
//! ```text
//!   each limit of a tenant:   allowance ← the limit's part of a millisecond, less any overdraft        at every tick
//!                             an IO goes while every allowance is above zero, and is taken from all of them
//! ```
//!
//! The rest of an allowance is lost at a tick; an overdraft is not forgiven. A tenant here is a namespace there. SPDK
//! limits IOs or bytes per second, of reads and writes together (and of either alone, which no [`Share`](crate::Share)
//! asks for). It divides nothing: an operator who wants shares must know the rate of the SSD, and give each namespace
//! its part of that, even if most of them are idle. So a tenant without a limit of its own gets its weight's part of
//! `rate`, the rate from a data sheet, if that is given.
//!
//! Holds: it names the first tick at which an IO may go (`tests/policies/every.rs`); each decision is that of a naive model
//!        (`tests/policies/spdk_qos_naive.rs`); a tenant gets its limit and no more (`tests/policies/peers.rs`).
//! Source: SPDK's documentation of `bdev_set_qos_limit`: limits, and a timeslice of 1 ms. Ours: IOs of several tenants that may go
//!         go by turns, starting with the lowest number; a limit need not be a multiple of 1000 IOs or 1 MB.

use crate::policy::SECOND;
use crate::queues::Queues;
use crate::{Backlog, Credit, Done, Io, Next, Policy, Share, Ticket};
use alloc::vec::Vec;
use units::{ByteRate, Instant, Nanos, TenantId};

/// The timeslice.
const SLICE: Nanos = Nanos::millis(1);
/// Allowances are counted in parts of an IO or byte: one per nanosecond of a second.
const PARTS: i128 = SECOND.0 as i128;

/// One SSD with rate limits.
#[derive(Clone, Debug)]
pub struct SpdkQos {
    rate: Option<ByteRate>,
    queues: Queues,
    tenants: Vec<Tenant>,
    /// Sum over all tenants that were named.
    weights: u64,
    turn: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tenant {
    is_named: bool,
    weight: u32,
    ios: Option<Allowance>,
    bytes: Option<Allowance>,
}

/// Allowance of this slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Allowance {
    /// Allowance of a whole slice, in parts.
    each: i128,
    left: i128,
    /// The slice that `left` is of.
    slice: u64,
}

impl Allowance {
    fn new(per_second: u64, second: Nanos, slice: u64) -> Allowance {
        let each = i128::from(per_second) * i128::from(SLICE.0) * PARTS / i128::from(second.0);
        let each = each.max(1);
        Allowance { each, left: each, slice }
    }

    /// This allowance in place of `old`, with no more left than `old` has.
    fn after(self, old: Option<Allowance>) -> Allowance {
        let Some(mut old) = old else { return self };
        old.advance(self.slice);
        Allowance { left: self.left.min(old.left), ..self }
    }

    fn advance(&mut self, slice: u64) {
        if slice > self.slice {
            let overdrawn = self.left.min(0);
            self.left = (overdrawn + self.each * i128::from(slice - self.slice)).min(self.each);
            self.slice = slice;
        }
    }

    /// The first slice in which something is left.
    fn recovers(&self) -> u64 {
        if self.left > 0 {
            return self.slice;
        }
        self.slice + u64::try_from(-self.left / self.each + 1).unwrap_or(u64::MAX >> 1)
    }
}

fn slice(now: Instant) -> u64 {
    now.0 / SLICE.0
}

impl SpdkQos {
    /// A scheduler with nothing queued. With a `rate`, tenants without limits of their own share that.
    pub fn new(rate: Option<ByteRate>) -> SpdkQos {
        SpdkQos { rate, queues: Queues::default(), tenants: Vec::new(), weights: 0, turn: 0 }
    }

    fn tenant(&mut self, id: TenantId) -> &mut Tenant {
        if self.tenants.len() <= id.index() {
            self.tenants.resize(id.index() + 1, Tenant::default());
        }
        &mut self.tenants[id.index()]
    }

    /// Names a tenant that was never named.
    fn register(&mut self, now: Instant, id: TenantId) {
        if !self.tenant(id).is_named {
            self.enter(now, id);
        }
    }

    fn enter(&mut self, now: Instant, id: TenantId) {
        let weight = self.queues.share(id).weight;
        *self.tenant(id) = Tenant { is_named: true, weight, ..Tenant::default() };
        self.weights += u64::from(weight);
        self.set_limits(now, Some(id));
    }

    fn leave(&mut self, now: Instant, id: TenantId) {
        let tenant = core::mem::take(self.tenant(id));
        self.weights -= u64::from(tenant.weight);
        self.set_limits(now, None);
    }

    /// Sets the limits of one tenant again, and of all that share the rate, as their parts have changed.
    fn set_limits(&mut self, now: Instant, only: Option<TenantId>) {
        let now = slice(now);
        for index in 0..self.tenants.len() {
            let id = TenantId(index as u32);
            let (share, tenant) = (self.queues.share(id), &mut self.tenants[index]);
            let has_own = share.limit_iops.is_some() || share.limit_rate.is_some();
            if !tenant.is_named || (has_own && only != Some(id)) {
                continue;
            }
            let part = |rate: ByteRate| {
                let part = u128::from(rate.0) * u128::from(tenant.weight) / u128::from(self.weights.max(1));
                Allowance::new(part as u64, SECOND, now)
            };
            let ios = share.limit_iops.map(|iops| Allowance::new(iops, share.second, now));
            let bytes = match (share.limit_rate, self.rate) {
                (Some(limit), _) => Some(Allowance::new(limit.0, share.second, now)),
                (None, Some(rate)) if !has_own => Some(part(rate)),
                (None, _) => None,
            };
            tenant.ios = ios.map(|new| new.after(tenant.ios));
            tenant.bytes = bytes.map(|new| new.after(tenant.bytes));
        }
    }
}

impl Policy for SpdkQos {
    fn on_arrival(&mut self, now: Instant, io: Io) -> Ticket {
        self.register(now, io.tenant);
        self.queues.on_arrival(now, io)
    }

    fn next(&mut self, now: Instant) -> Next {
        let (slice, count) = (slice(now), self.tenants.len());
        let mut first = None;
        for step in 0..count {
            let index = (self.turn + step) % count;
            let id = TenantId(index as u32);
            let Some((io, _)) = self.queues.head(id) else { continue };
            let bytes = i128::from(io.length.0);
            let Tenant { ios, bytes: rate, .. } = &mut self.tenants[index];
            let limits = [(ios, 1), (rate, bytes)];
            let mut recovers = slice;
            for (allowance, _) in &limits {
                if let Some(allowance) = allowance {
                    let mut allowance = *allowance;
                    allowance.advance(slice);
                    recovers = recovers.max(allowance.recovers());
                }
            }
            if recovers > slice {
                first = Some(first.map_or(recovers, |first: u64| first.min(recovers)));
                continue;
            }
            for (allowance, cost) in limits {
                if let Some(allowance) = allowance {
                    allowance.advance(slice);
                    allowance.left -= cost * PARTS;
                }
            }
            self.turn = (index + 1) % count;
            return Next::Submit(self.queues.submit(id));
        }
        first.map_or(Next::Idle, |slice| Next::WakeAt(Instant(slice.saturating_mul(SLICE.0))))
    }

    fn on_completion(&mut self, _now: Instant, done: Done) -> Credit {
        self.queues.on_end(&done);
        Credit(u32::MAX)
    }

    fn withdraw_one(&mut self, _now: Instant, tenant: TenantId, ticket: Ticket) -> Io {
        self.queues.withdraw_one(tenant, ticket).0
    }

    fn withdraw(&mut self, _now: Instant, tenant: TenantId, gone: &mut dyn FnMut(&Io) -> bool) {
        self.queues.withdraw(tenant, gone);
    }

    fn forget(&mut self, now: Instant, tenant: TenantId) {
        self.queues.forget(tenant);
        self.leave(now, tenant);
    }

    fn set_share(&mut self, now: Instant, tenant: TenantId, share: Share) {
        if self.tenant(tenant).is_named {
            self.leave(now, tenant);
        }
        self.queues.set_share(tenant, share);
        self.enter(now, tenant);
    }

    fn credit(&self, _tenant: TenantId) -> Credit {
        Credit(u32::MAX)
    }

    fn backlog(&self) -> Backlog {
        self.queues.backlog()
    }
}
