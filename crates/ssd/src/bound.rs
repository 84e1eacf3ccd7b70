//! How soon a completion can come.
//!
//! Few of the device's events are completions, but each leads to one only after a time that is known in advance: sensed data have
//! yet to cross the channel and the link. So whoever lets the device run in real time need not look at each event in its turn; it
//! is enough to look when a completion may have come.
//!
//! ```text
//!   sensed ──(least transfer)──► transferred ──(least step)──► a completion, at the earliest
//!   read issued, suspended, …  ───────────────(least step)──►
//!   completed, write arrived, command parsed, program ended  ► perhaps at once
//! ```
//!
//! A *step* is what any way to a completion takes at least once a die or the controller has work to do next: data on their way
//! cross the link; or a program or erase runs to its end, for which a flush or a full buffer may wait.
//!
//! Holds: no completion comes before the bound (`no_completion_comes_before_the_bound` in `tests/model/properties.rs`).

use crate::front::Link;
use crate::timing::Timing;
use units::Nanos;

/// The least time from an event to a completion that comes of it.
pub(crate) struct LeastDelays {
    /// After the die has sensed a page.
    pub(crate) sensed: Nanos,
    /// After an event that itself completes nothing.
    pub(crate) step: Nanos,
}

impl LeastDelays {
    pub(crate) fn new(timing: &Timing, to_host: &Link) -> LeastDelays {
        let step = to_host.least().min(timing.least_run());
        LeastDelays { sensed: timing.least_transfer() + step, step }
    }
}
