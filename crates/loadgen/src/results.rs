//! The results of a run, and the fairness computed from them.
//!
//! f-Util compares the bandwidth of a tenant with its fair share: its bandwidth if all tenants had equal shares of the device.
//!
//!   f-Util = bandwidth / (bandwidth when running alone / number of tenants)          ideal: 1
//!
//! Paper: Gimbal §5.1.

use crate::direction::{DIRECTIONS, Direction};
use crate::error::BenchError;
use crate::job::Job;
use crate::latency_target::Found;
use crate::measure::{Interval, Tally, per_second};
use crate::pattern::Mismatch;
use std::net::SocketAddr;
use units::Nanos;

/// The results of a run.
#[derive(Debug)]
pub struct Results {
    /// The target.
    pub address: SocketAddr,
    /// In the order of the jobs.
    pub jobs: Vec<JobResult>,
    /// The error that ended the run early.
    pub fatal: Option<BenchError>,
    /// Whether the observer ended the run: then later jobs are missing.
    pub is_stopped: bool,
}

/// The results of one job.
#[derive(Clone, Debug)]
pub struct JobResult {
    /// The job.
    pub job: Job,
    /// The subsystem it used.
    pub nqn: String,
    /// Length of the measured window.
    pub measured: Nanos,
    /// The IOs that completed in it, by direction, as [`Direction::index`] orders them.
    pub tallies: [Tally; DIRECTIONS],
    /// Interval by interval from the start of the run, the ramp included.
    pub series: Vec<Interval>,
    /// The errors.
    pub trouble: Trouble,
    /// The result of `verify`; `None` without `verify`.
    pub verified: Option<Verified>,
    /// Bytes per second that the job reaches alone, if known.
    pub standalone: Option<f64>,
    /// Tenants among which the device is shared.
    pub tenants: usize,
    /// The result of the search for a latency; `None` without a search.
    pub found: Option<Found>,
    /// The jobs of a group, of which this is the sum; empty for a single job.
    pub members: Vec<JobResult>,
}

/// The errors of a job that did not end it.
#[derive(Clone, Debug, Default)]
pub struct Trouble {
    /// IOs that failed.
    pub failed: u64,
    /// The first of those failures, for people.
    pub first: Option<String>,
    /// Times the connection was lost.
    pub losses: u64,
}

/// The result of reading back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Blocks (of the unit of the job's sizes) that were written, read back and compared.
    pub steps: u64,
    /// Blocks that differ.
    pub differing: u64,
    /// Blocks that could not be read.
    pub unreadable: u64,
    /// The first difference.
    pub first: Option<Mismatch>,
}

impl Verified {
    fn merge(&mut self, other: &Verified) {
        self.steps += other.steps;
        self.differing += other.differing;
        self.unreadable += other.unreadable;
        self.first = self.first.or(other.first);
    }

    /// Whether all written data was found.
    pub fn is_clean(&self) -> bool {
        self.differing == 0 && self.unreadable == 0
    }
}

impl JobResult {
    /// The totals of one direction.
    pub fn tally(&self, direction: Direction) -> &Tally {
        &self.tallies[direction.index()]
    }

    /// IOs per second in one direction.
    pub fn iops(&self, direction: Direction) -> f64 {
        per_second(self.tally(direction).ios, self.measured)
    }

    /// Bytes per second in one direction.
    pub fn bandwidth(&self, direction: Direction) -> f64 {
        per_second(self.tally(direction).bytes.get(), self.measured)
    }

    /// Bytes per second, all directions.
    pub fn bandwidth_total(&self) -> f64 {
        Direction::ALL.into_iter().map(|direction| self.bandwidth(direction)).sum()
    }

    /// IOs per second, all directions.
    pub fn iops_total(&self) -> f64 {
        Direction::ALL.into_iter().map(|direction| self.iops(direction)).sum()
    }

    /// The directions that did not reach their least bandwidth (`rate_min`), each with what it reached and should have reached.
    pub fn below_minimum(&self) -> impl Iterator<Item = (Direction, f64, u64)> + '_ {
        Direction::ALL.into_iter().filter_map(|direction| {
            let least = self.job.rate_min[direction.index()].filter(|_| self.tally(direction).ios > 0)?;
            let reached = self.bandwidth(direction);
            (reached < least as f64).then_some((direction, reached, least))
        })
    }

    /// Whether any IO completed in the measured window.
    pub fn did_something(&self) -> bool {
        self.tallies.iter().any(|tally| tally.ios > 0)
    }

    /// One result for the jobs of a group, with the name of the first: totals, and the latencies of all IOs together.
    fn of_group(members: Vec<JobResult>) -> JobResult {
        let mut group = JobResult { series: Vec::new(), standalone: None, found: None, ..members[0].clone() };
        for member in &members[1..] {
            group.measured = group.measured.max(member.measured);
            for (sum, tally) in group.tallies.iter_mut().zip(&member.tallies) {
                sum.merge(tally);
            }
            group.trouble.failed += member.trouble.failed;
            group.trouble.losses += member.trouble.losses;
            group.trouble.first = group.trouble.first.take().or_else(|| member.trouble.first.clone());
            if let Some(verified) = &member.verified {
                group.verified.get_or_insert_default().merge(verified);
            }
        }
        JobResult { members, ..group }
    }

    /// The job's fair utilisation, if its bandwidth alone is known.
    pub fn f_util(&self) -> Option<f64> {
        let fair = self.standalone? / self.tenants as f64;
        (fair > 0.0).then(|| self.bandwidth_total() / fair)
    }
}

