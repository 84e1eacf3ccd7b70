//! A job: one tenant and what it asks for, complete and checked.
//!
//! Elsewhere: where its options may stand and which place wins is `settings`; the options are listed in `options`, and what each
//! means and where that differs from fio in `docs/bench.md`.

use super::blocks::BlockSizes;
use super::direction::{DIRECTIONS, Rw, per_direction};
use super::distribution::Distribution;
use super::job_file::{self, JobFileError};
use super::latency_target::LatencyTarget;
use super::pace::{Arrival, Pacing, Rate, Rates};
use super::settings::{SettingError, Settings};
use host::Class;
use quantity::{Size, Span};
use std::fmt;
use std::path::PathBuf;
use units::{Bytes, Nanos};

/// Bytes that every offset and block size must be a multiple of: the smallest logical block there is.
const GRAIN: u64 = 512;
/// The deepest queue that is offered: more would only wait.
const IODEPTH_MAX: u32 = 1024;
/// The most connections that one job opens.
const NUMJOBS_MAX: u32 = 256;
/// Bytes per IO if nothing is said.
const BS: Bytes = Bytes::kib(4);
/// How long a job runs of which nothing says how long or how much.
const RUNTIME: Nanos = Nanos::secs(10);
/// How long each depth is tried in a search for a latency.
const LATENCY_WINDOW: Nanos = Nanos::secs(5);

/// One tenant's work, complete and checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Job {
    /// What it is called in the results.
    pub(crate) name: String,
    /// Who it is to the target; jobs of one host NQN are one tenant. `None` makes one up from the name.
    pub(crate) host_nqn: Option<String>,
    /// The subsystem, if it is not the run's.
    pub(crate) nqn: Option<String>,
    /// The namespace; `None` is the first.
    pub(crate) nsid: Option<u32>,
    /// What it does.
    pub(crate) rw: Rw,
    /// Bytes per IO.
    pub(crate) bs: BlockSizes,
    /// IOs outstanding per connection.
    pub(crate) iodepth: u32,
    /// Connections, each with a stream of its own.
    pub(crate) numjobs: u32,
    /// Percentage of reads in a mix.
    pub(crate) rwmixread: u8,
    /// How much of a random job is random, by direction.
    pub(crate) percentage_random: [u8; DIRECTIONS],
    /// Which places a random job prefers.
    pub(crate) random_distribution: Distribution,
    /// A random job does not care what it has done.
    pub(crate) norandommap: bool,
    /// Where its randomness comes from; `None` is the run's.
    pub(crate) seed: Option<u64>,
    /// When its IOs leave.
    pub(crate) pacing: Pacing,
    /// Where in the namespace the job's region begins.
    pub(crate) offset: Bytes,
    /// How much further on each connection begins.
    pub(crate) offset_increment: Bytes,
    /// How long the region is.
    pub(crate) size: Extent,
    /// How much a connection does before it ends.
    pub(crate) amount: Amount,
    /// The block of the region that a sequential job does first, for callers that build theirs in code.
    pub(crate) first_step: u64,
    /// Keep to the switch's credits, if the run does; for callers that build theirs in code.
    pub(crate) credits: bool,
    /// The priority class of its IOs.
    pub(crate) class: Class,
    /// When it begins, after the start of the run.
    pub(crate) start: Nanos,
    /// When it stops, after the start of the run; `None` is the end of the run, or of its work.
    pub(crate) stop: Option<Nanos>,
    /// How long it runs before its IOs count, in addition to the run's ramp.
    pub(crate) ramp: Nanos,
    /// It begins again when it has done its amount.
    pub(crate) time_based: bool,
    /// Write, then read everything back and compare.
    pub(crate) verify: bool,
    /// Find the depth at which IOs stay below a latency.
    pub(crate) latency_target: Option<LatencyTarget>,
    /// It shares a line of results with others of its group that say so.
    pub(crate) group_reporting: bool,
    /// The group, counted from 0.
    pub(crate) group: usize,
    /// How many jobs before it make all those before it end first.
    pub(crate) stage: usize,
    /// Bytes per second that it reaches alone, if known: what f-Util is measured against.
    pub(crate) standalone: Option<u64>,
}

/// How long a region is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Up to the end of the namespace.
    #[default]
    Rest,
    /// So many bytes.
    Bytes(Bytes),
    /// So many of a hundred parts of the namespace.
    Percent(u8),
}

impl Extent {
    fn parse(text: &str) -> Result<Extent, String> {
        match text.strip_suffix('%') {
            Some(percent) => match percent.trim().parse() {
                Ok(percent @ 1..=100) => Ok(Extent::Percent(percent)),
                _ => Err("write 1% to 100%".to_owned()),
            },
            None => Ok(Extent::Bytes(size(text)?)),
        }
    }
}

/// How much each connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Amount {
    /// Bytes; `None` is the region once.
    pub(crate) io_size: Option<Bytes>,
    /// IOs; `None` is no limit.
    pub(crate) number_ios: Option<u64>,
    /// All this so many times.
    pub(crate) loops: u64,
}

