//! A job: one tenant and its load, complete and checked.
//!
//! Elsewhere: `collect` makes jobs of options; `settings` says where options may be written and which place wins; `options` lists
//! them; `docs/bench.md` says what each one means and where it differs from fio.

use crate::blocks::{BlockSizes, common_divisor};
use crate::direction::{DIRECTIONS, Rw};
use crate::distribution::Distribution;
use crate::job_file::JobFileError;
use crate::latency_target::LatencyTarget;
use crate::pace::Pacing;
use crate::settings::SettingError;
use host::Class;
use units::{Bytes, Nanos};

/// Every offset and block size must be a multiple of this: the smallest logical block.
const GRAIN: u64 = 512;
/// The deepest queue: more IOs would only wait.
const IODEPTH_MAX: u32 = 1024;
/// The most connections that one job opens.
const NUMJOBS_MAX: u32 = 256;
/// Default bytes per IO.
pub(crate) const BS: Bytes = Bytes::kib(4);

/// One tenant's work, complete and checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its name in the results.
    pub name: String,
    /// Its host NQN; jobs with one host NQN are one tenant. `None` derives one from the name.
    pub host_nqn: Option<String>,
    /// The subsystem, if it is not the run's.
    pub nqn: Option<String>,
    /// The namespace; `None` is the first.
    pub nsid: Option<u32>,
    /// The kind of its work.
    pub rw: Rw,
    /// Bytes per IO.
    pub bs: BlockSizes,
    /// IOs outstanding per connection.
    pub iodepth: u32,
    /// Connections, each with a stream of its own.
    pub numjobs: u32,
    /// Percentage of reads in a mix.
    pub rwmixread: u8,
    /// Random part of a random job, in percent, by direction.
    pub percentage_random: [u8; DIRECTIONS],
    /// Which places a random job prefers.
    pub random_distribution: Distribution,
    /// A random job chooses blocks independently of those already done.
    pub norandommap: bool,
    /// Its seed; `None` is the run's.
    pub seed: Option<u64>,
    /// When its IOs leave.
    pub pacing: Pacing,
    /// Where in the namespace the job's region begins.
    pub offset: Bytes,
    /// The same in percent of the namespace, instead.
    pub offset_percent: Option<u8>,
    /// Distance between the offsets of successive connections.
    pub offset_increment: Bytes,
    /// Random IOs begin at multiples of this.
    pub blockalign: Option<Bytes>,
    /// Bytes between two sequential IOs; negative: backwards.
    pub gap: i64,
    /// IOs that follow each other from each random place.
    pub run: u32,
    /// The least bandwidth of each direction in bytes per second: less is an error at the end.
    pub rate_min: [Option<u64>; DIRECTIONS],
    /// Length of the region.
    pub size: Extent,
    /// Amount of work of a connection before it ends.
    pub amount: Amount,
    /// The block of the region that a sequential job does first, for callers that build theirs in code.
    pub first_step: u64,
    /// Keep to the switch's credits, if the run does; for callers that build theirs in code.
    pub credits: bool,
    /// The priority class of its IOs.
    pub class: Class,
    /// When it starts, after the start of the run.
    pub start: Nanos,
    /// When it stops, after the start of the run; `None` is the end of the run, or of its work.
    pub stop: Option<Nanos>,
    /// Time before its IOs count, in addition to the run's ramp.
    pub ramp: Nanos,
    /// It starts again when it has done its amount.
    pub time_based: bool,
    /// Write, then read everything back and compare.
    pub verify: bool,
    /// Find the depth at which IOs stay below a latency.
    pub latency_target: Option<LatencyTarget>,
    /// It shares a line of results with others of its group that say so.
    pub group_reporting: bool,
    /// The group, counted from 0.
    pub group: usize,
    /// Number of earlier jobs that make all those before them end first.
    pub stage: usize,
    /// Bytes per second that it reaches alone, if known: the reference of f-Util.
    pub standalone: Option<u64>,
}

/// Length of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// Up to the end of the namespace.
    #[default]
    Rest,
    /// This many bytes.
    Bytes(Bytes),
    /// This percentage of the namespace.
    Percent(u8),
}