impl Results {
    /// Whether the run was complete, no IO failed, everything verified is right, and every search found a depth.
    pub fn is_clean(&self) -> bool {
        let clean = |job: &JobResult| {
            job.trouble.failed == 0
                && job.verified.as_ref().is_none_or(Verified::is_clean)
                && job.found.is_none_or(|found| matches!(found, Found::Depth(_)))
                && job.below_minimum().next().is_none()
        };
        self.fatal.is_none() && self.jobs.iter().all(clean)
    }

    /// The first error, of jobs that only move data; `None` if nothing failed.
    pub fn first_error(&self) -> Option<String> {
        let of_job = |job: &JobResult| {
            let Trouble { failed, first, .. } = &job.trouble;
            first.as_ref().map(|first| format!("{}: {failed} IOs failed; the first: {first}", job.job.name))
        };
        let fatal = self.fatal.as_ref().map(ToString::to_string);
        fatal.or_else(|| self.jobs.iter().find_map(of_job))
    }

    /// With one result for each group of jobs that say `group_reporting`.
    pub fn grouped(self) -> Results {
        let shares = |one: &JobResult, next: &JobResult| {
            one.job.group == next.job.group && one.job.group_reporting && next.job.group_reporting
        };
        let mut groups: Vec<Vec<JobResult>> = Vec::new();
        for job in self.jobs {
            match groups.last_mut() {
                Some(group) if shares(&group[0], &job) => group.push(job),
                _ => groups.push(vec![job]),
            }
        }
        let result = |mut group: Vec<JobResult>| match group.len() {
            1 => group.remove(0),
            _ => JobResult::of_group(group),
        };
        Results { jobs: groups.into_iter().map(result).collect(), ..self }
    }

    /// Bytes per second of all jobs.
    pub fn bandwidth_total(&self) -> f64 {
        self.jobs.iter().map(JobResult::bandwidth_total).sum()
    }

    /// IOs per second of all jobs.
    pub fn iops_total(&self) -> f64 {
        self.jobs.iter().map(JobResult::iops_total).sum()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::measure::{Completed, Recorded, Recorder, Window};
    use units::{Bytes, Instant};

    /// A job that read `ios` × 4 KiB in one second, each in `latency`.
    pub(crate) fn result(name: &str, ios: u64, latency: Nanos) -> JobResult {
        let second = Instant::ZERO + Nanos::secs(1);
        let mut recorder = Recorder::new(Instant::ZERO, Window { from: Instant::ZERO, until: second });
        let direction = Direction::Read;
        let io = Completed { direction, length: Bytes::kib(4), latency, service: latency };
        (0..ios).for_each(|_| recorder.on_completed(Instant(1), &io));
        recorder.close_interval(second, Some(32));
        let Recorded { measured, tallies, series } = recorder.finish(second);
        JobResult {
            job: Job::named(name),
            nqn: "nqn.2024-01.test:a".into(),
            measured,
            tallies,
            series,
            trouble: Trouble::default(),
            verified: None,
            standalone: None,
            tenants: 2,
            found: None,
            members: Vec::new(),
        }
    }

    #[test]
    fn the_first_error_says_what_failed_first() {
        let mut jobs = vec![result("a", 1, Nanos::ZERO), result("b", 1, Nanos::ZERO)];
        let results =
            |jobs| Results { address: ([127, 0, 0, 1], 4420).into(), jobs, fatal: None, is_stopped: false };
        assert_eq!(results(jobs.clone()).first_error(), None);
        jobs[1].trouble = Trouble { failed: 3, first: Some("no room".into()), losses: 0 };
        assert_eq!(results(jobs).first_error().as_deref(), Some("b: 3 IOs failed; the first: no room"));
    }

    #[test]
    fn jobs_of_a_group_share_a_result_and_others_do_not() {
        let job = |name, group, ios| {
            let mut result = result(name, ios, Nanos::micros(ios));
            (result.job.group, result.job.group_reporting) = (group, name != "d");
            result
        };
        let jobs = vec![job("a", 0, 1000), job("b", 0, 500), job("c", 1, 10), job("d", 1, 20)];
        let results =
            Results { address: ([127, 0, 0, 1], 4420).into(), jobs, fatal: None, is_stopped: false }
                .grouped();
        let names: Vec<_> =
            results.jobs.iter().map(|job| (job.job.name.as_str(), job.members.len())).collect();
        assert_eq!(names, [("a", 2), ("c", 0), ("d", 0)]);
        let all = &results.jobs[0];
        assert_eq!((all.iops_total(), all.tally(Direction::Read).latency.len()), (1500.0, 1500));
    }

    #[test]
    fn half_of_what_it_reaches_alone_is_a_fair_share_between_two() {
        let mut result = result("a", 1000, Nanos::micros(100));
        assert_eq!(result.f_util(), None);
        result.standalone = Some(2000.0 * 4096.0);
        assert_eq!(result.f_util(), Some(1.0));
        result.tenants = 1;
        assert_eq!(result.f_util(), Some(0.5));
        assert_eq!((result.iops(Direction::Read), result.iops(Direction::Write)), (1000.0, 0.0));
    }
}
