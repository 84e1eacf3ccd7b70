//! Tokens that the SSD can spend per second, and whether another reservation fits.
//!
//! The strictest bound on latency decides for all: the tokens per second that keep the SSD's 95th percentile below it.
//! Latency-critical tenants reserve of these what their IOs will cost. With no such tenant the SSD is driven as hard as the
//! calibration went.
//!
//! Holds: whatever is admitted, the reservations together never exceed the supply (`what_is_admitted_fits_the_supply`).
//! Paper: ReFlex §3.2, §4.3. The release takes its first point for bounds stricter than that; nothing is known there, so we refuse.

use super::config::{Millitokens, ReflexConfig, SupplyPoint, TokenRate};
use crate::policy::SECOND;
use crate::{Objective, Percentile, Refused};
use units::Nanos;

impl ReflexConfig {
    /// Cost of an objective, in tokens of mixed load per second of the scheduler's clock.
    pub fn reservation(&self, objective: &Objective) -> TokenRate {
        let Objective { slo, second } = objective;
        let reads = u128::from(slo.read_percent.min(100));
        let per_hundred =
            reads * u128::from(self.read_cost.0) + (100 - reads) * u128::from(self.write_cost.0);
        let tokens = u128::from(slo.iops).saturating_mul(per_hundred).saturating_mul(u128::from(SECOND.0));
        let rate = tokens.div_ceil(100 * u128::from(second.0));
        TokenRate(u64::try_from(rate).unwrap_or(u64::MAX))
    }

    /// Tokens (of mixed load) per second at which the 95th percentile stays below `bound`, `None` being no bound at all.
    ///
    /// Without writes, every IO is a read and costs less; instead of charging less for each, there are more tokens to spend.
    pub fn supply_at(&self, bound: Option<Nanos>, is_read_only: bool) -> TokenRate {
        if !is_read_only {
            return self.interpolated(bound, |point| point.mixed);
        }
        let TokenRate(rate) = self.interpolated(bound, |point| point.read_only);
        let exchanged =
            u128::from(rate) * u128::from(self.read_cost.0) / u128::from(self.read_only_read_cost.0);
        TokenRate(u64::try_from(exchanged).unwrap_or(u64::MAX))
    }

    fn interpolated(&self, bound: Option<Nanos>, rate: impl Fn(&SupplyPoint) -> TokenRate) -> TokenRate {
        let last = self.supply.last().expect("the constants were checked");
        let Some(bound) = bound else { return rate(last) };
        let above = self.supply.partition_point(|point| point.latency_p95 <= bound);
        match (above.checked_sub(1).map(|below| &self.supply[below]), self.supply.get(above)) {
            (Some(below), Some(above)) => {
                let (x, width) = (bound.0 - below.latency_p95.0, above.latency_p95.0 - below.latency_p95.0);
                let rise = u128::from(rate(above).0 - rate(below).0) * u128::from(x) / u128::from(width);
                TokenRate(rate(below).0 + rise as u64)
            }
            (None, Some(first)) => rate(first),
            (_, None) => rate(last),
        }
    }

    /// Whether `objective` fits in addition to those that were admitted. `has_best_effort` says whether a tenant may write without having
    /// said so.
    ///
    /// # Errors
    /// Why not.
    pub fn admit(
        &self,
        objective: &Objective,
        admitted: impl Iterator<Item = Objective>,
        has_best_effort: bool,
    ) -> Result<(), Refused> {
        let Objective { slo, second } = objective;
        if slo.iops == 0 || slo.read_percent > 100 {
            return Err(Refused::Meaningless(*slo));
        }
        if slo.percentile != Percentile::P95 {
            return Err(Refused::NotCalibrated(slo.percentile));
        }
        let strictest = self.supply[0].latency_p95;
        if objective.latency() < strictest {
            let strictest = objective.in_tenants_time(strictest);
            return Err(Refused::TooStrict { bound: slo.latency, strictest });
        }
        let mut reserved = TokenRate(0);
        let (mut bound, mut is_read_only) =
            (objective.latency(), !has_best_effort && slo.read_percent == 100);
        for other in admitted {
            reserved = TokenRate(reserved.0.saturating_add(self.reservation(&other).0));
            bound = bound.min(other.latency());
            is_read_only &= other.slo.read_percent == 100;
        }
        let (asked, supply) = (self.reservation(objective), self.supply_at(Some(bound), is_read_only));
        if asked.0.saturating_add(reserved.0) > supply.0 {
            let [asked, reserved, supply] = [asked, reserved, supply].map(|rate| rate.per_second_of(*second));
            return Err(Refused::TooMuch { asked, reserved, supply });
        }
        Ok(())
    }
}

impl TokenRate {
    /// Whole tokens per second.
    pub(crate) fn whole(self) -> u64 {
        self.0 / Millitokens::TOKEN.0
    }

