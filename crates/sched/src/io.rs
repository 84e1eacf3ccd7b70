//! An IO as the scheduler sees it: tenant, kind and size. Never its address or its contents.

use units::{Bytes, Nanos, TenantId};

/// The caller's name for an IO; the scheduler only hands it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoId(pub u64);

/// Kind of an IO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IoKind {
    /// Brings data from the SSD (read, compare, verify).
    Read,
    /// Puts data on the SSD (write).
    Write,
    /// Everything else that occupies the SSD (flush, deallocate, write zeroes). Paid for like a write of its `length`, but its latency
    /// says nothing about congestion and is not measured.
    Management,
}

impl IoKind {
    /// Paid for from the write bucket, at the write cost.
    pub const fn pays_as_write(self) -> bool {
        !matches!(self, IoKind::Read)
    }
}

/// A tenant's own ordering of its IOs: class 0 is the most urgent of the four.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u8);

impl Priority {
    /// Number of classes.
    pub const CLASSES: usize = 4;

    /// Class `n`; `None` unless `n < 4`.
    pub const fn new(n: u8) -> Option<Priority> {
        if (n as usize) < Priority::CLASSES { Some(Priority(n)) } else { None }
    }

    /// The class as an index.
    #[inline]
    pub const fn index(self) -> usize {
        // In range as it is; said so that the compiler has no range to check.
        self.0 as usize % Priority::CLASSES
    }
}

/// The scheduler's own note on an IO that it submitted: in which of its records the IO is, so that its end is found
/// without a search. Means nothing to other code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mark(pub u32);

/// One IO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// The caller's name for it.
    pub id: IoId,
    /// The owner of the IO.
    pub tenant: TenantId,
    /// The tenant's own class.
    pub priority: Priority,
    /// Its kind.
    pub kind: IoKind,
    /// Bytes moved (for [`IoKind::Management`]: bytes charged). Never zero.
    pub length: Bytes,
    /// Written by the scheduler on submission and handed back in [`Done`]; arrive with `Mark::default()`.
    pub mark: Mark,
}

/// End of a submitted IO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The SSD did it, in this time from submission to completion, measured at the device.
    Success {
        /// Time from submission to the SSD until its completion.
        latency: Nanos,
    },
    /// The SSD failed it, or it ended before it reached the SSD. Says nothing about congestion.
    Failed,
}

/// A submitted IO that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The IO, exactly as [`Next::Submit`](crate::Next::Submit) gave it out (its mark included).
    pub io: Io,
    /// Its end.
    pub outcome: Outcome,
}
