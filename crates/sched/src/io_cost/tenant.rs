//! One tenant's account: its cursor in device time, its weight, and the part of it that it gives away.
//!
//! A tenant's own time runs slower than the SSD's in proportion to its share. Its *cursor* moves on by the cost of its
//! IOs, and may not pass the SSD's time; its distance behind that is its budget.

/// A share of one.
pub(super) const WHOLE: u64 = 1 << 16;
/// A weight is counted in these parts, so that some of it can be given away.
pub(super) const WEIGHT_BITS: u32 = 16;
/// Number of periods for which the use is remembered.
const REMEMBERED: usize = 3;
/// Number of periods with use that are needed before anything is given away.
const REMEMBERED_MIN: usize = 2;
/// Part of a share in use that is kept: a quarter and a fiftieth more than is used. Less than a thirty-third is not worth giving.
const KEPT_PER_CENT: u64 = 125;
const KEPT_MORE: u64 = WHOLE / 50;
const GIVEN_MIN: u64 = WHOLE / 33;

/// One tenant.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    /// Moves on with IOs that go to the SSD.
    pub(super) cursor: i128,
    /// Moves on with IOs that end: it is behind the cursor by the cost of the IOs in the SSD.
    pub(super) ended: i128,
    /// Where the cursor was at the end of the last period.
    pub(super) counted: i128,
    /// Whether its weight counts.
    pub(super) is_active: bool,
    /// Whether an IO came in this period.
    pub(super) has_asked: bool,
    /// Its weight, in parts; less if it gives some away.
    pub(super) in_use: u64,
    /// The shares of the SSD that it used in the last periods in which it used some.
    used: [u64; REMEMBERED],
    next_used: usize,
}

impl Account {
    /// Moves all its cursors.
    pub(super) fn shift(&mut self, by: i128) {
        self.cursor += by;
        self.ended += by;
        self.counted += by;
    }

    /// Whether none of its IOs is in the SSD.
    pub(super) fn has_all_back(&self) -> bool {
        self.cursor == self.ended
    }

    /// Counts the device time that it used in a period of `of`, at `share` of the SSD. Returns the share that this was.
    pub(super) fn count(&mut self, until: i128, share: u64, of: i128) -> u64 {
        let moved = (until - self.counted).max(0);
        self.counted += moved;
        // IOs that are in the SSD for long use it.
        let moved = moved.max(self.cursor - self.ended);
        let used = (moved * i128::from(share)) / of.max(1) + i128::from(moved > 0);
        let used = u64::try_from(used).unwrap_or(u64::MAX).min(WHOLE);
        if used > 0 {
            self.next_used = (self.next_used + 1) % REMEMBERED;
            self.used[self.next_used] = used;
        }
        used
    }

    /// The share to be left to a tenant that used this much of `share`; `None` if it has hardly too much.
    pub(super) fn surplus(used: u64, share: u64) -> Option<u64> {
        let kept = Account::kept(used);
        (kept + GIVEN_MIN <= share).then_some(kept)
    }

    /// A share with a margin.
    pub(super) fn kept(used: u64) -> u64 {
        (used * KEPT_PER_CENT).div_ceil(100) + KEPT_MORE
    }

    /// The share to be left to it, by its highest use lately.
    pub(super) fn surplus_lately(&self, share: u64) -> Option<u64> {
        let used = self.used.iter().filter(|used| **used > 0);
        if used.clone().count() < REMEMBERED_MIN {
            return None;
        }
        Account::surplus(used.copied().max()?, share)
    }
}
