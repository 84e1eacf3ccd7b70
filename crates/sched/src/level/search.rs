//! The search for the limit while several tenants compete: its steps (`depth`), and whether the SSD has changed meanwhile (`watch`).

use super::ALONE_LIMIT;
use super::books::Present;
use super::depth::Depth;
use super::kind::Kind;
use super::patience::Patience;
use super::watch::Watch;
use core::cmp::Ordering;
use units::{Bytes, Nanos};

/// Number of periods with other busy tenants after which other limits may be right.
const DIFFERS: u32 = 8;

/// The limit found until now, and the mix of tenants that it is for.
#[derive(Clone, Debug)]
pub(super) struct Search {
    depth: Depth,
    watch: Watch,
    /// The busy tenants of each kind in the last period: if they change, other limits may be right.
    kinds: [u32; Kind::COUNT],
    /// Periods in a row in which they were others.
    differs: u32,
}

impl Search {
    /// The search before anything was tried.
    pub(super) fn new() -> Search {
        Search { depth: Depth::new(), watch: Watch::default(), kinds: [0; Kind::COUNT], differs: 0 }
    }

    /// The limit to use now.
    pub(super) fn limit(&self) -> Bytes {
        self.depth.limit()
    }

    /// Notes the charge of the most expensive usual IO of a period.
    pub(super) fn note_dearest(&mut self, dearest: Bytes) {
        self.depth.note_dearest(dearest);
    }

    /// Adapts to a price that has changed.
    pub(super) fn reprice(&mut self, patience: &mut Patience) {
        self.depth.reprice();
        self.watch.forget();
        patience.forget();
    }

    /// Skips a period that says nothing of the tenants' mix.
    pub(super) fn skip(&mut self, patience: &mut Patience) {
        // Data of a probe that buffers still hold is not this mix's.
        self.depth.restart();
        patience.restart();
        self.watch.pause();
    }

    /// Learns from a period in which several tenants were served. Returns whether the SSD seems to have changed.
    pub(super) fn on_period(
        &mut self,
        served: u64,
        span: Nanos,
        present: &Present,
        patience: &mut Patience,
    ) -> bool {
        let useful = served.saturating_sub(present.excess);
        let was_trial = patience.is_trial();
        if let Some(rate) = patience.on_period(useful, span.0) {
            self.depth.begin_at(self.depth.limit().max(ALONE_LIMIT), rate);
            self.watch.forget();
        }
        // A tenant that pauses for some periods is no reason to search again.
        self.differs = if self.kinds == present.busy { 0 } else { self.differs + 1 };
        if self.differs >= DIFFERS {
            (self.kinds, self.differs) = (present.busy, 0);
            self.depth.forget();
            self.watch.forget();
            patience.forget();
        }
        if was_trial || patience.is_trial() {
            // A trial has a limit of its own.
            self.depth.restart();
            self.watch.pause();
            return false;
        }
        let has_changed = self.depth.is_own_turn() && self.watch.on_period(served, span.0);
        if let Some(direction) = self.depth.on_period(useful, span.0, present.is_beyond_reach) {
            self.watch.on_limit(direction == Ordering::Greater);
        }
        has_changed
    }
}
