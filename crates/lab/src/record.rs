//! One run as a line of the results: plain numbers with their units in their names.

use crate::experiment::Experiment;
use crate::measure::{DirectionFigures, GroupMeasured, Measured};
use crate::plan::{Plan, Purpose};
use serde::Serialize;
use sim::Tally;
use ssd::Condition;
use units::Instant;

/// One case under one scheduler with one seed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Record {
    /// The experiment's name.
    pub experiment: String,
    /// The case's name.
    pub case: String,
    /// The swept parameter's value.
    pub x: Option<f64>,
    /// The SSD's profile.
    pub profile: String,
    /// The flash's state at the start.
    pub condition: &'static str,
    /// The scheduler.
    pub scheduler: &'static str,
    /// The seed.
    pub seed: u64,
    /// All tenants together, 10^6 bytes per second.
    pub mb_per_s: f64,
    /// Sum of f-Util over the tenants divided by their number: the part of the device's time that did useful work.
    pub utilisation: f64,
    /// In the order of the case.
    pub groups: Vec<GroupRecord>,
    /// The state of the scheduler at the end of each interval.
    pub time_series: Vec<SchedulerPoint>,
    /// The moments at which the switch found the SSD slow, whatever the scheduler.
    pub busy: Vec<BusyPoint>,
    /// IOs that came back, warm-up included.
    pub ios: u64,
    /// A hash of every decision and completion with its time, hexadecimal; none for a live run, which cannot be repeated.
    pub fingerprint: Option<String>,
}

/// One group of tenants in one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupRecord {
    /// Its name.
    pub name: String,
    /// Number of tenants.
    pub tenants: u32,
    /// Measured seconds.
    pub seconds: f64,
    /// All its tenants together, 10^6 bytes per second.
    pub mb_per_s: f64,
    /// The maximum of the device for this kind of work, 10^6 bytes per second: many workers alone, no scheduler.
    pub mb_per_s_maximum: f64,
    /// The bandwidth of one worker of this kind alone, 10^6 bytes per second.
    pub mb_per_s_one: f64,
    /// Mean over its tenants of bandwidth / (maximum / tenants in the run). 1 is a fair share.
    pub f_util: f64,
    /// The smallest of its tenants' values.
    pub f_util_least: f64,
    /// The largest of its tenants' values.
    pub f_util_greatest: f64,
    /// The same as `f_util`, measured against one worker alone instead of the maximum.
    pub f_util_one: f64,
    /// Mean over its tenants of |f-Util − 1|.
    pub deviation: f64,
    /// Its reads.
    pub read: Option<DirectionFigures>,
    /// Its writes.
    pub write: Option<DirectionFigures>,
    /// Interval by interval.
    pub series: Vec<GroupPoint>,
    /// Period by period, under PARDA.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<WindowPoint>,
}

/// PARDA's windows of a group at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WindowPoint {
    /// Seconds since the measurement began; negative in the warm-up.
    pub second: f64,
    /// IOs that a host may have outstanding, the mean over the group's hosts.
    pub window: f64,
}

/// One group in one interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GroupPoint {
    /// End of the interval, seconds since the measurement began.
    pub second: f64,
    /// 10^6 bytes per second.
    pub mb_per_s: f64,
    /// Mean latency seen from the network, microseconds; reads.
    pub read_us: Option<f64>,
    /// The same for writes.
    pub write_us: Option<f64>,
    /// Mean latency inside the SSD, microseconds; reads.
    pub read_device_us: Option<f64>,
    /// The same for writes.
    pub write_device_us: Option<f64>,
}

