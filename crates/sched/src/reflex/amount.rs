//! Amounts of tokens so fine that a rate times a time is exact.

use super::config::{Millitokens, TokenRate};
use units::Nanos;

/// A debt or credit, in billionths of a thousandth of a token: the earnings of a rate of 1 in a nanosecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Parts(pub(super) i128);

/// Of one thousandth of a token.
const PARTS: i128 = 1_000_000_000;

impl From<Millitokens> for Parts {
    fn from(tokens: Millitokens) -> Parts {
        Parts(i128::from(tokens.0) * PARTS)
    }
}

impl Parts {
    /// The least span in which `rate` earns this; `None` if it never does.
    pub(super) fn time_to_earn(self, rate: TokenRate) -> Option<Nanos> {
        match (self.0, rate.0) {
            (..=0, _) => Some(Nanos::ZERO),
            (_, 0) => None,
            (parts, rate) => Some(Nanos(
                u64::try_from(parts.unsigned_abs().div_ceil(u128::from(rate))).unwrap_or(u64::MAX),
            )),
        }
    }
}

/// Earnings of `rate` in `span`.
pub(super) fn per_span(rate: TokenRate, span: Nanos) -> Parts {
    Parts(i128::from(rate.0) * i128::from(span.0))
}
