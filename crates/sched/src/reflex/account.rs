//! The tokens of one latency-critical tenant.
//!
//! It earns its reservation and may spend as long as its debt stays above NEG_LIMIT, so a burst goes at once. It gives
//! away tokens that it does not need: whenever it has saved up POS_LIMIT, the earnings of a few rounds, 90 % of that go
//! to the others.
//!
//! ```text
//!  credit  POS_LIMIT ┄┄╱┄┄╱┄┄╱┄   ─ 90 % ► global bucket
//!                     ╱ │╱ │╱
//!          0 ┄┄┄┄┄┄┄┄╱
//!  NEG_LIMIT ┄┄┄┄┄┄┄╱    ◄ at or below it, the queue waits
//! ```
//!
//! Holds: the credit stays below POS_LIMIT (`what_is_saved_beyond_the_limit_is_given_away`); advancing in two steps is
//!        the same as in one (`it_does_not_matter_when_one_looks`).
//! Paper: ReFlex §4.3, Algorithm 1. The original looks once a round; here POS_LIMIT is met at the instant it is reached.

use super::amount::{Parts, per_span};
use super::config::{ReflexConfig, TokenRate};
use units::Nanos;

/// One latency-critical tenant's tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    rate: TokenRate,
    credit: Parts,
    /// POS_LIMIT.
    saved_max: Parts,
    /// Tokens that it gives when it reaches that.
    gift: Parts,
    /// NEG_LIMIT, as a positive number.
    debt_max: Parts,
}

impl Account {
    /// An account with nothing in it that earns nothing yet.
    pub(super) fn new(config: &ReflexConfig) -> Account {
        let debt_max = Parts::from(config.debt_max);
        Account { rate: TokenRate(0), credit: Parts(0), saved_max: Parts(1), gift: Parts(1), debt_max }
    }

    /// Sets its earnings from now on.
    pub(super) fn set_rate(&mut self, config: &ReflexConfig, rate: TokenRate) {
        self.rate = rate;
        let saved = per_span(rate, config.round).0 * i128::from(config.saved_rounds);
        self.saved_max = Parts(saved.max(1));
        self.gift = Parts((saved * i128::from(config.donated_percent) / 100).max(1));
    }

    /// Its earnings per second.
    pub(super) fn rate(&self) -> TokenRate {
        self.rate
    }

    /// The largest gift that it makes at a time.
    pub(super) fn gift(&self) -> Parts {
        self.gift
    }

    /// Tokens that it may still save.
    pub(super) fn room(&self) -> Parts {
        Parts(self.saved_max.0 - self.credit.0)
    }

    /// Tokens that it will have given away after `span` if it spends nothing.
    pub(super) fn gives_in(&self, span: Nanos) -> Parts {
        let beyond = self.credit.0 + per_span(self.rate, span).0 - self.saved_max.0;
        if beyond < 0 { Parts(0) } else { Parts((1 + beyond / self.gift.0) * self.gift.0) }
    }

    /// Lets time pass. Returns the tokens that it has given away.
    pub(super) fn advance(&mut self, span: Nanos) -> Parts {
        let given = self.gives_in(span);
        self.credit.0 += per_span(self.rate, span).0 - given.0;
        given
    }

    /// Whether it may spend now.
    pub(super) fn may_spend(&self) -> bool {
        self.credit.0 > -self.debt_max.0
    }

    /// Time until it may spend; `None` if its rate never allows it.
    pub(super) fn time_until_it_may(&self) -> Option<Nanos> {
        if self.may_spend() {
            return Some(Nanos::ZERO);
        }
        Parts(1 - self.debt_max.0 - self.credit.0).time_to_earn(self.rate)
    }

    /// Pays.
    pub(super) fn spend(&mut self, cost: Parts) {
        self.credit.0 -= cost.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reflex::config::{Millitokens, SupplyPoint};
    use alloc::vec;

    const RATE: TokenRate = TokenRate::tokens_per_sec(100_000);

    fn account() -> (ReflexConfig, Account) {
        let point = SupplyPoint { latency_p95: Nanos::micros(500), mixed: RATE, read_only: RATE };
        let config = ReflexConfig::new(Millitokens::TOKEN, Millitokens::tokens(10), vec![point]);
        let mut account = Account::new(&config);
        account.set_rate(&config, RATE);
        (config, account)
    }

    #[test]
    fn a_burst_goes_down_to_the_negative_limit() {
        let (config, mut account) = account();
        let mut spent = 0;
        while account.may_spend() {
            account.spend(Millitokens::TOKEN.into());
            spent += 1;
        }
        assert_eq!(Millitokens::tokens(spent), config.debt_max);
        let wait = account.time_until_it_may().expect("it earns");
        assert_eq!(wait, Nanos(1), "NEG_LIMIT itself is not allowed, a trifle above it is");
        account.spend(Millitokens::TOKEN.into());
        assert_eq!(account.time_until_it_may(), Some(Nanos(10_001)), "a token takes 10 µs");
        account.advance(Nanos(10_000));
        assert!(!account.may_spend());
        account.advance(Nanos(1));
        assert!(account.may_spend());
    }

    #[test]
    fn what_is_saved_beyond_the_limit_is_given_away() {
        let (config, mut account) = account();
        let limit = per_span(RATE, config.round).0 * 3;
        assert_eq!(account.advance(Nanos(3 * config.round.0 - 1)), Parts(0));
        let given = account.advance(Nanos(1));
        assert_eq!(given.0, limit * 9 / 10, "90 % of what it earns in three rounds");
        assert_eq!(account.credit.0, limit / 10);
        let second = account.advance(Nanos::secs(1));
        let earned = per_span(RATE, Nanos::secs(1)).0;
        assert!(earned - second.0 < limit, "in the long run it gives what it earns: {second:?} of {earned}");
        assert!(account.room().0 > 0);
    }

    #[test]
    fn it_does_not_matter_when_one_looks() {
        let (_, mut once) = account();
        let mut often = once;
        let span = Nanos(1_234_567);
        let mut given = 0;
        for _ in 0..1000 {
            given += often.advance(span).0;
        }
        assert_eq!(once.gives_in(Nanos(span.0 * 1000)).0, given);
        assert_eq!(once.advance(Nanos(span.0 * 1000)).0, given);
        assert_eq!(once.credit, often.credit);
    }
}