/// A scheduler that measures the SSD, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SchedulerPoint {
    /// Seconds since the measurement began; negative in the warm-up.
    pub second: f64,
    /// Moving average of the reads' latency, microseconds.
    pub read_ewma_us: Option<f64>,
    /// Threshold of the reads, microseconds.
    pub read_threshold_us: f64,
    /// Moving average of the writes' latency, microseconds.
    pub write_ewma_us: Option<f64>,
    /// Threshold of the writes, microseconds.
    pub write_threshold_us: f64,
    /// Target rate, 10^6 bytes per second; `None` if nothing is paced.
    pub target_mb_per_s: Option<f64>,
    /// Cost of a written byte.
    pub write_cost: f64,
    /// How fragmented the scheduler finds the flash, from 0 (clean) to 1 (fragmented); `None` if it does not measure it.
    pub fragmentation: Option<f64>,
}

/// An SSD that is slow, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BusyPoint {
    /// Seconds since the measurement began; negative in the warm-up.
    pub second: f64,
    /// The slowdown factor of reads.
    pub reads_slowdown: f64,
    /// The same for writes.
    pub writes_slowdown: f64,
    /// The expected remaining time in seconds; `None` if that is not known.
    pub for_about: Option<f64>,
}

impl Record {
    /// The record of run `run` of `plan`, if that is a case: `result` is its result, `measured` the results of all runs in
    /// virtual time, of which those of each kind of work alone are needed.
    pub fn new(
        experiment: &Experiment,
        plan: &Plan,
        run: usize,
        result: &Measured,
        measured: &[Measured],
    ) -> Option<Record> {
        let Purpose::Case { profile, case: c, scheduler, .. } = plan.runs[run].purpose else { return None };
        let (world, case) = (&plan.runs[run].world, &experiment.cases[c]);
        let population = f64::from(case.population());
        let (seconds, interval) = (world.duration.as_secs_f64(), world.interval.as_secs_f64());
        let mut groups = Vec::with_capacity(case.groups.len());
        for (g, (group, found)) in case.groups.iter().zip(&result.groups).enumerate() {
            let alone = plan.alone(profile, c, g);
            let maximum = measured[alone.maximum].groups[0].bandwidth();
            let one = measured[alone.one].groups[0].bandwidth();
            let warm_up = world.warm_up.as_secs_f64();
            let basis = Basis { maximum, one, population, seconds, interval, warm_up };
            groups.push(GroupRecord::new(group.name.clone(), found, basis));
        }
        let tenants = |of: fn(&GroupRecord) -> f64| -> f64 {
            groups.iter().map(|group| of(group) * f64::from(group.tenants)).sum()
        };
        Some(Record {
            experiment: experiment.name.clone(),
            case: case.name.clone(),
            x: case.x,
            profile: world.profile.name.clone(),
            condition: match world.condition {
                Condition::Clean => "clean",
                Condition::Fragmented => "fragmented",
            },
            scheduler: experiment.schedulers[scheduler].name(),
            seed: world.seed,
            mb_per_s: groups.iter().map(|group| group.mb_per_s).sum(),
            utilisation: tenants(|group| group.f_util) / population,
            time_series: time_series(result, world.warm_up.as_secs_f64()),
            busy: busy(result, world.warm_up.as_secs_f64()),
            ios: result.ios,
            fingerprint: result.fingerprint.map(|hash| format!("{hash:016x}")),
            groups,
        })
    }

    /// The group of a name.
    pub fn group(&self, name: &str) -> Option<&GroupRecord> {
        self.groups.iter().find(|group| group.name == name)
    }
}

/// The reference of a group's f-Util.
#[derive(Clone, Copy)]
struct Basis {
    maximum: f64,
    one: f64,
    population: f64,
    /// Measured seconds, those of one interval, and those before the measurement.
    seconds: f64,
    interval: f64,
    warm_up: f64,
}

/// The figures of one direction of any group.
pub type FiguresOf = fn(&GroupRecord) -> Option<&DirectionFigures>;

impl GroupRecord {
    /// The directions in which it did IO, by name; reads if it did none.
    pub fn directions(&self) -> Vec<(&'static str, FiguresOf)> {
        let read: (&str, FiguresOf) = ("read", |group| group.read.as_ref());
        let write: (&str, FiguresOf) = ("write", |group| group.write.as_ref());
        match (&self.read, &self.write) {
            (Some(_), Some(_)) => vec![read, write],
            (None, Some(_)) => vec![write],
            _ => vec![read],
        }
    }

