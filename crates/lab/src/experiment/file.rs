//! The vocabulary of an `experiment.toml`, and the checks that make an [`Experiment`] of it.
//!
//! The vocabulary is fio's and that of `gimbal bench`'s job files, where they have a word.

use super::{Case, Experiment, ExperimentError, Group, Parameter, Window};
use crate::claims::{Claim, names};
use crate::figure::{self, Figure};
use crate::scheduler::Scheduler;
use crate::ssds::CalibratedSsd;
use sched::{Percentile, Share, Slo};
use serde::Deserialize;
use sim::{Arrival, Bursts, Network, Pattern, Workload};
use ssd::Condition;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use units::{ByteRate, Bytes, Nanos};

/// Default warm-up and duration of the measurement of stand-alone speeds.
const ALONE: (Nanos, Nanos) = (Nanos::millis(500), Nanos::millis(1000));
/// The granularity of addresses and lengths of the simulated SSD.
const GRAIN: Bytes = Bytes::kib(4);
/// The greatest depth of a queue, and the greatest number of tenants of a group.
const DEPTH_MAX: u32 = 4096;
const COUNT_MAX: u32 = 4096;
/// The greatest number of points of a series: more cannot be seen, and cost memory for every tenant.
const POINTS_MAX: u64 = 10_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    source: String,
    about: String,
    profiles: Vec<String>,
    /// Calibration files, by the names in `profiles`.
    #[serde(default)]
    calibrations: BTreeMap<String, PathBuf>,
    seeds: Vec<u64>,
    warm_up: Nanos,
    duration: Nanos,
    interval: Nanos,
    /// Warm-up and duration of the stand-alone runs.
    alone: Option<[Nanos; 2]>,
    /// The delay of one way.
    network_delay: Option<Nanos>,
    /// Replaces `duration` with `--quick`.
    quick_duration: Option<Nanos>,
    parda: Option<PardaSpec>,
    schedulers: Vec<String>,
    #[serde(rename = "case")]
    cases: Vec<CaseSpec>,
    #[serde(rename = "claim", default)]
    claims: Vec<Claim>,
    #[serde(rename = "figure", default)]
    figures: Vec<Figure>,
}

