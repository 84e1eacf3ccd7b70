//! A job: one tenant and what it asks for, from the command line, a job file or `--job`.
//!
//! The same fields can be set in three places, each more specific than the one before:
//!
//! ```text
//!   flags of the command (--bs 4k)  <  [global] of the job file  <  one [[job]] or one --job 'name=a,bs=128k'
//! ```
//!
//! ```toml
//! [global]
//! rw = "randread"
//! [[job]]
//! name = "small"
//! bs = "4k"
//! iodepth = 32
//! [[job]]
//! name = "large"
//! bs = "128k"
//! iodepth = 4
//! standalone = "3160m"
//! ```

use super::pace::{Arrival, Rate};
use super::workload::Rw;
use host::Class;
use quantity::{Size, Span};
use serde::Deserialize;
use std::fmt;
use std::path::{Path, PathBuf};
use units::{ByteRate, Bytes, Nanos};

/// Bytes that every offset and block size must be a multiple of: the smallest logical block there is.
const GRAIN: u64 = 512;
/// The deepest queue that is offered: more would only wait.
const IODEPTH_MAX: u32 = 1024;
/// The most connections that one job opens.
const NUMJOBS_MAX: u32 = 256;

/// One tenant's work, complete and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    pub(crate) bs: Bytes,
    /// IOs outstanding per connection.
    pub(crate) iodepth: u32,
    /// Connections, each with a stream of its own.
    pub(crate) numjobs: u32,
    /// Percentage of reads in a mix.
    pub(crate) rwmixread: u8,
    /// The speed of an open loop, per connection; `None` is a closed loop.
    pub(crate) rate: Option<Rate>,
    /// How an open loop spaces its IOs.
    pub(crate) arrival: Arrival,
    /// A closed loop asks for no more than this, per connection.
    pub(crate) rate_max: Option<ByteRate>,
    /// Where in the namespace the job's region begins.
    pub(crate) offset: Bytes,
    /// How long the region is; `None` is up to the end.
    pub(crate) size: Option<Bytes>,
    /// The step of the region that a sequential job does first, for callers that build theirs in code.
    pub(crate) first_step: u64,
    /// Keep to the switch's credits, if the run does; for callers that build theirs in code.
    pub(crate) credits: bool,
    /// The priority class of its IOs.
    pub(crate) class: Class,
    /// When it begins, after the start of the run.
    pub(crate) start: Nanos,
    /// When it stops, after the start of the run; `None` is the end of the run.
    pub(crate) stop: Option<Nanos>,
    /// Write, then read everything back and compare.
    pub(crate) verify: bool,
    /// Bytes per second that it reaches alone, if known: what f-Util is measured against.
    pub(crate) standalone: Option<u64>,
}

/// A job as far as one place describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, clap::Args)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobSpec {
    /// Name of the job in the results
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Host NQN: who the job is to the target [default: made from the name]
    #[arg(long, value_name = "NQN")]
    pub(crate) hostnqn: Option<String>,
    /// Subsystem NQN [default: discovered, if the target has exactly one]
    #[arg(long, value_name = "NQN")]
    pub(crate) nqn: Option<String>,
    /// Namespace [default: the first]
    #[arg(long, value_name = "ID")]
    pub(crate) nsid: Option<u32>,
    /// What to do [default: randread]
    #[arg(long, value_enum)]
    pub(crate) rw: Option<Rw>,
    /// Bytes per IO [default: 4k]
    #[arg(long, value_name = "SIZE")]
    pub(crate) bs: Option<Size>,
    /// IOs outstanding per connection [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) iodepth: Option<u32>,
    /// Connections, each with its own stream [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) numjobs: Option<u32>,
    /// Percentage of reads in rw and randrw [default: 50]
    #[arg(long, value_name = "PERCENT")]
    pub(crate) rwmixread: Option<u8>,
    /// Open loop: bytes per second and connection, whatever the target does
    #[arg(long, value_name = "SIZE")]
    pub(crate) rate: Option<Size>,
    /// Open loop: IOs per second and connection, whatever the target does
    #[arg(long, value_name = "N", conflicts_with = "rate")]
    #[serde(alias = "rate-iops")]
    pub(crate) rate_iops: Option<u64>,
    /// Closed loop that asks for no more: bytes per second and connection
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["rate", "rate_iops"])]
    #[serde(alias = "rate-max")]
    pub(crate) rate_max: Option<Size>,
    /// How an open loop spaces its IOs [default: fixed]
    #[arg(long, value_enum)]
    pub(crate) arrival: Option<Arrival>,
    /// Where in the namespace to begin [default: 0]
    #[arg(long, value_name = "SIZE")]
    pub(crate) offset: Option<Size>,
    /// How much of the namespace to use [default: up to its end]
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<Size>,
    /// Priority class of the IOs, 0 (urgent) to 3 (idle) [default: 1]
    #[arg(long, value_name = "0-3")]
    pub(crate) class: Option<u8>,
    /// When the job begins, after the start of the run [default: 0]
    #[arg(long, value_name = "TIME")]
    pub(crate) start: Option<Span>,
    /// When the job stops, after the start of the run [default: the end]
    #[arg(long, value_name = "TIME")]
    pub(crate) stop: Option<Span>,
    /// Write, then read everything back and compare
    #[arg(long, num_args = 0, default_missing_value = "true")]
    pub(crate) verify: Option<bool>,
    /// Bytes per second that the job reaches alone (f-Util is measured against it)
    #[arg(skip)]
    pub(crate) standalone: Option<Size>,
}