/// Amount of work of each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    /// Bytes; `None` is the region once.
    pub io_size: Option<Bytes>,
    /// IOs; `None` is no limit.
    pub number_ios: Option<u64>,
    /// Number of repetitions.
    pub loops: u64,
}

impl Amount {
    /// Everything once.
    pub const ONCE: Amount = Amount { io_size: None, number_ios: None, loops: 1 };
}

/// A job that cannot be run as described.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// A job file cannot be read.
    #[error("{0}")]
    File(JobFileError),
    /// An option cannot be read.
    #[error("{0}")]
    Setting(SettingError),
    /// A number is outside its range: job, field, range.
    #[error("job {0}: {1} must be {2}")]
    Range(String, &'static str, String),
    /// `bs`, `offset` or `size` is not a multiple of 512: job, field.
    #[error("job {0}: {1} must be a multiple of {GRAIN}")]
    Grain(String, &'static str),
    /// The region is smaller than one IO.
    #[error("job {0}: size is smaller than one IO of bs")]
    Region(String),
    /// `verify` in a job that does not write.
    #[error(
        "job {0}: verify needs a job that writes (rw=write, randwrite, rw, randrw, trimwrite, randtrimwrite)"
    )]
    VerifyReads(String),
    /// `verify` in a job that may deallocate written blocks.
    #[error(
        "job {0}: verify cannot check a job that deallocates a block more than once; \
                 leave out time_based, loops, io_size, numjobs, norandommap, percentage_random and random_distribution"
    )]
    VerifyTrims(String),
    /// Two options that exclude each other: job, the options.
    #[error("job {0}: give {1} or {2}, not both")]
    Both(String, &'static str, &'static str),
    /// An option that needs another one: job, the option, the needed one.
    #[error("job {0}: {1} needs {2}")]
    Needs(String, &'static str, &'static str),
    /// Two jobs have the same name.
    #[error("two jobs have the name {0}; give each job its own name")]
    SameName(String),
}

impl From<SettingError> for JobError {
    fn from(error: SettingError) -> JobError {
        JobError::Setting(error)
    }
}

impl Job {
    /// The defaults: 4 KiB random reads, one at a time.
    pub fn bare(name: String) -> Job {
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
            offset_percent: None,
            offset_increment: Bytes::ZERO,
            blockalign: None,
            gap: 0,
            run: 1,
            rate_min: [None; DIRECTIONS],
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

    /// A job with defaults, for callers that build theirs in code.
    pub fn named(name: &str) -> Job {
        Job::bare(name.to_owned())
    }

    /// Reports options that contradict each other or cannot be served.
    pub fn check(&self) -> Result<(), JobError> {
        let name = || self.name.clone();
        let range = |is_in: bool, field: &'static str, range: &str| {
            if is_in { Ok(()) } else { Err(JobError::Range(self.name.clone(), field, range.to_owned())) }
        };
        range(!self.name.is_empty(), "name", "at least one character")?;
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
        let lengths = [
            ("offset", self.offset),
            ("offset_increment", self.offset_increment),
            ("blockalign", self.blockalign.unwrap_or(Bytes(GRAIN))),
            ("the number after rw", Bytes(self.gap.unsigned_abs())),
        ];
        range(self.run > 0, "the number after rw", "1 or more")?;
        range(self.blockalign != Some(Bytes::ZERO), "blockalign", "more than 0")?;
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
            && self.gap == 0
            && self.blockalign.is_none()
            && !self.norandommap
            && self.percentage_random == [100; DIRECTIONS]
            && self.random_distribution == Distribution::Even;
        if self.verify && self.rw.trims() && !does_each_once {
            return Err(JobError::VerifyTrims(name()));
        }
        Ok(())
    }

    /// The grain of its sizes and places: their greatest common divisor.
    pub fn unit(&self) -> Bytes {
        let gap = Bytes(self.gap.unsigned_abs());
        [Some(gap), self.blockalign].into_iter().flatten().fold(self.bs.unit(), common_divisor)
    }

    /// The job in a few words: `randread 4 KiB qd 32`.
    pub fn summary(&self) -> String {
        let mut text = format!("{} {} qd {}", self.rw.name(), self.bs, self.iodepth);
        if self.numjobs > 1 {
            text += &format!(" × {}", self.numjobs);
        }
        text
    }
}
