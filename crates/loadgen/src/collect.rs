//! Makes jobs of options: parses every value, fills in defaults, and reports contradictions.

use crate::blocks::BlockSizes;
use crate::direction::{Rw, per_direction};
use crate::distribution::Distribution;
use crate::job::{Amount, BS, Extent, Job, JobError};
use crate::job_file;
use crate::latency_target::LatencyTarget;
use crate::pace::{Arrival, Pacing, Rate, Rates};
use crate::settings::Settings;
use host::Class;
use std::path::PathBuf;
use units::{Bytes, Nanos, NotAQuantity, time_with_default_unit};

/// Length of the trial of each depth in a search for a latency.
const LATENCY_WINDOW: Nanos = Nanos::secs(5);
/// Runtime of a job without a limit.
const RUNTIME: Nanos = Nanos::secs(10);

/// The jobs of a run, and the options without effect.
#[derive(Debug)]
pub struct Collected {
    /// In the order in which they were given.
    pub jobs: Vec<Job>,
    /// Options of fio that have no effect here, each once.
    pub without_effect: Vec<String>,
}

/// All jobs of a run: first those of the files, then those of `--job`. Without either, the flags are the only job.
pub fn collect(flags: &Settings, files: &[PathBuf], inline: &[String]) -> Result<Collected, JobError> {
    let mut all = Vec::new();
    for file in files {
        let jobs = job_file::read(file).map_err(JobError::File)?;
        all.extend(jobs.iter().map(|job| job.overlaid(flags)));
    }
    for text in inline {
        all.push(flags.overlaid(&Settings::parse_inline(text)?));
    }
    if all.is_empty() {
        all.push(flags.clone());
    }
    let mut jobs: Vec<Job> = all
        .iter()
        .enumerate()
        .map(|(index, settings)| complete(settings, index))
        .collect::<Result<_, _>>()?;
    let (mut group, mut stage) = (0, 0);
    for (index, (settings, job)) in all.iter().zip(&mut jobs).enumerate() {
        let waits = index > 0 && settings.switch("stonewall")?;
        stage += usize::from(waits);
        group += usize::from(waits || (index > 0 && settings.switch("new_group")?));
        (job.group, job.stage) = (group, stage);
    }
    for (index, job) in jobs.iter().enumerate() {
        if jobs[..index].iter().any(|other| other.name == job.name) {
            return Err(JobError::SameName(job.name.clone()));
        }
    }
    let mut without_effect: Vec<String> =
        all.iter().flat_map(Settings::without_effect).map(str::to_owned).collect();
    without_effect.sort_unstable();
    without_effect.dedup();
    Ok(Collected { jobs, without_effect })
}

/// A kind of load, and the number behind it: `read:8k` leaves 8 KiB between IOs (`read:-8k` goes backwards), `randread:8` does 8 IOs from each
/// place that it chooses.
fn kind(text: &str) -> Result<(Rw, i64, u32), String> {
    let Some((kind, number)) = text.split_once(':') else { return Ok((Rw::parse(text)?, 0, 1)) };
    let rw = Rw::parse(kind)?;
    if rw.is_random() {
        let run = number.parse().map_err(|_| format!("`{number}` is not a number of IOs"))?;
        return Ok((rw, 0, run));
    }
    let (sign, length) = number.strip_prefix('-').map_or((1, number), |length| (-1, length));
    let length = i64::try_from(size(length)?.get()).map_err(|_| format!("`{length}` is too large"))?;
    Ok((rw, sign * length, 1))
}

fn size(text: &str) -> Result<Bytes, String> {
    text.parse().map_err(|why: NotAQuantity| why.to_string())
}

fn extent(text: &str) -> Result<Extent, String> {
    match text.strip_suffix('%') {
        Some(percent) => match percent.trim().parse() {
            Ok(percent @ 1..=100) => Ok(Extent::Percent(percent)),
            _ => Err("write 1% to 100%".to_owned()),
        },
        None => Ok(Extent::Bytes(size(text)?)),
    }
}

/// A span of time. As in fio, a bare number is in seconds.
///
/// # Errors
/// It is not a time: why.
pub fn time(text: &str) -> Result<Nanos, String> {
    time_with_default_unit(text, Nanos::secs(1)).map_err(|why| why.to_string())
}

