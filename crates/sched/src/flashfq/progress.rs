//! Progress of each tenant, in virtual time.
//!
//! A tenant's *progress* is the start tag of its next IO: of the one at the head of its queue, or of the one it would send now.
//! It grows by cost/weight with every IO dispatched, and with the clock while the next IO is merely expected: thinking is
//! charged as if it were device time, so that a tenant that thinks slowly does not delay the others.
//!
//! Virtual time is the smallest progress of any active tenant. So only an active tenant's own IOs move it on, and a
//! newcomer starts level with the least-served tenant.
//!
//! Holds: virtual time never goes back (`virtual_time_never_goes_back`).
//! Elsewhere: the caller decides which tenants are active.

use alloc::collections::BTreeSet;
use units::{Instant, Nanos, TenantId};

/// Bits below a nanosecond, so that a large weight does not round a small cost away.
const FRACTION_BITS: u32 = 16;

/// A point in virtual time: device time received per unit of weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tag(i128);

impl Tag {
    /// This tag and `cost / weight`, rounded up.
    pub(super) fn after(self, cost: Nanos, weight: u32) -> Tag {
        Tag(self.0 + fixed(cost.0).div_ceil(u128::from(weight)) as i128)
    }
}

fn fixed(nanos: u64) -> u128 {
    u128::from(nanos) << FRACTION_BITS
}

/// A tag that moves with the clock, stored as its value at the origin of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MovingTag(i128);

impl MovingTag {
    /// A tag that begins to move.
    pub(super) fn from(tag: Tag, now: Instant) -> MovingTag {
        MovingTag(tag.0 - fixed(now.0) as i128)
    }

    /// Its progress.
    pub(super) fn at(self, now: Instant) -> Tag {
        Tag(self.0 + fixed(now.0) as i128)
    }

    /// The first instant at which it is no more than `lead` behind `tag`.
    fn catches_up_at(self, tag: Tag, lead: Nanos) -> Instant {
        let way = tag.0 - fixed(lead.0) as i128 - self.0;
        let nanos = u128::try_from(way).unwrap_or(0).div_ceil(1 << FRACTION_BITS);
        Instant(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// The active tenants, the least advanced first.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// Those with something queued or in flight.
    busy: BTreeSet<(Tag, TenantId)>,
    /// Tenants of which IOs are expected, with the end of that expectation.
    expected: BTreeSet<(MovingTag, TenantId, Instant)>,
    /// The largest progress of a tenant that left.
    latest: Tag,
}

impl Progress {
    /// Virtual time: the smallest progress; with no active tenant, the largest progress until now.
    pub(super) fn virtual_time(&self, now: Instant) -> Tag {
        let busy = self.busy.first().map(|(tag, _)| *tag);
        let expected = self.expected.first().map(|(tag, ..)| tag.at(now));
        [busy, expected].into_iter().flatten().min().unwrap_or(self.latest)
    }

    /// Makes a tenant with progress `tag` busy after it was not active. Returns where it starts.
    pub(super) fn join(&mut self, now: Instant, tag: Tag, tenant: TenantId) -> Tag {
        let start = tag.max(self.virtual_time(now));
        self.resume(start, tenant);
        start
    }

    /// Makes a tenant busy at `tag`.
    pub(super) fn resume(&mut self, tag: Tag, tenant: TenantId) {
        let is_new = self.busy.insert((tag, tenant));
        assert!(is_new, "{tenant} is active twice at {tag:?}");
    }

    /// Ends a tenant's being busy.
    pub(super) fn pause(&mut self, tag: Tag, tenant: TenantId) {
        let was_there = self.busy.remove(&(tag, tenant));
        assert!(was_there, "{tenant} is not busy at {tag:?}");
        self.latest = self.latest.max(tag);
    }

    /// Expects an IO of a tenant.
    pub(super) fn expect(&mut self, tag: MovingTag, tenant: TenantId, until: Instant) {
        self.expected.insert((tag, tenant, until));
    }

    /// Ends the expectation of a tenant's IO. Returns its progress.
    pub(super) fn expect_no_more(
        &mut self,
        now: Instant,
        tag: MovingTag,
        tenant: TenantId,
        until: Instant,
    ) -> Tag {
        let was_there = self.expected.remove(&(tag, tenant, until));
        assert!(was_there, "nothing is expected of {tenant} until {until:?}");
        let reached = tag.at(now.min(until));
        self.latest = self.latest.max(reached);
        reached
    }

    /// Whether a tenant at `tag` is more than `lead` ahead of a busy one.
    pub(super) fn waits_for_busy(&self, tag: Tag, lead: Nanos) -> bool {
        self.busy.first().is_some_and(|(least, _)| least.after(lead, 1) < tag)
    }

    /// Until when a tenant at `tag` is more than `lead` ahead of one of which something is expected; `None` if it is not.
    pub(super) fn waits_for_expected(&self, now: Instant, tag: Tag, lead: Nanos) -> Option<Instant> {
        let behind = self.expected.iter().map(|(moving, _, until)| (moving.catches_up_at(tag, lead), until));
        behind.take_while(|(at, _)| *at > now).map(|(at, until)| at.min(*until)).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Nanos = Nanos::micros(1);

    #[test]
    fn virtual_time_never_goes_back() {
        let mut progress = Progress::default();
        let (a, b) = (TenantId(0), TenantId(1));
        let mut now = Instant::ZERO;
        let first = progress.join(now, Tag::default(), a);
        let ahead = first.after(STEP, 1).after(STEP, 1);
        progress.pause(first, a);
        progress.resume(ahead, a);
        assert_eq!(progress.join(now, Tag::default(), b), ahead, "a newcomer starts at virtual time");
        progress.pause(ahead, b);
        let moving = MovingTag::from(ahead, now);
        let until = now + Nanos(STEP.0 * 3);
        progress.expect(moving, b, until);
        progress.pause(ahead, a);
        assert_eq!(progress.virtual_time(now), ahead);
        now += STEP;
        assert_eq!(progress.virtual_time(now), ahead.after(STEP, 1), "waiting is charged");
        now += Nanos(STEP.0 * 10);
        let reached = progress.expect_no_more(now, moving, b, until);
        assert_eq!(reached, ahead.after(Nanos(STEP.0 * 3), 1), "but not for longer than it lasted");
        assert_eq!(progress.virtual_time(now), reached, "it does not move while no tenant is active");
        assert_eq!(progress.join(now, first, a), reached);
    }

    #[test]
    fn who_is_expected_catches_up_at_the_named_instant() {
        let mut progress = Progress::default();
        let now = Instant(5_000);
        let moving = MovingTag::from(Tag::default(), now);
        progress.expect(moving, TenantId(0), now + Nanos::millis(1));
        let tag = Tag::default().after(Nanos(700), 3);
        let at = progress.waits_for_expected(now, tag, Nanos(100)).expect("it is 133 ns behind");
        assert!(at > now && moving.at(at).after(Nanos(100), 1) >= tag);
        assert!(moving.at(at - Nanos(1)).after(Nanos(100), 1) < tag);
        assert_eq!(progress.waits_for_expected(at, tag, Nanos(100)), None);
    }

    #[test]
    fn a_weight_divides_the_cost() {
        let zero = Tag::default();
        assert_eq!(zero.after(STEP, 4).after(STEP, 4).after(STEP, 4).after(STEP, 4), zero.after(STEP, 1));
        assert!(zero.after(Nanos(1), 1000) > zero);
    }
}
