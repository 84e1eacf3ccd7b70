//! Retirement of a store after its device has failed.
//!
//! ```text
//!   nothing more is diverted ─► all is written back ─► flush of the SSD ─► the log is marked as void ─► flushes are answered
//! ```
//!
//! All data is in memory as well, so nothing that was answered is lost. Until the SSD has it durably, the log is left as it is: if the
//! program is killed meanwhile, the log is replayed. Afterwards the log is old: replaying it would put old data over new. So it is marked as
//! *void* before the first flush is answered. If it cannot be marked, flushes are answered all the same, it is tried again every
//! second, and an error is logged.

use super::{Head, Job, LogState, Mode, Notice, Stage, Step, Waiter};
use units::{Instant, Nanos};

/// Pause between a failed try and the next one.
const TRY_AGAIN_AFTER: Nanos = Nanos::secs(1);
/// Both places of heads are marked.
const PLACES: u32 = 2;

/// Progress of the marking.
#[derive(Debug)]
pub(super) struct Voiding {
    head: Head,
    /// Places of heads that still have to be marked.
    left: u32,
    has_begun: bool,
    was_tried: bool,
    try_at: Option<Instant>,
}

impl Stage {
    /// The log's device fails.
    pub(super) fn fail(&mut self) {
        let Mode::Log(LogState { head, .. }) = &self.mode else { return };
        let head = Head { is_void: true, ..head.clone() };
        self.mode =
            Mode::Failed(Voiding { head, left: PLACES, has_begun: false, was_tried: false, try_at: None });
        self.out.notify(Notice::StoreFailed);
        self.forget_superseded();
        self.is_short = false;
        self.abandon_commit();
        self.out.keep_jobs(|job| matches!(job, Job::Back(_)));
        self.records.kill_lists();
        self.records.forget_all_clean(&mut self.out);
        // Data that was durable in the log must soon be durable again.
        self.flushes.push(Waiter { tag: None, needs_drive: true });
        self.complete();
    }

    /// The SSD has everything durably. Whether the log has to be marked first, before flushes are answered.
    pub(super) fn begin_voiding(&mut self) -> bool {
        match &mut self.mode {
            Mode::Failed(voiding) if !voiding.has_begun => {
                voiding.has_begun = true;
                self.write_void();
                true
            }
            _ => false,
        }
    }

    /// Whether a crash may bring back the log of a failed device.
    pub(super) fn is_voiding(&self) -> bool {
        matches!(&self.mode, Mode::Failed(voiding) if !voiding.was_tried)
    }

    fn write_void(&mut self) {
        let Mode::Failed(voiding) = &mut self.mode else { return };
        voiding.head.generation += 1;
        voiding.try_at = None;
        let (at, bytes) = (voiding.head.place(), voiding.head.encode());
        self.out.begin(Job::Void, |job| Step::WriteStore { job, at, bytes });
    }

    pub(super) fn on_voided(&mut self, now: Instant, is_ok: bool) {
        let Mode::Failed(voiding) = &mut self.mode else { return };
        if is_ok {
            voiding.left -= 1;
            if voiding.left > 0 {
                return self.write_void();
            }
        } else {
            voiding.try_at = Some(now + TRY_AGAIN_AFTER);
        }
        voiding.was_tried = true;
        let is_first = self.end_first_try();
        if is_ok {
            self.out.notify(Notice::Voided);
        } else if is_first {
            self.out.notify(Notice::NotVoided);
        }
    }

    pub(super) fn void_again(&mut self, now: Instant) {
        if self.void_at().is_some_and(|at| at <= now) {
            self.write_void();
        }
    }

    pub(super) fn void_at(&self) -> Option<Instant> {
        match &self.mode {
            Mode::Failed(voiding) => voiding.try_at,
            Mode::Memory | Mode::Log(_) => None,
        }
    }
}
