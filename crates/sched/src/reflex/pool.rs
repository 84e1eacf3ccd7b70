//! The tokens of the best-effort tenants.
//!
//! Each round the original gives every best-effort tenant an equal part of the rate that is not reserved, passes on the
//! tokens that one of them does not need to the next, starting with another one each time, and throws away the rest.
//! With rounds of no length that is: the rate, and all donated tokens, are divided among the tenants with backlog, in
//! proportion to their weights; while no tenant has backlog, they are lost. So it suffices to count the tokens that one
//! unit of weight has received.
//!
//! ```text
//!  rate + gifts ──► level: tokens per unit of weight, ever
//!                     ▲ a tenant notes `level + cost/weight of its head` when its queue fills, and pays at that level
//! ```
//!
//! A tenant keeps the tokens left after it has paid for its head while more is queued (the original's saved tokens).
//!
//! Holds: all tenants together never spend more than came in (`what_is_spent_came_in`, in the tests of the policy).
//! Paper: ReFlex §4.3, Algorithm 1; equal weights in the paper.

use super::account::Account;
use super::amount::{Parts, per_span};
use super::config::TokenRate;
use alloc::collections::BTreeSet;
use units::{Nanos, TenantId};

/// Tokens that a unit of weight has received in total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Level(i128);

impl Level {
    /// The level at which a tenant that has spent up to `self` can pay `cost`, rounded up.
    pub(super) fn after(self, cost: Parts, weight: u32) -> Level {
        Level(self.0 + per_weight(cost, weight))
    }

    /// The state of a tenant that can pay `cost` at `self`.
    pub(super) fn before(self, cost: Parts, weight: u32) -> Level {
        Level(self.0 - per_weight(cost, weight))
    }
}

fn per_weight(cost: Parts, weight: u32) -> i128 {
    cost.0.unsigned_abs().div_ceil(u128::from(weight)) as i128
}

/// The best-effort tenants with queued IOs, and the tokens that they are given.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool {
    rate: TokenRate,
    level: Level,
    /// Tokens that came in, but too few to raise the level.
    rest: i128,
    /// When each tenant can pay for its head; among equals, the first.
    waiting: BTreeSet<(Level, u64, TenantId)>,
    weights: i128,
}

impl Pool {
    /// Tokens per second that are not reserved.
    pub(super) fn set_rate(&mut self, rate: TokenRate) {
        self.rate = rate;
    }

    /// Tokens that a unit of weight has received.
    pub(super) fn level(&self) -> Level {
        self.level
    }

    /// Lets a tenant wait until it can pay.
    pub(super) fn add(&mut self, due: Level, turn: u64, tenant: TenantId, weight: u32) {
        let is_new = self.waiting.insert((due, turn, tenant));
        assert!(is_new, "{tenant} waits twice");
        self.weights += i128::from(weight);
        self.rest = 0;
    }

    /// Ends its wait.
    pub(super) fn remove(&mut self, due: Level, turn: u64, tenant: TenantId, weight: u32) {
        let was_there = self.waiting.remove(&(due, turn, tenant));
        assert!(was_there, "{tenant} does not wait");
        self.weights -= i128::from(weight);
        self.rest = 0;
    }

    /// Lets time pass while `gifts` come in.
    pub(super) fn advance(&mut self, span: Nanos, gifts: Parts) {
        if self.weights == 0 {
            return;
        }
        let income = self.rest + per_span(self.rate, span).0 + gifts.0;
        self.level.0 += income / self.weights;
        self.rest = income % self.weights;
    }

    /// A tenant that can pay for its head now.
    pub(super) fn payable(&self) -> Option<TenantId> {
        let (due, _, tenant) = self.waiting.first()?;
        (*due <= self.level).then_some(*tenant)
    }

    /// Time until a tenant can pay, given the donations; `None` if no tenant waits or no tokens will ever come in.
    pub(super) fn time_until_payable<'a>(
        &self,
        donors: impl Iterator<Item = &'a Account> + Clone,
    ) -> Option<Nanos> {
        let (due, ..) = self.waiting.first()?;
        let missing = (due.0 - self.level.0) * self.weights - self.rest;
        let rate =
            TokenRate(donors.clone().fold(self.rate.0, |sum, donor| sum.saturating_add(donor.rate().0)));
        let gift_max: i128 = donors.clone().map(|donor| donor.gift().0).sum();
        let room: i128 = donors.clone().map(|donor| donor.room().0.max(0)).sum();
        // Donors give all they earn, but in lumps: up to a gift each too early, and up to the amount that they may save
        // too late.
        let mut early = Parts(missing - gift_max).time_to_earn(rate)?;
        let mut late = Parts(missing + room).time_to_earn(rate)?;
        let has_come = |span: Nanos| {
            let gifts: i128 = donors.clone().map(|donor| donor.gives_in(span).0).sum();
            per_span(self.rate, span).0 + gifts >= missing
        };
        while early < late {
            let middle = Nanos(early.0 + (late.0 - early.0) / 2);
            if has_come(middle) {
                late = middle;
            } else {
                early = middle + Nanos(1);
            }
        }
        Some(late)
    }
}
