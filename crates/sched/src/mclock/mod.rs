//! mClock: reservations, limits and weights by three tags for every IO.
//!
//! ```text
//!   R (reservation)  ← max(the last R + the time that the reserved rate takes for the IO, arrival)
//!   L (limit)        ← max(the last L + the time that the limit takes for it,             arrival)
//!   P (weight)       ← max(the last P + its cost / weight,                                arrival)
//!
//!   a head with R ≤ now?  ─ yes ─► the smallest R goes                                         constraint-based
//!            │ no
//!   heads with L ≤ now?   ─ yes ─► the smallest P goes, and its tenant's R tags are moved back  weight-based
//! ```
//!
//! The first phase sees to reservations, the second divides the rest. The service of the second does not count against its reservation.
//! Arrival times and P tags are compared, so P tags must not run ahead of the clock for ever: when an idle tenant comes, all P tags are shifted so
//! that the smallest one is now.
//!
//! The cost of an IO grows with its size: `1 + size / size_base`, where `size_base` is the amount that the device
//! transfers in the time that an IO of any size takes. The paper does not distinguish reads and writes, so neither does
//! this.
//!
//! Holds: it is idle only with nothing queued or `depth` IOs inside; if every head is held back by its limit, it names the first instant at which
//!        one is not; each decision is that of a naive model (`tests/policies/mclock_naive.rs`).
//! Paper: mClock (Gulati, Merchant, Varman, OSDI 2010) §3. dmClock's ρ and δ count what other servers have done for a tenant; before one SSD they
//!        are 1, so this is dmClock, too. Ours: a reservation and [`limit_rate`](crate::Share::limit_rate) are in bytes;
//!        tags are given when an IO becomes its tenant's first; the shift moves an idle tenant's last tag, too, otherwise a tenant that
//!        has one IO at a time would be ever further behind. The paper's credit for idle time (σ) and its batches of near addresses are left
//!        out: a scheduler here does not see addresses.

use crate::policy::SECOND;
use crate::queues::Queues;
use crate::{Backlog, Credit, Done, Io, Next, Policy, Share, Ticket};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use units::{Bytes, Instant, Nanos, TenantId};

/// mClock's constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MclockConfig {
    /// IOs that may be inside the SSD at a time. Never zero.
    pub depth: u32,
    /// Bytes that cost as much as one IO of no size. Never zero.
    pub size_base: Bytes,
}

impl MclockConfig {
    /// The queue of a LUN under the paper's hypervisor; and 8 KiB, which follows from 400,000 IOs or 3.2 GB per second.
    pub const STANDARD: MclockConfig = MclockConfig { depth: 32, size_base: Bytes::kib(8) };

    /// The time that `costs` of IOs like this one take at `per_second` of them, in parts of a nanosecond.
    fn spacing(&self, io: &Io, per_second: u64, second: Nanos) -> i128 {
        let cost = u128::from(self.size_base.0) + u128::from(io.length.0);
        fixed(second.0).saturating_mul(cost).div_ceil(u128::from(self.size_base.0) * u128::from(per_second))
            as i128
    }
}

/// Bits below a nanosecond, so that a high rate does not round its spacing away.
const FRACTION_BITS: u32 = 16;

fn fixed(nanos: u64) -> u128 {
    u128::from(nanos) << FRACTION_BITS
}

fn at(now: Instant) -> i128 {
    fixed(now.0) as i128
}