    /// IOs per second of all its tenants.
    pub fn iops(&self) -> f64 {
        let ios = |figures: &Option<DirectionFigures>| figures.as_ref().map_or(0, |figures| figures.ios);
        (ios(&self.read) + ios(&self.write)) as f64 / self.seconds
    }

    fn new(name: String, found: &GroupMeasured, basis: Basis) -> GroupRecord {
        let tenants = found.bandwidths.len() as f64;
        let f_utils = |whole: f64| found.bandwidths.iter().map(move |own| own * basis.population / whole);
        let mean = |whole: f64| f_utils(whole).sum::<f64>() / tenants;
        GroupRecord {
            name,
            tenants: found.bandwidths.len() as u32,
            seconds: basis.seconds,
            mb_per_s: found.bandwidth() / 1e6,
            mb_per_s_maximum: basis.maximum / 1e6,
            mb_per_s_one: basis.one / 1e6,
            f_util: mean(basis.maximum),
            f_util_least: f_utils(basis.maximum).fold(f64::INFINITY, f64::min),
            f_util_greatest: f_utils(basis.maximum).fold(0.0, f64::max),
            f_util_one: mean(basis.one),
            deviation: f_utils(basis.maximum).map(|f_util| (f_util - 1.0).abs()).sum::<f64>() / tenants,
            read: found.read.clone(),
            write: found.write.clone(),
            series: (1..)
                .zip(&found.series)
                .map(|(n, point)| {
                    let bytes = point.read.bytes + point.write.bytes;
                    let mean = |tally: Tally, sum: units::Nanos| {
                        (tally.ios > 0).then(|| sum.0 as f64 / tally.ios as f64 / 1e3)
                    };
                    GroupPoint {
                        second: f64::from(n) * basis.interval,
                        mb_per_s: bytes.0 as f64 / basis.interval / 1e6,
                        read_us: mean(point.read, point.read.network_latency),
                        write_us: mean(point.write, point.write.network_latency),
                        read_device_us: mean(point.read, point.read.device_latency),
                        write_device_us: mean(point.write, point.write.device_latency),
                    }
                })
                .collect(),
            windows: found
                .windows
                .iter()
                .map(|point| WindowPoint {
                    second: point.at.since(Instant::ZERO).as_secs_f64() - basis.warm_up,
                    window: point.window,
                })
                .collect(),
        }
    }
}

fn time_series(result: &Measured, warm_up: f64) -> Vec<SchedulerPoint> {
    let micros = |latency: units::Nanos| latency.0 as f64 / 1e3;
    let point = |(at, view): &(Instant, sched::SsdView)| SchedulerPoint {
        second: at.since(Instant::ZERO).as_secs_f64() - warm_up,
        read_ewma_us: view.reads.ewma.map(micros),
        read_threshold_us: micros(view.reads.threshold),
        write_ewma_us: view.writes.ewma.map(micros),
        write_threshold_us: micros(view.writes.threshold),
        target_mb_per_s: view.pacing.map(|pacing| pacing.target_rate.0 as f64 / 1e6),
        write_cost: view.write_cost.as_f64(),
        fragmentation: view.fragmentation.map(|fragmentation| fragmentation.as_f64()),
    };
    result.views.iter().map(point).collect()
}

fn busy(result: &Measured, warm_up: f64) -> Vec<BusyPoint> {
    let times = |slowdown: units::Slowdown| f64::from(slowdown.in_quarters()) / 4.0;
    let point = |(at, period): &(Instant, sched::BusyPeriod)| BusyPoint {
        second: at.since(Instant::ZERO).as_secs_f64() - warm_up,
        reads_slowdown: times(period.reads),
        writes_slowdown: times(period.writes),
        for_about: period.for_about.map(|rest| rest.as_secs_f64()),
    };
    result.busy.iter().map(point).collect()
}
