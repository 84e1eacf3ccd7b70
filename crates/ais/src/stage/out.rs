//! Steps on their way out of the stage, the jobs that they begin, and notices.

use super::{Job, Notice, Step};
use std::collections::{HashMap, VecDeque};

/// The way out of a stage.
#[derive(Debug, Default)]
pub(super) struct Out {
    steps: VecDeque<Step>,
    notices: Vec<Notice>,
    /// By the number that the steps have.
    jobs: HashMap<u64, Job>,
    next_job: u64,
}

impl Out {
    /// Adds a step without a job.
    pub(super) fn push(&mut self, step: Step) {
        self.steps.push_back(step);
    }

    /// Adds the step of a job, which gets its number. Returns the number.
    pub(super) fn begin(&mut self, job: Job, step: impl FnOnce(u64) -> Step) -> u64 {
        self.next_job += 1;
        self.jobs.insert(self.next_job, job);
        self.steps.push_back(step(self.next_job));
        self.next_job
    }

    /// Ends a host's IO.
    pub(super) fn finish(&mut self, tag: u64, is_ok: bool) {
        self.push(Step::Finish { tag, is_ok });
    }

    /// Adds a notice for people.
    pub(super) fn notify(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    /// The next step.
    pub(super) fn next(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }

    /// The notices since the last call.
    pub(super) fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Ends the job of this number; `None` if it was abandoned.
    pub(super) fn end(&mut self, job: u64) -> Option<Job> {
        self.jobs.remove(&job)
    }

    /// Gives up all jobs but those that are kept.
    pub(super) fn keep_jobs(&mut self, is_kept: impl Fn(&Job) -> bool) {
        self.jobs.retain(|_, job| is_kept(job));
    }
}