/// Settings that replace those of the calibration.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PardaSpec {
    latency_threshold: Nanos,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseSpec {
    name: String,
    condition: ConditionName,
    /// Number of seeds, from the experiment's first on, instead of all of the experiment's.
    seeds: Option<u32>,
    warm_up: Option<Nanos>,
    duration: Option<Nanos>,
    sweep: Option<Sweep>,
    groups: Vec<GroupSpec>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sweep {
    over: Parameter,
    values: Vec<u32>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ConditionName {
    Clean,
    Fragmented,
}

/// As in fio: `read` and `write` are sequential, `rand…` is random, `…rw` mixes.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Access {
    Read,
    Write,
    Rw,
    RandRead,
    RandWrite,
    RandRw,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupSpec {
    name: String,
    #[serde(default = "one")]
    count: u32,
    rw: Access,
    bs: Bytes,
    #[serde(default = "one")]
    iodepth: u32,
    /// Per cent of reads in a mix.
    #[serde(default = "half")]
    rwmixread: u8,
    /// An application that asks for at most this many bytes per second.
    rate_max: Option<Bytes>,
    /// An open loop: this many IOs per second at random moments, whether or not earlier ones have completed.
    rate_iops: Option<u32>,
    /// The tenant is busy for this long, then idle for `pause`, repeatedly.
    burst: Option<Nanos>,
    pause: Option<Nanos>,
    /// Only this many bytes of the SSD; all of it if absent.
    size: Option<Bytes>,
    /// The start of these bytes.
    #[serde(default)]
    offset: Option<Bytes>,
    #[serde(default = "one")]
    weight: u32,
    /// At most this many bytes per second, enforced by the switch.
    limit: Option<Bytes>,
    /// At least this many bytes per second while there is backlog.
    reservation: Option<Bytes>,
    /// A bound on latency.
    slo: Option<SloSpec>,
    #[serde(default = "yes")]
    obeys_credit: bool,
    start: Option<Nanos>,
    /// The delay of each further tenant of the group.
    start_step: Option<Nanos>,
    stop: Option<Nanos>,
    stop_step: Option<Nanos>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct SloSpec {
    /// The bound holds while the tenant asks for at most this many IOs of 4 KiB per second.
    iops: u64,
    /// Per cent of reads among them.
    #[serde(default = "all")]
    read_percent: u8,
    latency_p95: Option<Nanos>,
    latency_p99: Option<Nanos>,
}

fn all() -> u8 {
    100
}

fn one() -> u32 {
    1
}

fn half() -> u8 {
    50
}

fn yes() -> bool {
    true
}

/// The position of a field in the file, for errors.
struct Place<'o> {
    origin: &'o str,
    field: String,
}

impl Place<'_> {
    fn wrong(&self, field: &str, problem: impl Into<String>) -> ExperimentError {
        let field = if self.field.is_empty() { field.to_owned() } else { format!("{}: {field}", self.field) };
        ExperimentError::Value { origin: self.origin.to_owned(), field, problem: problem.into() }
    }
}

/// The SSDs that a file names. Paths are relative to the file.
fn ssds(
    top: &Place<'_>,
    names: &[String],
    calibrations: &BTreeMap<String, PathBuf>,
) -> Result<Vec<CalibratedSsd>, ExperimentError> {
    let folder = Path::new(top.origin).parent().unwrap_or(Path::new(""));
    if let Some(stray) = calibrations.keys().find(|name| !names.contains(name)) {
        return Err(top.wrong("calibrations", format!("{stray} is not in profiles; write it as it is there")));
    }
    let mut ssds: Vec<CalibratedSsd> = Vec::with_capacity(names.len());
    for name in names {
        let mut ssd =
            CalibratedSsd::find(name, folder).map_err(|error| top.wrong("profiles", error.to_string()))?;
        if let Some(path) = calibrations.get(name) {
            ssd.load_calibration(&folder.join(path))
                .map_err(|error| top.wrong("calibrations", error.to_string()))?;
        }
        let own = &ssd.profile.name;
        if ssds.iter().any(|other| other.profile.name == *own) {
            let problem = format!(
                "there are two called {own}; results would be mixed up: change `name` in one of the files"
            );
            return Err(top.wrong("profiles", problem));
        }
        ssds.push(ssd);
    }
    Ok(ssds)
}

pub(super) fn read(text: &str, name: &str, origin: &str) -> Result<Experiment, ExperimentError> {
    let file: File = toml::from_str(text).map_err(|error| ExperimentError::Syntax {
        origin: origin.to_owned(),
        message: error.to_string().trim_end().to_owned(),
    })?;
    let top = Place { origin, field: String::new() };
    if file.seeds.is_empty() {
        return Err(top.wrong("seeds", "there is none; give at least one, for example [1]"));
    }
    if file.profiles.is_empty() {
        return Err(top.wrong("profiles", "there is none; give at least one, for example [\"dct983\"]"));
    }
    let ssds = ssds(&top, &file.profiles, &file.calibrations)?;
    let schedulers = file
        .schedulers
        .iter()
        .map(|name| Scheduler::named(name).map_err(|unknown| top.wrong("schedulers", unknown.to_string())))
        .collect::<Result<Vec<_>, _>>()?;
    if schedulers.is_empty() {
        return Err(top.wrong("schedulers", "there is none; give at least one, for example [\"gimbal\"]"));
    }
    for ssd in &ssds {
        for scheduler in &schedulers {
            scheduler.setup(ssd).map_err(|error| top.wrong("schedulers", error.to_string()))?;
        }
    }
    let window = window(&top, file.warm_up, file.duration, file.interval)?;
    let mut cases = Vec::new();
    for spec in file.cases {
        let place = Place { origin, field: format!("case {}", spec.name) };
        if cases.iter().any(|case: &Case| case.name == spec.name) {
            return Err(place.wrong("name", "there are two of it; every case needs a name of its own"));
        }
        cases.extend(expand(&place, spec, window, file.interval, &file.seeds)?);
    }
    if cases.is_empty() {
        return Err(top.wrong("case", "there is none; add a [[case]]"));
    }
    let network = match file.network_delay {
        Some(delay) => Network { delay, ..Network::RDMA_100G },
        None => Network::RDMA_100G,
    };
    let alone = file.alone.map_or(ALONE, |[warm_up, duration]| (warm_up, duration));
    let experiment = Experiment {
        name: name.to_owned(),
        title: file.title,
        source: file.source,
        about: file.about,
        ssds,
        seeds: file.seeds,
        network,
        parda_threshold: file.parda.map(|parda| parda.latency_threshold),
        schedulers,
        cases,
        alone: Window { warm_up: alone.0, duration: alone.1, interval: alone.1 },
        quick_duration: file.quick_duration,
        claims: file.claims,
        figures: file.figures,
    };
    for claim in &experiment.claims {
        check_claim(&experiment, claim, origin)?;
    }
    for figure in &experiment.figures {
        let place = Place { origin, field: format!("figure {}", figure.name) };
        figure::check(&experiment, figure).map_err(|(field, problem)| place.wrong(field, problem))?;
    }
    Ok(experiment)
}

fn window(
    place: &Place<'_>,
    warm_up: Nanos,
    duration: Nanos,
    interval: Nanos,
) -> Result<Window, ExperimentError> {
    let window = Window { warm_up, duration, interval };
    if window.interval == Nanos::ZERO || window.duration == Nanos::ZERO {
        return Err(place.wrong("duration", "neither it nor the interval may be zero"));
    }
    if window.duration.0 / window.interval.0 > POINTS_MAX {
        return Err(
            place.wrong("interval", format!("makes more than {POINTS_MAX} points; take a longer one"))
        );
    }
    Ok(window)
}

/// A case for each value of the sweep, or the single case.
fn expand(
    place: &Place<'_>,
    spec: CaseSpec,
    whole: Window,
    interval: Nanos,
    seeds: &[u64],
) -> Result<Vec<Case>, ExperimentError> {
    let warm_up = spec.warm_up.unwrap_or(whole.warm_up);
    let duration = spec.duration.unwrap_or(whole.duration);
    let window = window(place, warm_up, duration, interval)?;
    if spec.groups.is_empty() {
        return Err(place.wrong("groups", "there is none; a case needs at least one group"));
    }
    let seeds = match spec.seeds {
        None => seeds.to_vec(),
        Some(0) => return Err(place.wrong("seeds", "there is none; give at least 1, or leave it out")),
        Some(count) => (seeds[0]..).take(count as usize).collect(),
    };
    let condition = match spec.condition {
        ConditionName::Clean => Condition::Clean,
        ConditionName::Fragmented => Condition::Fragmented,
    };
    let case = |x, swept, groups: Vec<GroupSpec>| {
        let groups = groups.into_iter().map(|group| group_of(place, group)).collect::<Result<Vec<_>, _>>()?;
        let seeds = seeds.clone();
        Ok(Case { name: spec.name.clone(), x, swept, condition, seeds, window, groups })
    };
    let Some(sweep) = &spec.sweep else { return Ok(vec![case(None, None, spec.groups.clone())?]) };
    if sweep.values.is_empty() {
        return Err(place.wrong("sweep", "has no values"));
    }
    let swept = |value: &u32| {
        let groups = spec.groups.iter().map(|group| set(place, group.clone(), sweep.over, *value));
        case(Some(f64::from(*value)), Some(sweep.over), groups.collect::<Result<_, _>>()?)
    };
    sweep.values.iter().map(swept).collect()
}

fn set(
    place: &Place<'_>,
    group: GroupSpec,
    over: Parameter,
    value: u32,
) -> Result<GroupSpec, ExperimentError> {
    Ok(match over {
        Parameter::RwMixRead => {
            let rwmixread =
                u8::try_from(value).map_err(|_| place.wrong("sweep", "a percentage is at most 100"))?;
            GroupSpec { rwmixread, ..group }
        }
        Parameter::Bs => GroupSpec { bs: Bytes::kib(u64::from(value)), ..group },
        Parameter::IoDepth => GroupSpec { iodepth: value, ..group },
        Parameter::Count => GroupSpec { count: value, ..group },
    })
}

fn group_of(case: &Place<'_>, spec: GroupSpec) -> Result<Group, ExperimentError> {
    let place = Place { origin: case.origin, field: format!("{}, group {}", case.field, spec.name) };
    let between = |field: &str, value: u32, most: u32| {
        let fits = (1..=most).contains(&value);
        if fits {
            Ok(())
        } else {
            Err(place.wrong(field, format!("{value} does not lie between 1 and {most}")))
        }
    };
    let rate = |field: &str, rate: Option<Bytes>| match rate {
        Some(Bytes::ZERO) => Err(place.wrong(field, "a rate of zero lets nothing through; leave it out")),
        other => Ok(other.map(|bytes| ByteRate(bytes.0))),
    };
    grained(&place, "bs", spec.bs)?;
    between("iodepth", spec.iodepth, DEPTH_MAX)?;
    between("count", spec.count, COUNT_MAX)?;
    between("weight", spec.weight, u32::from(u16::MAX))?;
    if spec.rwmixread > 100 {
        return Err(place.wrong("rwmixread", "a percentage is at most 100"));
    }
    let region = region(&place, spec.size, spec.offset)?;
    let arrival = match spec.rate_iops {
        Some(0) => return Err(place.wrong("rate_iops", "no IO would ever come; leave it out")),
        Some(iops) => Arrival::Open { iops },
        None => Arrival::Closed { depth: spec.iodepth },
    };
    let bursts = match (spec.burst, spec.pause) {
        (None, None) => None,
        (Some(burst), Some(pause)) if burst > Nanos::ZERO => Some(Bursts { burst, pause }),
        (Some(_), Some(_)) => return Err(place.wrong("burst", "no IO would ever come; make it longer")),
        (Some(_), None) => return Err(place.wrong("pause", "is missing: how long after each burst?")),
        (None, Some(_)) => return Err(place.wrong("burst", "is missing: how long before each pause?")),
    };
    let (pattern, read_percent) = match spec.rw {
        Access::Read => (Pattern::Sequential, 100),
        Access::Write => (Pattern::Sequential, 0),
        Access::Rw => (Pattern::Sequential, spec.rwmixread),
        Access::RandRead => (Pattern::Random, 100),
        Access::RandWrite => (Pattern::Random, 0),
        Access::RandRw => (Pattern::Random, spec.rwmixread),
    };
    let workload = Workload {
        arrival,
        region,
        bursts,
        rate_max: rate("rate_max", spec.rate_max)?,
        ..Workload::closed(spec.iodepth, spec.bs, read_percent, pattern)
    };
    let share = Share {
        weight: spec.weight,
        limit_rate: rate("limit", spec.limit)?,
        reservation: rate("reservation", spec.reservation)?,
        slo: spec.slo.map(|slo| slo_of(&place, slo)).transpose()?,
        ..Share::EQUAL
    };
    let span = |span: Option<Nanos>| span.unwrap_or_default();
    Ok(Group {
        name: spec.name,
        count: spec.count,
        workload,
        share,
        obeys_credit: spec.obeys_credit,
        start: span(spec.start),
        start_step: span(spec.start_step),
        stop: spec.stop,
        stop_step: span(spec.stop_step),
    })
}

fn slo_of(place: &Place<'_>, spec: SloSpec) -> Result<Slo, ExperimentError> {
    let SloSpec { iops, read_percent, latency_p95, latency_p99 } = spec;
    let (percentile, latency) = match (latency_p95, latency_p99) {
        (Some(bound), None) => (Percentile::P95, bound),
        (None, Some(bound)) => (Percentile::P99, bound),
        (None, None) => return Err(place.wrong("slo", "latency_p99 is missing, for example \"1ms\"")),
        (Some(_), Some(_)) => {
            return Err(place.wrong("slo", "an objective has one bound; keep latency_p95 or latency_p99"));
        }
    };
    if iops == 0 || latency == Nanos::ZERO {
        return Err(place.wrong("slo", "an objective of no IOs, or of no latency, means nothing"));
    }
    if read_percent > 100 {
        return Err(place.wrong("slo.read_percent", "a percentage is at most 100"));
    }
    Ok(Slo { iops, read_percent, percentile, latency })
}

fn grained(place: &Place<'_>, field: &str, size: Bytes) -> Result<(), ExperimentError> {
    let fits = size.0 > 0 && size.0.is_multiple_of(GRAIN.0);
    if fits {
        Ok(())
    } else {
        Err(place.wrong(field, format!("{size} is not a positive multiple of {GRAIN}")))
    }
}

/// The first slot of a group's part of the SSD, and the one after the last; `None` is all of it.
fn region(
    place: &Place<'_>,
    size: Option<Bytes>,
    offset: Option<Bytes>,
) -> Result<Option<(u32, u32)>, ExperimentError> {
    let Some(size) = size else {
        return match offset {
            Some(_) => Err(place.wrong("offset", "needs a size: how much from there on?")),
            None => Ok(None),
        };
    };
    grained(place, "size", size)?;
    let first = match offset {
        Some(offset) => {
            if !offset.0.is_multiple_of(GRAIN.0) {
                return Err(place.wrong("offset", format!("{offset} is not a multiple of {GRAIN}")));
            }
            offset
        }
        None => Bytes::ZERO,
    };
    let slot = |bytes: Bytes| {
        u32::try_from(bytes.0 / GRAIN.0).map_err(|_| place.wrong("size", "ends beyond any simulated SSD"))
    };
    Ok(Some((slot(first)?, slot(first + size)?)))
}

/// A claim must name things that the experiment has.
fn check_claim(experiment: &Experiment, claim: &Claim, origin: &str) -> Result<(), ExperimentError> {
    let place = Place { origin, field: format!("claim {}", claim.id) };
    let Some(case) = experiment.case(&claim.case) else {
        return Err(place.wrong("case", format!("the experiment has no case {}", claim.case)));
    };
    if case.swept.is_some() {
        return Err(place.wrong("case", "is swept; a claim needs a case with one value"));
    }
    for name in claim.quantity.groups() {
        if !case.groups.iter().any(|group| group.name == name) {
            return Err(place.wrong("quantity", format!("case {} has no group {name}", case.name)));
        }
    }
    for (field, name) in [("with", &claim.with), ("about", &claim.about)] {
        let known = |name: &String| experiment.schedulers.iter().any(|scheduler| names(name, *scheduler));
        if let Some(name) = name.as_ref().filter(|name| !known(name)) {
            return Err(place.wrong(field, format!("the experiment does not run {name}")));
        }
    }
    let Some(asked) = claim.asked() else {
        return Err(place.wrong("paper", "give the source's number, or a goal in its place"));
    };
    if asked.is_goal() && !claim.compare.is_met_or_not() {
        let problem = "does not fit this comparison: a goal is met or not, so take a bound, equal or about";
        return Err(place.wrong("goal", problem));
    }
    match (claim.compare.needs_other(), &claim.with) {
        (true, None) => Err(place.wrong("with", "is missing: compared with which scheduler?")),
        (false, Some(_)) => Err(place.wrong("with", "is too much: this comparison needs no other scheduler")),
        (false, None) if claim.interval => {
            Err(place.wrong("interval", "needs a comparison with another scheduler"))
        }
        _ => Ok(()),
    }
}