impl Amount {
    const ONCE: Amount = Amount { io_size: None, number_ios: None, loops: 1 };
}

/// A job that cannot be run as described.
#[derive(Debug)]
pub(crate) enum JobError {
    /// A job file cannot be read.
    File(JobFileError),
    /// An option cannot be read.
    Setting(SettingError),
    /// A number is outside its range: job, field, range.
    Range(String, &'static str, String),
    /// `bs`, `offset` or `size` is not a multiple of 512: job, field.
    Grain(String, &'static str),
    /// The region is smaller than one IO.
    Region(String),
    /// `verify` without writing.
    VerifyReads(String),
    /// `verify` of blocks that are deallocated again.
    VerifyTrims(String),
    /// Two options that exclude each other: job, the options.
    Both(String, &'static str, &'static str),
    /// An option that means nothing without another: job, the option, what it needs.
    Needs(String, &'static str, &'static str),
    /// Two jobs have the same name.
    SameName(String),
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobError::File(error) => error.fmt(f),
            JobError::Setting(error) => error.fmt(f),
            JobError::Range(job, field, range) => write!(f, "job {job}: {field} must be {range}"),
            JobError::Grain(job, field) => write!(f, "job {job}: {field} must be a multiple of {GRAIN}"),
            JobError::Region(job) => write!(f, "job {job}: size is smaller than one IO of bs"),
            JobError::VerifyReads(job) => {
                write!(
                    f,
                    "job {job}: verify needs a job that writes (rw=write, randwrite, rw, randrw, trimwrite, randtrimwrite)"
                )
            }
            JobError::VerifyTrims(job) => write!(
                f,
                "job {job}: verify cannot know what a job leaves that deallocates blocks more than once; \
                 leave out time_based, loops, io_size, numjobs, norandommap, percentage_random and random_distribution"
            ),
            JobError::Both(job, one, other) => write!(f, "job {job}: give {one} or {other}, not both"),
            JobError::Needs(job, option, what) => write!(f, "job {job}: {option} needs {what}"),
            JobError::SameName(job) => {
                write!(f, "two jobs are called {job}; the results need different names")
            }
        }
    }
}

impl std::error::Error for JobError {}

impl From<SettingError> for JobError {
    fn from(error: SettingError) -> JobError {
        JobError::Setting(error)
    }
}

/// The jobs of a run, and what was said of them that has no effect.
#[derive(Debug)]
pub(super) struct Collected {
    /// In the order in which they were given.
    pub(super) jobs: Vec<Job>,
    /// fio's options that change nothing here, each once.
    pub(super) without_effect: Vec<String>,
}

