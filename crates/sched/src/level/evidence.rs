//! Evidence for the price of work that writes: a price that holds for as long as a probe lasts may not hold for longer.
//!
//! Many SSDs keep a reserve of erased blocks. As long as it lasts they take writes at a multiple of the rate that they sustain, and they
//! refill it while less is written, as under a fair mix. So each probe by itself would end inside the reserve, and the price would be
//! too low for ever. Nothing makes sustained writes faster than they are. Therefore:
//!
//! - once nothing has been measured for a while, probes of such a kind follow each other closely (a *train*) until [`RESERVE`] was
//!   written, or [`TRAIN`] probes have ended: the reserve, if there is one, is used up, and the later probes see the price without it;
//! - after that, writes that seem much cheaper than is believed must do so in a row as long as that. If they do not, they came from a
//!   reserve, and the next times that they seem cheaper say nothing: twice, then four times, and so on. Once a reserve was met, writes
//!   that seem a little cheaper say nothing either.
//!
//! A train of one kind is enough for all if it met no reserve. A reserve that outlasts a train is not noticed.
//!
//! Holds: a price from a reserve is replaced in a train, and not believed later (`what_a_reserve_hides_is_found_by_a_train`); an SSD that
//!        became faster for good is believed (`what_lasts_for_a_train_is_believed`).

/// Bytes written in a row that no reserve hides.
const RESERVE: u64 = 768 << 20;
/// Probes in a row that are enough for slower work.
pub(super) const TRAIN: u32 = 6;
/// A train met a reserve if its last probe is dearer than its first by more than one part in this number.
const DEARER: u64 = 8;
/// Doublings of the times that a lower price is ignored.
const DOUBLINGS: u32 = 6;

/// The evidence for one kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evidence {
    /// The probes of the train that is running.
    train: Seen,
    /// The price by the first of them.
    first: u64,
    /// Whether a train has run to its end.
    is_enough: bool,
    /// Probes in a row that seemed much cheaper than believed.
    cheaper: Seen,
    /// Number of times that a lower price did not last.
    refuted: u32,
    /// Number of lower prices ignored since.
    ignored: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    probes: u32,
    written: u64,
}

/// A probe of a kind that writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub(super) bytes: u64,
    pub(super) is_in_train: bool,
}

/// The consequence of a price below the believed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lower {
    /// It lasts.
    Believe,
    /// The next probes decide.
    Repeat,
    /// It comes from a reserve.
    Ignore,
}

impl Seen {
    fn add(&mut self, written: u64) {
        self.probes = (self.probes + 1).min(TRAIN);
        self.written = self.written.saturating_add(written);
    }

    fn is_enough(&self) -> bool {
        self.probes >= TRAIN || self.written >= RESERVE
    }
}

impl Evidence {
    /// Whether no reserve that a train would use up hides the price.
    pub(super) fn is_enough(&self) -> bool {
        self.is_enough
    }

    /// Whether a lower price did not last.
    pub(super) fn met_reserve(&self) -> bool {
        self.refuted > 0
    }

    /// Begins a train.
    pub(super) fn begin_train(&mut self) {
        (self.train, self.first) = (Seen::default(), 0);
    }

    /// Adds a probe that measured this price.
    pub(super) fn add(&mut self, written: Written, price: u64) {
        if !written.is_in_train || self.is_enough {
            return;
        }
        if self.train.probes == 0 {
            self.first = price;
        }
        self.train.add(written.bytes);
        if self.train.is_enough() {
            self.is_enough = true;
            let is_dearer = price.saturating_sub(self.first) * DEARER > self.first;
            self.refuted += u32::from(is_dearer && self.refuted == 0);
        }
    }

    /// Decides on a price much lower than is believed, measured by a probe that wrote this much. With `is_expected` something else has
    /// shown that the SSD changed.
    pub(super) fn on_much_lower(&mut self, written: u64, is_expected: bool) -> Lower {
        if self.refuted == 0 && is_expected {
            self.cheaper = Seen::default();
            return Lower::Believe;
        }
        let is_first = self.cheaper.probes == 0;
        if is_first && self.refuted > 0 && self.ignored < 1 << self.refuted.min(DOUBLINGS) {
            self.ignored += 1;
            return Lower::Ignore;
        }
        self.cheaper.add(written);
        if self.cheaper.is_enough() {
            (self.cheaper, self.refuted, self.ignored) = (Seen::default(), 0, 0);
            return Lower::Believe;
        }
        Lower::Repeat
    }

    /// Notes a price that is not much lower.
    pub(super) fn on_other(&mut self) {
        if core::mem::take(&mut self.cheaper).probes > 0 {
            (self.refuted, self.ignored) = (self.refuted + 1, 0);
        }
    }
}
