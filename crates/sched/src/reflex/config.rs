//! Facts about an SSD that ReFlex needs: the cost of an IO in tokens, and how many tokens per second it can spend.
//!
//! A token is the cost of a 4 KiB read while others write. The offline calibration finds how many tokens a write costs
//! (the weight that makes the curves of latency against load overlap for all mixes of reads and writes) and reads the
//! *supply* off that curve: tokens per second at which the 95th percentile of read latency stays below a bound. The
//! model is static: it does not know the present state of the flash.
//!
//! Paper: ReFlex (Klimovic, Litz, Kozyrakis, ASPLOS 2017) §3.2; *release*: the authors' published system, which has the
//!        same numbers in its device models. The release counts hundredths of a token, we count thousandths.

use crate::IoKind;
use alloc::vec::Vec;
use units::{Bytes, Nanos};

/// The unit in which sizes are charged: an IO pays for each 4 KiB it touches. Paper: below that, size makes no difference.
const COST_UNIT: u64 = 4096;

/// An amount of tokens, in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millitokens(pub u64);

impl Millitokens {
    /// The cost of a 4 KiB read under mixed load.
    pub const TOKEN: Millitokens = Millitokens(1000);

    /// `n` whole tokens.
    pub const fn tokens(n: u64) -> Millitokens {
        Millitokens(n * 1000)
    }
}

/// Tokens per second, in thousandths of a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenRate(pub u64);

impl TokenRate {
    /// `n` whole tokens per second.
    pub const fn tokens_per_sec(n: u64) -> TokenRate {
        TokenRate(n * 1000)
    }
}

/// One point of the calibrated curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SupplyPoint {
    /// The 95th percentile of read latency.
    pub latency_p95: Nanos,
    /// Tokens per second that lead to it under mixed load.
    pub mixed: TokenRate,
    /// Tokens per second that lead to it without writes.
    pub read_only: TokenRate,
}

/// The condition for a load without writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOnlyLoad {
    /// Every tenant is latency-critical and has said that it only reads (release). A best-effort tenant may write, so with one
    /// of them the load counts as mixed.
    Declared,
    /// No write is queued or inside the SSD, and the last one ended at least this long ago (ours; checked whenever an IO
    /// arrives or ends). Without it best-effort readers on an SSD that is faster without writes would never benefit.
    Observed(Nanos),
}

/// ReFlex's constants: the calibrated model of the SSD, and the scheduler's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReflexConfig {
    /// Cost of reading 4 KiB under mixed load: by definition [`Millitokens::TOKEN`].
    pub read_cost: Millitokens,
    /// Cost of reading 4 KiB without writes; at most `read_cost`.
    pub read_only_read_cost: Millitokens,
    /// Cost of writing 4 KiB.
    pub write_cost: Millitokens,
    /// The curve, by rising latency; neither rate ever falls. Between two points it is a line; beyond the last it is level.
    pub supply: Vec<SupplyPoint>,
    /// The condition for a load without writes.
    pub read_only_load: ReadOnlyLoad,
    /// NEG_LIMIT: the deepest debt of a latency-critical tenant. Paper: 50 tokens.
    pub debt_max: Millitokens,
    /// The length of a scheduling round, for POS_LIMIT. The original goes round as fast as it can; ours has no rounds, and
    /// this is the time that counts as one.
    pub round: Nanos,
    /// POS_LIMIT in rounds: a latency-critical tenant donates when it has saved its earnings of this many rounds.
    /// Paper: 3.
    pub saved_rounds: u32,
    /// Part of POS_LIMIT that it gives. Paper: 90 %.
    pub donated_percent: u8,
}

impl ReflexConfig {
    /// The paper's scheduler with this calibration. A round is 25 µs (ours): the paper wants rounds no longer than a
    /// twentieth of the strictest bound on latency, and 500 µs is the strictest it evaluates. The load counts as
    /// read-only 10 ms after the last write (ours), some ten times as long as a write takes to reach the flash.
    pub fn new(
        read_only_read_cost: Millitokens,
        write_cost: Millitokens,
        supply: Vec<SupplyPoint>,
    ) -> ReflexConfig {
        ReflexConfig {
            read_cost: Millitokens::TOKEN,
            read_only_read_cost,
            write_cost,
            supply,
            read_only_load: ReadOnlyLoad::Observed(Nanos::millis(10)),
            debt_max: Millitokens::tokens(50),
            round: Nanos::micros(25),
            saved_rounds: 3,
            donated_percent: 90,
        }
    }

    /// Cost of an IO under mixed load: every 4 KiB it touches, as if it were aligned.
    pub fn cost(&self, kind: IoKind, length: Bytes) -> Millitokens {
        let unit = if kind.pays_as_write() { self.write_cost } else { self.read_cost };
        Millitokens(length.0.div_ceil(COST_UNIT).saturating_mul(unit.0).min(IO_COST_MAX.0))
    }

    /// A fault of these constants, in words, if there is one.
    pub fn check(&self) -> Result<(), &'static str> {
        let (first, last) = (self.supply.first(), self.supply.last());
        let rises = |pair: &[SupplyPoint]| {
            pair[0].latency_p95 < pair[1].latency_p95
                && pair[0].mixed <= pair[1].mixed
                && pair[0].read_only <= pair[1].read_only
        };
        let is_cost = |cost: Millitokens| cost > Millitokens(0) && cost <= COST_MAX;
        let rules = [
            (is_cost(self.read_cost), "a read must cost something, at most a million tokens"),
            (is_cost(self.read_only_read_cost), "a read must cost something without writes"),
            (is_cost(self.write_cost), "a write must cost something, at most a million tokens"),
            (self.read_only_read_cost <= self.read_cost, "a read must not cost more without writes"),
            (first.is_some(), "the supply needs at least one point"),
            (
                self.supply.windows(2).all(rises),
                "latency must rise from point to point, and no rate may fall",
            ),
            (
                first.is_none_or(|point| point.mixed.0 > 0 && point.read_only.0 > 0),
                "the supply must be above zero",
            ),
            (
                last.is_none_or(|point| point.mixed <= RATE_MAX && point.read_only <= RATE_MAX),
                "the supply must be at most 10 billion tokens per second",
            ),
            (self.debt_max <= COST_MAX, "the debt must be at most a million tokens"),
            (self.round > Nanos::ZERO && self.round <= Nanos::secs(1), "a round must last 1 ns to 1 s"),
            ((1..=1000).contains(&self.saved_rounds), "savings must be those of 1 to 1000 rounds"),
            ((1..=100).contains(&self.donated_percent), "the donated part must be from 1 to 100 per cent"),
        ];
        rules.iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, wrong)| Err(wrong))
    }
}

/// Keeps every product of amounts and times far inside 128 bits.
const COST_MAX: Millitokens = Millitokens::tokens(1_000_000);
/// Likewise, for one IO, which would take years.
const IO_COST_MAX: Millitokens = Millitokens::tokens(1_000_000_000_000);
/// Likewise.
const RATE_MAX: TokenRate = TokenRate::tokens_per_sec(10_000_000_000);