/// A latency. As in fio, a bare number is in microseconds.
fn latency(text: &str) -> Result<Nanos, String> {
    time_with_default_unit(text, Nanos::micros(1)).map_err(|why| why.to_string())
}

fn percent(text: &str) -> Result<u8, String> {
    match text.parse() {
        Ok(percent @ 0..=100) => Ok(percent),
        _ => Err("write 0 to 100".to_owned()),
    }
}

/// Fills in the defaults and checks the job. `index` names a job without a name.
pub(crate) fn complete(settings: &Settings, index: usize) -> Result<Job, JobError> {
    let name: String = settings.get("name")?.unwrap_or_else(|| format!("job{index}"));
    let both = |one, other| JobError::Both(name.clone(), one, other);
    let (rw, gap, run) = settings.read("rw", kind)?.unwrap_or((Rw::RandRead, 0, 1));
    let (offset, offset_percent) = match settings.read("offset", extent)? {
        Some(Extent::Percent(percent)) => (Bytes::ZERO, Some(percent)),
        Some(Extent::Bytes(offset)) => (offset, None),
        Some(Extent::Rest) | None => (Bytes::ZERO, None),
    };
    let sizes =
        ["bs", "bssplit", "bsrange"].into_iter().filter(|name| settings.has(name)).collect::<Vec<_>>();
    let bs = match sizes[..] {
        [one, other, ..] => return Err(both(one, other)),
        ["bssplit"] => settings.read("bssplit", |text| BlockSizes::parse_split(text, BS))?,
        ["bsrange"] => settings.read("bsrange", |text| BlockSizes::parse_range(text, BS))?,
        _ => settings.read("bs", |text| BlockSizes::parse(text, BS))?,
    };
    let rwmixread = match (settings.read("rwmixread", percent)?, settings.read("rwmixwrite", percent)?) {
        (Some(reads), Some(writes)) if reads + writes == 100 => reads,
        (Some(_), Some(_)) => return Err(both("rwmixread", "rwmixwrite")),
        (Some(reads), None) => reads,
        (None, Some(writes)) => 100 - writes,
        (None, None) => 50,
    };
    let class = match settings.number::<u8>("class")? {
        None => Class::default(),
        Some(class) => *Class::ALL
            .get(usize::from(class))
            .ok_or_else(|| JobError::Range(name.clone(), "class", "0 to 3".into()))?,
    };
    let percentage_random =
        settings.read("percentage_random", |text| per_direction(text, percent))?.unwrap_or_default();
    let verifies =
        settings.read("verify", |text| Ok(!matches!(text, "0" | "none" | "false")))?.unwrap_or(false);
    let reads_back = settings.read("do_verify", |text| match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err("write 1 or 0".to_owned()),
    })?;
    settings.read("continue_on_error", |text| match text {
        "all" => Ok(()),
        _ => Err("a failed IO never ends a job; write all, or leave the option out".to_owned()),
    })?;
    let verify = verifies && reads_back.unwrap_or(true);
    let amount = Amount {
        io_size: settings.read("io_size", size)?,
        number_ios: settings.number("number_ios")?,
        loops: settings.number("loops")?.unwrap_or(1),
    };
    let mut job = Job {
        host_nqn: settings.get("hostnqn")?,
        nqn: settings.get("nqn")?,
        nsid: settings.number("nsid")?,
        rw,
        bs: bs.unwrap_or_else(|| BS.into()).only(rw.directions()),
        iodepth: settings.number("iodepth")?.unwrap_or(1),
        numjobs: settings.number("numjobs")?.unwrap_or(1),
        rwmixread,
        percentage_random: percentage_random.map(|percent| percent.unwrap_or(100)),
        random_distribution: settings.read("random_distribution", Distribution::parse)?.unwrap_or_default(),
        norandommap: settings.switch("norandommap")?,
        seed: settings.number("randseed")?,
        pacing: pacing(settings, &name)?,
        offset,
        offset_percent,
        blockalign: settings.read("blockalign", size)?,
        gap,
        run,
        rate_min: settings
            .read("rate_min", |text| per_direction(text, |part| size(part).map(Bytes::get)))?
            .unwrap_or_default(),
        offset_increment: settings.read("offset_increment", size)?.unwrap_or(Bytes::ZERO),
        size: settings.read("size", extent)?.or(settings.read("filesize", extent)?).unwrap_or_default(),
        amount,
        class,
        verify,
        latency_target: latency_target(settings, &name)?,
        group_reporting: settings.switch("group_reporting")?,
        standalone: settings.read("alone", size)?.map(Bytes::get),
        ..Job::bare(name)
    };
    set_hours(&mut job, settings)?;
    job.check()?;
    Ok(job)
}