/// All jobs of a run: those of the files, then those given one by one; without either the flags are the only job.
pub(super) fn collect(flags: &Settings, files: &[PathBuf], inline: &[String]) -> Result<Collected, JobError> {
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

fn size(text: &str) -> Result<Bytes, String> {
    text.parse::<Size>().map(|size| size.0).map_err(|why| why.to_string())
}

fn span(text: &str) -> Result<Nanos, String> {
    text.parse::<Span>().map(|span| span.0).map_err(|why| why.to_string())
}

/// As in fio a bare number is microseconds where latencies are meant.
fn latency(text: &str) -> Result<Nanos, String> {
    match text.trim().parse::<u64>() {
        Ok(micros) => span(&format!("{micros}us")),
        Err(_) => span(text),
    }
}

fn percent(text: &str) -> Result<u8, String> {
    match text.parse() {
        Ok(percent @ 0..=100) => Ok(percent),
        _ => Err("write 0 to 100".to_owned()),
    }
}

/// Fills in the defaults and checks the whole. `index` names a job without a name.
pub(super) fn complete(settings: &Settings, index: usize) -> Result<Job, JobError> {
    let name: String = settings.get("name")?.unwrap_or_else(|| format!("job{index}"));
    let both = |one, other| JobError::Both(name.clone(), one, other);
    let rw = settings.read("rw", Rw::parse)?.unwrap_or(Rw::RandRead);
    let bs = match (settings.has("bs"), settings.has("bssplit")) {
        (true, true) => return Err(both("bs", "bssplit")),
        (_, true) => settings.read("bssplit", |text| BlockSizes::parse_split(text, BS))?,
        _ => settings.read("bs", |text| BlockSizes::parse(text, BS))?,
    };
    let rwmixread = match (settings.read("rwmixread", percent)?, settings.read("rwmixwrite", percent)?) {
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
        _ => Err("an IO that fails never ends a job here; write all, or leave it out".to_owned()),
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
        offset: settings.read("offset", size)?.unwrap_or(Bytes::ZERO),
        offset_increment: settings.read("offset_increment", size)?.unwrap_or(Bytes::ZERO),
        size: settings.read("size", Extent::parse)?.unwrap_or_default(),
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

/// When the job runs.
fn set_hours(job: &mut Job, settings: &Settings) -> Result<(), JobError> {
    // As in fio 0 is no limit.
    let mut runtime = settings.read("runtime", span)?.filter(|runtime| *runtime > Nanos::ZERO);
    job.time_based = settings.switch("time_based")?;
    job.start = settings.read("startdelay", span)?.unwrap_or(Nanos::ZERO);
    job.ramp = settings.read("ramp_time", span)?.unwrap_or(Nanos::ZERO);
    if job.time_based && runtime.is_none() {
        return Err(JobError::Needs(job.name.clone(), "time_based", "a runtime of more than 0"));
    }
    let says_how_much =
        ["runtime", "size", "io_size", "number_ios", "loops"].iter().any(|name| settings.has(name));
    if !says_how_much && !job.verify && job.latency_target.is_none() {
        (runtime, job.time_based) = (Some(RUNTIME), true);
    }
    // A search ends by itself.
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
    if keeps_running && settings.read("runtime", span)?.is_none_or(|runtime| runtime == Nanos::ZERO) {
        return Err(JobError::Needs(job.to_owned(), "latency_run", "a runtime"));
    }
    Ok(Some(LatencyTarget { target, window, percentile, keeps_running }))
}

impl Job {
    /// The defaults: 4 KiB random reads, one at a time.
    fn bare(name: String) -> Job {
        Job {
            name,
            host_nqn: None,
            nqn: None,
            nsid: None,
            rw: Rw::RandRead,
            bs: BS.into(),
            iodepth: 1,
            numjobs: 1,
            rwmixread: 50,
            percentage_random: [100; DIRECTIONS],
            random_distribution: Distribution::Even,
            norandommap: false,
            seed: None,
            pacing: Pacing::Closed,
            offset: Bytes::ZERO,
            offset_increment: Bytes::ZERO,
            size: Extent::Rest,
            amount: Amount::ONCE,
            first_step: 0,
            credits: true,
            class: Class::default(),
            start: Nanos::ZERO,
            stop: None,
            ramp: Nanos::ZERO,
            time_based: false,
            verify: false,
            latency_target: None,
            group_reporting: false,
            group: 0,
            stage: 0,
            standalone: None,
        }
    }

    /// A job for callers that build theirs in code.
    pub(crate) fn named(name: &str) -> Job {
        Job::bare(name.to_owned())
    }

    fn check(&self) -> Result<(), JobError> {
        let name = || self.name.clone();
        let range = |is_in: bool, field: &'static str, range: &str| {
            if is_in { Ok(()) } else { Err(JobError::Range(self.name.clone(), field, range.to_owned())) }
        };
        range(!self.name.is_empty(), "name", "a word at least")?;
        range((1..=IODEPTH_MAX).contains(&self.iodepth), "iodepth", &format!("1 to {IODEPTH_MAX}"))?;
        range((1..=NUMJOBS_MAX).contains(&self.numjobs), "numjobs", &format!("1 to {NUMJOBS_MAX}"))?;
        range(self.bs.smallest() > Bytes::ZERO, "bs", "more than 0")?;
        range(self.nsid != Some(0), "nsid", "1 or more")?;
        range(self.amount.loops > 0, "loops", "1 or more")?;
        range(self.amount.number_ios != Some(0), "number_ios", "1 or more")?;
        range(self.amount.io_size != Some(Bytes::ZERO), "io_size", "more than 0")?;
        range(self.standalone != Some(0), "alone", "more than 0")?;
        range(
            self.latency_target.is_none_or(|asked| asked.target > Nanos::ZERO),
            "latency_target",
            "more than 0",
        )?;
        let size = match self.size {
            Extent::Bytes(size) => Some(size),
            Extent::Rest | Extent::Percent(_) => None,
        };
        let lengths = [("offset", self.offset), ("offset_increment", self.offset_increment)];
        let sizes = self.bs.all().map(|bs| ("bs", bs)).chain(size.map(|size| ("size", size)));
        for (field, value) in lengths.into_iter().chain(sizes) {
            if !value.get().is_multiple_of(GRAIN) {
                return Err(JobError::Grain(name(), field));
            }
        }
        if size.is_some_and(|size| size < self.bs.largest()) {
            return Err(JobError::Region(name()));
        }
        if self.verify && !self.rw.writes() {
            return Err(JobError::VerifyReads(name()));
        }
        let does_each_once = !self.time_based
            && self.amount == Amount::ONCE
            && self.numjobs == 1
            && !self.norandommap
            && self.percentage_random == [100; DIRECTIONS]
            && self.random_distribution == Distribution::Even;
        if self.verify && self.rw.trims() && !does_each_once {
            return Err(JobError::VerifyTrims(name()));
        }
        Ok(())
    }

    /// The job in a few words: `randread 4 KiB qd 32`.
    pub(crate) fn summary(&self) -> String {
        let mut text = format!("{} {} qd {}", self.rw.name(), self.bs, self.iodepth);
        if self.numjobs > 1 {
            text += &format!(" × {}", self.numjobs);
        }
        text
    }
}

#[cfg(test)]
#[path = "job_tests.rs"]
mod tests;