/// A job file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct JobFile {
    #[serde(default)]
    global: JobSpec,
    #[serde(default)]
    job: Vec<JobSpec>,
}

/// A job that cannot be run as described.
#[derive(Debug)]
pub(crate) enum JobError {
    /// The job file cannot be read.
    File(PathBuf, std::io::Error),
    /// The job file or a `--job` is not in the form of one.
    Syntax(String, Box<toml::de::Error>),
    /// A `--job` has a part without `=`.
    NoValue(String),
    /// The job file has no `[[job]]`.
    NoJobs(PathBuf),
    /// A number is outside its range: job, field, range.
    Range(String, &'static str, String),
    /// `bs`, `offset` or `size` is not a multiple of 512: job, field.
    Grain(String, &'static str),
    /// The region is smaller than one IO.
    Region(String),
    /// `verify` without writing.
    VerifyReads(String),
    /// `stop` is not after `start`.
    Order(String),
    /// More than one kind of rate.
    TwoRates(String),
    /// Two jobs have the same name.
    SameName(String),
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobError::File(path, error) => write!(f, "cannot read the job file {}: {error}", path.display()),
            JobError::Syntax(origin, error) => write!(f, "{origin}: {}", error.to_string().trim_end()),
            JobError::NoValue(part) => {
                write!(f, "--job: `{part}` has no value; write `field=value,field=value`")
            }
            JobError::NoJobs(path) => write!(f, "{} has no [[job]]", path.display()),
            JobError::Range(job, field, range) => write!(f, "job {job}: {field} must be {range}"),
            JobError::Grain(job, field) => write!(f, "job {job}: {field} must be a multiple of {GRAIN}"),
            JobError::Region(job) => write!(f, "job {job}: size is smaller than one IO of bs"),
            JobError::VerifyReads(job) => {
                write!(f, "job {job}: verify needs a job that writes (rw=write, randwrite, rw, randrw)")
            }
            JobError::Order(job) => write!(f, "job {job}: stop must come after start"),
            JobError::TwoRates(job) => write!(f, "job {job}: give one of rate, rate_iops and rate_max"),
            JobError::SameName(job) => {
                write!(f, "two jobs are called {job}; the results need different names")
            }
        }
    }
}

impl std::error::Error for JobError {}

/// All jobs of a run: those of the file, then those given one by one; without either the flags are the only job.
pub(crate) fn collect(flags: &JobSpec, file: Option<&Path>, inline: &[String]) -> Result<Vec<Job>, JobError> {
    let mut specs = Vec::new();
    if let Some(path) = file {
        let text =
            std::fs::read_to_string(path).map_err(|error| JobError::File(path.to_path_buf(), error))?;
        let syntax = |error| JobError::Syntax(path.display().to_string(), Box::new(error));
        let JobFile { global, job } = toml::from_str(&text).map_err(syntax)?;
        if job.is_empty() {
            return Err(JobError::NoJobs(path.to_path_buf()));
        }
        let global = global.or(flags);
        specs.extend(job.into_iter().map(|job| job.or(&global)));
    }
    for text in inline {
        specs.push(JobSpec::parse_inline(text)?.or(flags));
    }
    if specs.is_empty() {
        specs.push(flags.clone());
    }
    let jobs: Vec<Job> =
        specs.into_iter().enumerate().map(|(index, spec)| spec.complete(index)).collect::<Result<_, _>>()?;
    for (index, job) in jobs.iter().enumerate() {
        if jobs[..index].iter().any(|other| other.name == job.name) {
            return Err(JobError::SameName(job.name.clone()));
        }
    }
    Ok(jobs)
}