/// Sets when the job runs.
fn set_hours(job: &mut Job, settings: &Settings) -> Result<(), JobError> {
    // As in fio, 0 is no limit.
    let mut runtime = settings.read("runtime", time)?.filter(|runtime| *runtime > Nanos::ZERO);
    job.time_based = settings.switch("time_based")?;
    job.start = settings.read("startdelay", time)?.unwrap_or(Nanos::ZERO);
    job.ramp = settings.read("ramp_time", time)?.unwrap_or(Nanos::ZERO);
    if job.time_based && runtime.is_none() {
        return Err(JobError::Needs(job.name.clone(), "time_based", "a runtime of more than 0"));
    }
    let says_how_much = ["runtime", "size", "filesize", "io_size", "number_ios", "loops"]
        .iter()
        .any(|name| settings.has(name));
    if !says_how_much && !job.verify && job.latency_target.is_none() {
        (runtime, job.time_based) = (Some(RUNTIME), true);
    }
    // A search for a latency ends by itself.
    job.time_based |= job.latency_target.is_some();
    job.stop = runtime.map(|runtime| job.start + job.ramp + runtime);
    Ok(())
}

fn pacing(settings: &Settings, job: &str) -> Result<Pacing, JobError> {
    let iops =
        |text: &str| text.parse().map(Rate::Iops).map_err(|_| format!("`{text}` is not a whole number"));
    let bytes = |text: &str| Ok(Rate::Bytes(size(text)?.get()));
    let per = match (settings.has("rate"), settings.has("rate_iops")) {
        (true, true) => return Err(JobError::Both(job.to_owned(), "rate", "rate_iops")),
        (true, false) => settings.read("rate", |text| per_direction(text, bytes))?,
        (false, _) => settings.read("rate_iops", |text| per_direction(text, iops))?,
    };
    let arrival = settings.read("rate_process", Arrival::parse)?;
    let is_open = settings.switch("open_loop")?;
    let Some(per) = per else {
        let needy = [(arrival.is_some(), "rate_process"), (is_open, "open_loop")];
        return match needy.into_iter().find(|(is_set, _)| *is_set) {
            Some((_, option)) => Err(JobError::Needs(job.to_owned(), option, "rate or rate_iops")),
            None => Ok(Pacing::Closed),
        };
    };
    if per.contains(&Some(Rate::Iops(0))) || per.contains(&Some(Rate::Bytes(0))) {
        return Err(JobError::Range(job.to_owned(), "rate", "more than 0".into()));
    }
    Ok(Pacing::Timed(Rates { per, arrival: arrival.unwrap_or_default(), is_open }))
}

fn latency_target(settings: &Settings, job: &str) -> Result<Option<LatencyTarget>, JobError> {
    let window = settings.read("latency_window", latency)?;
    let percentile = settings.number::<f64>("latency_percentile")?;
    let keeps_running = settings.switch("latency_run")?;
    let Some(target) = settings.read("latency_target", latency)? else {
        let needy = [
            (window.is_some(), "latency_window"),
            (percentile.is_some(), "latency_percentile"),
            (keeps_running, "latency_run"),
        ];
        return match needy.into_iter().find(|(is_set, _)| *is_set) {
            Some((_, option)) => Err(JobError::Needs(job.to_owned(), option, "latency_target")),
            None => Ok(None),
        };
    };
    let (window, percentile) = (window.unwrap_or(LATENCY_WINDOW), percentile.unwrap_or(100.0));
    if !(percentile > 0.0 && percentile <= 100.0) {
        return Err(JobError::Range(job.to_owned(), "latency_percentile", "more than 0, at most 100".into()));
    }
    if keeps_running && settings.read("runtime", time)?.is_none_or(|runtime| runtime == Nanos::ZERO) {
        return Err(JobError::Needs(job.to_owned(), "latency_run", "a runtime"));
    }
    Ok(Some(LatencyTarget { target, window, percentile, keeps_running }))
}

#[cfg(test)]
#[path = "collect_tests.rs"]
mod tests;
