//! The promises that the product makes about the demo, and the check whether the figures keep them.

use super::figures::{Promise, Run, TenantFigures};
use super::scenario::TENANTS;

/// Least f-Util of every tenant. All may be above 1, because different kinds of work use different parts of an SSD.
const F_UTIL_LEAST: f64 = 0.8;
/// Greatest ratio between the f-Utils of two tenants, with room for the variation of a real device and a real network.
const F_UTIL_APART: f64 = 1.25;
/// A tenant with an f-Util below this starves.
const STARVING: f64 = 0.5;
/// Least factor by which the p99 latency of a protected tenant falls.
const TAIL_FACTOR: f64 = 5.0;
/// Least utilisation with a scheduler, as a fraction of that without.
const UTILISATION_KEPT: f64 = 0.85;
/// Allowed distance of a tenant's live share of the bytes from its range in virtual time, relative to the share.
const SHARE_DIFFERENCE: f64 = 0.10;

/// Judges the runs `none` and `gimbal` against each other, and each of them against virtual time.
pub(super) fn judge(none: &Run, gimbal: &Run) -> Vec<Promise> {
    vec![
        starving(none),
        fair(gimbal),
        tail(none, gimbal),
        utilisation(none, gimbal),
        agree(none),
        agree(gimbal),
    ]
}

fn small_readers(run: &Run) -> impl Iterator<Item = &TenantFigures> {
    run.tenants.iter().zip(&TENANTS).filter(|(_, tenant)| tenant.small_reader).map(|(figures, _)| figures)
}

fn starving(none: &Run) -> Promise {
    let best = small_readers(none).map(|tenant| tenant.f_util).fold(0.0, f64::max);
    Promise {
        claim: format!("with {}, small readers starve: f-Util below {STARVING}", none.scheduler),
        measured: format!("{best:.2} at best"),
        kept: best < STARVING,
    }
}

fn fair(gimbal: &Run) -> Promise {
    let f_utils: Vec<f64> = gimbal.tenants.iter().map(|tenant| tenant.f_util).collect();
    let shown: Vec<String> = f_utils.iter().map(|f_util| format!("{f_util:.2}")).collect();
    let least = f_utils.iter().copied().fold(f64::INFINITY, f64::min);
    let most = f_utils.iter().copied().fold(0.0, f64::max);
    Promise {
        claim: format!(
            "with {}, every tenant's f-Util is at least {F_UTIL_LEAST}, and none has {F_UTIL_APART} times another's",
            gimbal.scheduler,
        ),
        measured: shown.join(", "),
        kept: least >= F_UTIL_LEAST && most <= least * F_UTIL_APART,
    }
}

fn tail(none: &Run, gimbal: &Run) -> Promise {
    let factors: Vec<f64> = small_readers(none)
        .zip(small_readers(gimbal))
        .map(|(before, after)| before.latency.p99_us / after.latency.p99_us)
        .collect();
    let shown: Vec<String> = factors.iter().map(|factor| format!("{factor:.1}×")).collect();
    Promise {
        claim: format!("the small readers' p99 latency falls at least {TAIL_FACTOR}×"),
        measured: shown.join(", "),
        kept: factors.iter().all(|factor| *factor >= TAIL_FACTOR),
    }
}

fn utilisation(none: &Run, gimbal: &Run) -> Promise {
    let kept = gimbal.utilisation / none.utilisation;
    let bytes = |run: &Run| run.tenants.iter().map(|tenant| tenant.mb_per_s).sum::<f64>();
    Promise {
        claim: format!(
            "utilisation stays above {:.0} % of that with {}",
            UTILISATION_KEPT * 100.0,
            none.scheduler
        ),
        measured: format!("{:.0} % (bytes: {:.0} %)", kept * 100.0, bytes(gimbal) / bytes(none) * 100.0),
        kept: kept >= UTILISATION_KEPT,
    }
}

fn agree(run: &Run) -> Promise {
    let outside = |tenant: &TenantFigures| {
        let (least, greatest) = tenant.share_range();
        (1.0 - tenant.share / least).max(tenant.share / greatest - 1.0).max(0.0)
    };
    let from_mean = |tenant: &TenantFigures| {
        let mean = tenant.shares_simulated.iter().sum::<f64>() / tenant.shares_simulated.len() as f64;
        (tenant.share / mean - 1.0).abs()
    };
    let worst =
        |difference: &dyn Fn(&TenantFigures) -> f64| run.tenants.iter().map(difference).fold(0.0, f64::max);
    let (outside, from_mean) = (worst(&outside), worst(&from_mean));
    Promise {
        claim: format!(
            "{}: live shares of the bytes lie within {:.0} % of what the seeds span in virtual time",
            run.scheduler,
            SHARE_DIFFERENCE * 100.0
        ),
        measured: format!("{:.1} % outside, {:.1} % from the mean", outside * 100.0, from_mean * 100.0),
        kept: outside <= SHARE_DIFFERENCE,
    }
}