impl JobSpec {
    /// Reads `name=a,rw=randread,bs=4k`.
    fn parse_inline(text: &str) -> Result<JobSpec, JobError> {
        let mut table = toml::Table::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (field, value) = match part.split_once('=') {
                Some((field, value)) => (field.trim(), value.trim()),
                None if part == "verify" => (part, "true"),
                None => return Err(JobError::NoValue(part.to_string())),
            };
            let value = match (value.parse::<i64>(), value.parse::<bool>()) {
                (Ok(number), _) if field != "name" => toml::Value::Integer(number),
                (_, Ok(truth)) if field != "name" => toml::Value::Boolean(truth),
                _ => toml::Value::String(value.to_string()),
            };
            table.insert(field.to_string(), value);
        }
        table.try_into().map_err(|error| JobError::Syntax(format!("--job '{text}'"), Box::new(error)))
    }

    /// Fills what is not set here from `base`.
    fn or(self, base: &JobSpec) -> JobSpec {
        // The rates are one choice: the nearer place decides all.
        let (rate, rate_iops, rate_max) = match (self.rate, self.rate_iops, self.rate_max) {
            (None, None, None) => (base.rate, base.rate_iops, base.rate_max),
            own => own,
        };
        JobSpec {
            name: self.name.or_else(|| base.name.clone()),
            hostnqn: self.hostnqn.or_else(|| base.hostnqn.clone()),
            nqn: self.nqn.or_else(|| base.nqn.clone()),
            nsid: self.nsid.or(base.nsid),
            rw: self.rw.or(base.rw),
            bs: self.bs.or(base.bs),
            iodepth: self.iodepth.or(base.iodepth),
            numjobs: self.numjobs.or(base.numjobs),
            rwmixread: self.rwmixread.or(base.rwmixread),
            rate,
            rate_iops,
            rate_max,
            arrival: self.arrival.or(base.arrival),
            offset: self.offset.or(base.offset),
            size: self.size.or(base.size),
            class: self.class.or(base.class),
            start: self.start.or(base.start),
            stop: self.stop.or(base.stop),
            verify: self.verify.or(base.verify),
            standalone: self.standalone.or(base.standalone),
        }
    }

    /// Fills in the defaults and checks the whole. `index` names a job without a name.
    pub(crate) fn complete(self, index: usize) -> Result<Job, JobError> {
        let name = self.name.unwrap_or_else(|| format!("job{index}"));
        let (rate, rate_max) = match (self.rate, self.rate_iops, self.rate_max) {
            (None, None, None) => (None, None),
            (Some(Size(rate)), None, None) => (Some(Rate::Bytes(rate.get())), None),
            (None, Some(rate), None) => (Some(Rate::Iops(rate)), None),
            (None, None, Some(Size(rate))) => (None, Some(ByteRate(rate.get()))),
            _ => return Err(JobError::TwoRates(name)),
        };
        let class = match self.class {
            None => Class::default(),
            Some(class) => *Class::ALL
                .get(usize::from(class))
                .ok_or_else(|| JobError::Range(name.clone(), "class", "0 to 3".into()))?,
        };
        let job = Job {
            host_nqn: self.hostnqn,
            nqn: self.nqn,
            nsid: self.nsid,
            rw: self.rw.unwrap_or(Rw::RandRead),
            bs: self.bs.map_or(Bytes::kib(4), |size| size.0),
            iodepth: self.iodepth.unwrap_or(1),
            numjobs: self.numjobs.unwrap_or(1),
            rwmixread: self.rwmixread.unwrap_or(50),
            rate,
            arrival: self.arrival.unwrap_or_default(),
            rate_max,
            offset: self.offset.map_or(Bytes::ZERO, |size| size.0),
            size: self.size.map(|size| size.0),
            first_step: 0,
            credits: true,
            class,
            start: self.start.map_or(Nanos::ZERO, |span| span.0),
            stop: self.stop.map(|span| span.0),
            verify: self.verify.unwrap_or(false),
            standalone: self.standalone.map(|size| size.0.get()),
            name,
        };
        job.check()?;
        Ok(job)
    }
}

