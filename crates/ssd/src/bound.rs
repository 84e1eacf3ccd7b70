//! A lower bound for the time of the next completion.
//!
//! Few events of the device are completions, but every other event leads to one only after a time that is
//! known in advance: sensed data still has to cross the channel and the link. So a caller that runs the
//! device in real time need not handle each event at its time. It is enough to look when a completion may
//! have happened.
//!
//! ```text
//!   sensed ──(least transfer)──► transferred ──(least step)──► a completion, at the earliest
//!   read issued, suspended, …  ───────────────(least step)──►
//!   completed, write arrived, command parsed, program ended  ► perhaps at once
//! ```
//!
//! A *step* is the shortest way to a completion once a die or the controller has its next work to do. Either
//! data crosses the link, or a program or erase ends for which a flush or a full buffer may wait.
//!
//! Holds: no completion comes before the bound (`no_completion_comes_before_the_bound` in
//!        `tests/model/properties.rs`).

use crate::controller::Link;
use crate::timing::Timing;
use units::Nanos;

/// The shortest time from an event to a completion that it causes.
pub(crate) struct LeastDelays {
    /// After the die has sensed a page.
    pub(crate) sensed: Nanos,
    /// After an event that completes nothing itself.
    pub(crate) step: Nanos,
}

impl LeastDelays {
    pub(crate) fn new(timing: &Timing, to_host: &Link) -> LeastDelays {
        let step = to_host.least().min(timing.least_run());
        LeastDelays { sensed: timing.least_transfer() + step, step }
    }
}