    /// The same rate, per second of a clock of which one takes `second`; to the nearest thousandth of a token.
    fn per_second_of(self, second: Nanos) -> TokenRate {
        let (tokens, whole) = (u128::from(self.0) * u128::from(second.0), u128::from(SECOND.0));
        TokenRate(u64::try_from((tokens + whole / 2) / whole).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Slo;
    use alloc::vec;
    use alloc::vec::Vec;

    fn config() -> ReflexConfig {
        let point = |micros, mixed, read_only| SupplyPoint {
            latency_p95: Nanos::micros(micros),
            mixed: TokenRate::tokens_per_sec(mixed),
            read_only: TokenRate::tokens_per_sec(read_only),
        };
        let supply = vec![point(500, 360_000, 850_000), point(1000, 500_000, 950_000)];
        ReflexConfig::new(Millitokens(500), Millitokens::tokens(10), supply)
    }

    fn slo(iops: u64, read_percent: u8, micros: u64) -> Objective {
        let (percentile, latency) = (Percentile::P95, Nanos::micros(micros));
        let slo = Slo { iops, read_percent, percentile, latency };
        Objective { slo, second: SECOND }
    }

    #[test]
    fn the_supply_is_a_line_between_points_and_level_beyond() {
        let config = config();
        let at = |micros| config.supply_at(Some(Nanos::micros(micros)), false);
        assert_eq!(at(500), TokenRate::tokens_per_sec(360_000));
        assert_eq!(at(750), TokenRate::tokens_per_sec(430_000));
        assert_eq!(at(1000), TokenRate::tokens_per_sec(500_000));
        assert_eq!(at(5000), TokenRate::tokens_per_sec(500_000));
        assert_eq!(config.supply_at(None, false), at(1000));
    }

    #[test]
    fn a_cheaper_read_is_a_larger_supply() {
        let supply = config().supply_at(None, true);
        assert_eq!(supply, TokenRate::tokens_per_sec(1_900_000), "950 000 at half a token each");
    }

    #[test]
    fn a_reservation_weighs_reads_and_writes() {
        let reservation = config().reservation(&slo(100_000, 80, 500));
        assert_eq!(reservation, TokenRate::tokens_per_sec(80_000 + 20_000 * 10));
    }

    #[test]
    fn what_is_admitted_fits_the_supply() {
        let config = config();
        let mut admitted: Vec<Objective> = Vec::new();
        let asked = [
            (20_000, 90, 2000),
            (90_000, 100, 500),
            (10_000, 0, 800),
            (200_000, 100, 600),
            (50_000, 99, 700),
        ];
        for (iops, reads, micros) in asked.into_iter().cycle().take(20) {
            let slo = slo(iops, reads, micros);
            if config.admit(&slo, admitted.iter().copied(), true).is_ok() {
                admitted.push(slo);
            }
            let reserved: u64 = admitted.iter().map(|slo| config.reservation(slo).0).sum();
            let bound = admitted.iter().map(Objective::latency).min();
            assert!(reserved <= config.supply_at(bound, false).0, "{admitted:?}");
        }
        assert!((2..20).contains(&admitted.len()), "{admitted:?}");
    }

    #[test]
    fn a_refusal_says_what_stands_against_it() {
        let config = config();
        let first = slo(300_000, 100, 500);
        assert_eq!(config.admit(&first, [].into_iter(), true), Ok(()));
        let tokens = TokenRate::tokens_per_sec;
        assert_eq!(
            config.admit(&slo(100_000, 100, 1000), [first].into_iter(), true),
            Err(Refused::TooMuch {
                asked: tokens(100_000),
                reserved: tokens(300_000),
                supply: tokens(360_000)
            })
        );
        assert_eq!(
            config.admit(&slo(100_000, 100, 1000), [first].into_iter(), false),
            Ok(()),
            "nobody writes"
        );
        let (bound, strictest) = (Nanos::micros(499), Nanos::micros(500));
        assert_eq!(
            config.admit(&slo(1, 100, 499), [].into_iter(), true),
            Err(Refused::TooStrict { bound, strictest })
        );
        let mut other = slo(1, 100, 500);
        other.slo.percentile = Percentile::P99;
        assert_eq!(config.admit(&other, [].into_iter(), true), Err(Refused::NotCalibrated(Percentile::P99)));
        assert!(matches!(
            config.admit(&slo(0, 100, 500), [].into_iter(), true),
            Err(Refused::Meaningless(_))
        ));
    }

    #[test]
    fn an_objective_and_its_refusal_are_in_the_tenants_time() {
        let config = config();
        // A twentieth of the speed: a second of the tenant is 50 ms here.
        let second = Nanos::millis(50);
        let objective = |iops, micros| Objective { second, ..slo(iops, 100, micros) };
        let first = objective(15_000, 10_000);
        assert_eq!(first.latency(), Nanos::micros(500));
        assert_eq!(config.reservation(&first), TokenRate::tokens_per_sec(300_000));
        assert_eq!(config.admit(&first, [].into_iter(), true), Ok(()));
        let tokens = TokenRate::tokens_per_sec;
        assert_eq!(
            config.admit(&objective(5_000, 20_000), [first].into_iter(), true),
            Err(Refused::TooMuch { asked: tokens(5_000), reserved: tokens(15_000), supply: tokens(18_000) })
        );
        let (bound, strictest) = (Nanos::micros(9_999), Nanos::micros(10_000));
        assert_eq!(
            config.admit(&objective(1, 9_999), [].into_iter(), true),
            Err(Refused::TooStrict { bound, strictest })
        );
        let seven = Objective { second: Nanos::secs(7), ..slo(10, 100, 500) };
        assert_eq!(config.reservation(&seven), TokenRate(1429), "a seventh of ten tokens, rounded up");
    }
}