impl Job {
    fn check(&self) -> Result<(), JobError> {
        let range = |ok: bool, field, range: String| {
            if ok { Ok(()) } else { Err(JobError::Range(self.name.clone(), field, range)) }
        };
        range((1..=IODEPTH_MAX).contains(&self.iodepth), "iodepth", format!("1 to {IODEPTH_MAX}"))?;
        range((1..=NUMJOBS_MAX).contains(&self.numjobs), "numjobs", format!("1 to {NUMJOBS_MAX}"))?;
        range(self.rwmixread <= 100, "rwmixread", "0 to 100".into())?;
        range(self.bs > Bytes::ZERO, "bs", "more than 0".into())?;
        range(self.nsid != Some(0), "nsid", "1 or more".into())?;
        range(!matches!(self.rate, Some(Rate::Iops(0) | Rate::Bytes(0))), "rate", "more than 0".into())?;
        range(self.rate_max != Some(ByteRate(0)), "rate_max", "more than 0".into())?;
        range(self.standalone != Some(0), "standalone", "more than 0".into())?;
        for (field, value) in [("bs", Some(self.bs)), ("offset", Some(self.offset)), ("size", self.size)] {
            if value.is_some_and(|value| !value.get().is_multiple_of(GRAIN)) {
                return Err(JobError::Grain(self.name.clone(), field));
            }
        }
        if self.size.is_some_and(|size| size < self.bs) {
            return Err(JobError::Region(self.name.clone()));
        }
        if self.verify && !self.rw.writes() {
            return Err(JobError::VerifyReads(self.name.clone()));
        }
        if self.stop.is_some_and(|stop| stop <= self.start) {
            return Err(JobError::Order(self.name.clone()));
        }
        Ok(())
    }

    /// A job like this, for callers that build theirs in code: 4 KiB random reads, one at a time.
    pub(crate) fn named(name: &str) -> Job {
        JobSpec { name: Some(name.to_string()), ..JobSpec::default() }
            .complete(0)
            .expect("the defaults are a job")
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
mod tests {
    use super::*;

    fn inline(text: &str) -> Result<Vec<Job>, JobError> {
        collect(&JobSpec::default(), None, &[text.to_string()])
    }

    #[test]
    fn nothing_said_is_4k_random_reads_one_at_a_time() {
        let jobs = collect(&JobSpec::default(), None, &[]).expect("the defaults are a job");
        assert_eq!(jobs, [Job::named("job0")]);
        assert_eq!((jobs[0].rw, jobs[0].bs, jobs[0].iodepth), (Rw::RandRead, Bytes(4096), 1));
    }

    #[test]
    fn the_nearer_place_wins() {
        let flags = JobSpec { bs: Some(Size(Bytes(8192))), rate_iops: Some(5), ..JobSpec::default() };
        let jobs =
            collect(&flags, None, &["name=a".into(), "name=b,bs=128k,rate=1m".into()]).expect("two jobs");
        assert_eq!((jobs[0].bs, jobs[0].rate), (Bytes(8192), Some(Rate::Iops(5))));
        assert_eq!((jobs[1].bs, jobs[1].rate), (Bytes::kib(128), Some(Rate::Bytes(1 << 20))));
    }

    #[test]
    fn a_job_file_has_a_global_part_and_jobs() {
        let text = "[global]\nrw = \"randwrite\"\n[[job]]\nname = \"a\"\nbs = 8192\n[[job]]\nrw = \"randrw\"\nstandalone = \"1g\"\nstart = 2.5\n";
        let JobFile { global, job } = toml::from_str(text).expect("the file is in order");
        let jobs: Vec<Job> =
            job.into_iter().enumerate().map(|(n, job)| job.or(&global).complete(n).expect("a job")).collect();
        assert_eq!((jobs[0].rw, jobs[0].bs), (Rw::RandWrite, Bytes(8192)));
        assert_eq!(
            (jobs[1].rw, jobs[1].standalone, jobs[1].start),
            (Rw::RandRw, Some(1 << 30), Nanos::millis(2500))
        );
        assert_eq!(jobs[1].name, "job1");
    }

    #[test]
    fn a_mistake_is_named() {
        let message = |text: &str| inline(text).expect_err("the job is wrong").to_string();
        assert!(message("name=a,iodepth=0").contains("job a: iodepth must be 1 to 1024"));
        assert!(message("bs=5000").contains("bs must be a multiple of 512"));
        assert!(message("rw=randread,verify").contains("needs a job that writes"));
        assert!(message("colour=red").contains("colour"));
        assert!(message("rw=sideways").contains("sideways"));
        assert!(message("iodepth").contains("no value"));
        assert!(message("start=5,stop=5").contains("stop must come after start"));
        assert!(message("rate=1m,rate_iops=4").contains("give one of"));
        assert!(message("rate=1m,rate_max=4").contains("give one of"));
        assert!(message("rate_max=0").contains("rate_max must be more than 0"));
        let twins = collect(&JobSpec::default(), None, &["name=a".into(), "name=a".into()]);
        assert!(twins.expect_err("two jobs of one name").to_string().contains("two jobs are called a"));
    }

    #[test]
    fn a_number_may_be_a_name() {
        assert_eq!(inline("name=7,bs=4k").expect("a job")[0].name, "7");
    }
}