/// The first instant at which a tag is due.
fn due(tag: i128) -> Instant {
    let nanos = u128::try_from(tag).unwrap_or(0).div_ceil(1 << FRACTION_BITS);
    Instant(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// One SSD's mClock.
#[derive(Clone, Debug)]
pub struct Mclock {
    config: MclockConfig,
    queues: Queues,
    tags: Vec<Tenant>,
    /// Sum by which P tags were shifted back: those below are stored as if they had not been.
    shift: i128,
    /// Heads by R, if their tenant has a reservation.
    reserved: BTreeSet<(i128, TenantId)>,
    /// Heads by P.
    weighed: BTreeSet<(i128, TenantId)>,
    /// Those of them that their limit does not hold back.
    ready: BTreeSet<(i128, TenantId)>,
    /// The others by L.
    held: BTreeSet<(i128, TenantId)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tenant {
    /// The tags of its last IO.
    last: Tags,
    /// Tags of the first queued IO.
    head: Option<Head>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tags {
    reservation: i128,
    limit: i128,
    weight: i128,
}

#[derive(Clone, Copy, Debug)]
struct Head {
    tags: Tags,
    /// Distance of R tags for an IO like this; `None` without a reservation.
    reserves: Option<i128>,
}

impl Default for Mclock {
    fn default() -> Mclock {
        Mclock::new(MclockConfig::STANDARD)
    }
}

impl Mclock {
    /// A scheduler with nothing queued.
    ///
    /// # Panics
    /// If a constant is zero.
    pub fn new(config: MclockConfig) -> Mclock {
        assert!(config.depth > 0 && config.size_base > Bytes::ZERO, "{config:?} lets nothing through");
        Mclock {
            config,
            queues: Queues::default(),
            tags: Vec::new(),
            shift: 0,
            reserved: BTreeSet::new(),
            weighed: BTreeSet::new(),
            ready: BTreeSet::new(),
            held: BTreeSet::new(),
        }
    }

    /// Takes the tenant's head out of the order.
    fn unrank(&mut self, id: TenantId) {
        if self.tags.len() < self.queues.tenants() {
            self.tags.resize(self.queues.tenants(), Tenant::default());
        }
        let Some(Head { tags, .. }) = self.tags[id.index()].head.take() else { return };
        self.reserved.remove(&(tags.reservation, id));
        self.weighed.remove(&(tags.weight, id));
        self.ready.remove(&(tags.weight, id));
        self.held.remove(&(tags.limit, id));
    }

    /// Gives the tenant's first IO its tags and its place in the order.
    fn rank(&mut self, id: TenantId) {
        self.unrank(id);
        let Some((io, arrival)) = self.queues.head(id) else { return };
        let share = self.queues.share(id);
        let (arrived, last) = (at(arrival), self.tags[id.index()].last);
        let of_bytes = |rate: u64| {
            (fixed(share.second.0) * u128::from(io.length.0)).div_ceil(u128::from(rate.max(1))) as i128
        };
        let reserves = share.reservation.map(|rate| of_bytes(rate.0));
        let limits = [
            share.limit_iops.map(|iops| fixed(share.second.0).div_ceil(u128::from(iops.max(1))) as i128),
            share.limit_rate.map(|rate| of_bytes(rate.0)),
        ];
        let limit = limits.into_iter().flatten().max();
        let weight = self.config.spacing(io, u64::from(share.weight), SECOND);
        let tags = Tags {
            reservation: (last.reservation + reserves.unwrap_or(0)).max(arrived),
            limit: limit.map_or(0, |limit| (last.limit + limit).max(arrived)),
            weight: (last.weight + weight).max(arrived + self.shift),
        };
        self.tags[id.index()].head = Some(Head { tags, reserves });
        if reserves.is_some() {
            self.reserved.insert((tags.reservation, id));
        }
        self.weighed.insert((tags.weight, id));
        // Sorted out when the next decision is made.
        self.held.insert((tags.limit, id));
    }

    /// Moves heads that their limit does not hold back any more to `ready`.
    fn release(&mut self, now: Instant) {
        while let Some(&(limit, id)) = self.held.first()
            && limit <= at(now)
        {
            self.held.pop_first();
            let head = self.tags[id.index()].head.expect("what is held is a head");
            self.ready.insert((head.tags.weight, id));
        }
    }

    fn submit(&mut self, id: TenantId, by_weight: bool) -> Io {
        let Head { mut tags, reserves } = self.tags[id.index()].head.expect("a head was chosen");
        if by_weight {
            tags.reservation -= reserves.unwrap_or(0);
        }
        let io = self.queues.submit(id);
        self.unrank(id);
        self.tags[id.index()].last = tags;
        self.rank(id);
        io
    }
}

impl Policy for Mclock {
    fn on_arrival(&mut self, now: Instant, io: Io) -> Ticket {
        let (id, was_idle) = (io.tenant, self.queues.is_idle(io.tenant));
        if let Some((least, _)) = self.weighed.first().filter(|_| was_idle) {
            self.shift = least - at(now);
        }
        let ticket = self.queues.on_arrival(now, io);
        if self.tags.get(id.index()).is_none_or(|tenant| tenant.head.is_none()) {
            self.rank(id);
        }
        ticket
    }

    fn next(&mut self, now: Instant) -> Next {
        let backlog = self.queues.backlog();
        if backlog.queued == 0 || backlog.in_flight >= self.config.depth as usize {
            return Next::Idle;
        }
        let reserved = self.reserved.first().copied();
        if let Some((_, id)) = reserved.filter(|(tag, _)| *tag <= at(now)) {
            return Next::Submit(self.submit(id, false));
        }
        self.release(now);
        if let Some(&(_, id)) = self.ready.first() {
            return Next::Submit(self.submit(id, true));
        }
        let first = [reserved, self.held.first().copied()].into_iter().flatten().map(|(tag, _)| tag).min();
        first.map_or(Next::Idle, |tag| Next::WakeAt(due(tag)))
    }

    fn on_completion(&mut self, _now: Instant, done: Done) -> Credit {
        self.queues.on_end(&done);
        Credit(u32::MAX)
    }

    fn withdraw_one(&mut self, _now: Instant, tenant: TenantId, ticket: Ticket) -> Io {
        let (io, withdrawn) = self.queues.withdraw_one(tenant, ticket);
        if withdrawn.head_changed {
            self.rank(tenant);
        }
        io
    }

    fn withdraw(&mut self, _now: Instant, tenant: TenantId, gone: &mut dyn FnMut(&Io) -> bool) {
        if self.queues.withdraw(tenant, gone).head_changed {
            self.rank(tenant);
        }
    }

    fn forget(&mut self, _now: Instant, tenant: TenantId) {
        self.queues.forget(tenant);
        self.unrank(tenant);
        self.tags[tenant.index()] = Tenant::default();
    }

    fn set_share(&mut self, _now: Instant, tenant: TenantId, share: Share) {
        self.queues.set_share(tenant, share);
        self.rank(tenant);
    }

    fn credit(&self, _tenant: TenantId) -> Credit {
        Credit(u32::MAX)
    }

    fn backlog(&self) -> Backlog {
        self.queues.backlog()
    }
}
