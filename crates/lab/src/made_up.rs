//! Made-up findings: small, of the right shape, the same every time. For tests of figures and reports.

use crate::experiment::{Experiment, Group};
use crate::findings::Findings;
use crate::measure::{DirectionFigures, Quantiles};
use crate::record::{GroupPoint, GroupRecord, Record, SchedulerPoint, WindowPoint};
use crate::scheduler::Scheduler;

/// A record for every profile, case, scheduler and seed of the experiment.
pub(crate) fn findings(experiment: Experiment) -> Findings {
    let mut records = Vec::new();
    for ssd in &experiment.ssds {
        for case in &experiment.cases {
            for (s, scheduler) in experiment.schedulers.iter().enumerate() {
                for seed in &case.seeds {
                    let size = 1.0 + s as f64 + 0.1 * *seed as f64 + case.x.unwrap_or(0.0) / 10.0;
                    records.push(Record {
                        experiment: experiment.name.clone(),
                        case: case.name.clone(),
                        x: case.x,
                        profile: ssd.profile.name.clone(),
                        condition: "clean",
                        scheduler: scheduler.name(),
                        seed: *seed,
                        mb_per_s: 100.0 * size,
                        utilisation: 0.9,
                        groups: case.groups.iter().map(|of| group(of, size)).collect(),
                        time_series: time_series(*scheduler, size),
                        busy: Vec::new(),
                        ios: 1000,
                        fingerprint: None,
                    });
                }
            }
        }
    }
    Findings { experiment, records }
}

fn group(of: &Group, size: f64) -> GroupRecord {
    let figures = |share: f64| {
        let quantiles = |times: f64| Quantiles {
            mean_us: 80.0 * size * times,
            p50_us: 70.0 * size * times,
            p95_us: 200.0 * size * times,
            p99_us: 300.0 * size * times,
            p999_us: 900.0 * size * times,
            p9999_us: 950.0 * size * times,
        };
        (share > 0.0).then(|| DirectionFigures {
            ios: 500,
            mb_per_s: 50.0 * size * share,
            device: quantiles(1.0),
            network: quantiles(1.2),
            end_to_end: quantiles(2.0),
        })
    };
    let reads = f64::from(of.workload.read_percent) / 100.0;
    let point = |n: u32| GroupPoint {
        second: f64::from(n) * 0.05,
        mb_per_s: 50.0 * size + f64::from(n % 3),
        read_us: (reads > 0.0 && n != 4).then_some(90.0 * size),
        write_us: (reads < 1.0 && n != 4).then_some(40.0 * size),
        read_device_us: (reads > 0.0).then_some(80.0 * size),
        write_device_us: (reads < 1.0).then_some(30.0 * size),
    };
    GroupRecord {
        name: of.name.clone(),
        tenants: of.count,
        seconds: 0.5,
        mb_per_s: 50.0 * size,
        mb_per_s_maximum: 500.0,
        mb_per_s_one: 100.0,
        f_util: size / 3.0,
        f_util_least: size / 4.0,
        f_util_greatest: size / 2.0,
        f_util_one: size / 2.0,
        deviation: (size / 3.0 - 1.0).abs(),
        read: figures(reads),
        write: figures(1.0 - reads),
        series: (1..=10).map(point).collect(),
        windows: (0..10)
            .map(|n| WindowPoint { second: f64::from(n) * 0.05 - 0.1, window: 10.0 * size + f64::from(n) })
            .collect(),
    }
}

/// Only schedulers that measure the SSD show their state.
fn time_series(scheduler: Scheduler, size: f64) -> Vec<SchedulerPoint> {
    let points = if scheduler == Scheduler::NONE { 0 } else { 10 };
    let point = |n: u32| SchedulerPoint {
        second: f64::from(n) * 0.05 - 0.1,
        read_ewma_us: (n > 3).then_some(90.0 * size),
        read_threshold_us: 400.0 - 10.0 * f64::from(n),
        write_ewma_us: None,
        write_threshold_us: 500.0,
        target_mb_per_s: (scheduler != Scheduler::LEVEL_CALIBRATED).then_some(1000.0 + f64::from(n)),
        write_cost: 9.0 - f64::from(n) / 2.0,
        fragmentation: (scheduler == Scheduler::LEVEL_CALIBRATED).then_some(1.0 - f64::from(n) / 10.0),
    };
    (0..points).map(point).collect()
}
