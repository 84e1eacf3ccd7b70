//! Learnt facts about an SSD, in plain numbers: to be kept while nothing serves it, and told to the Level that serves it next.
//!
//! It is taken as a belief, not as a truth (`prices`): every price is measured once before it counts as known, and the first that is found
//! wrong takes all others with it that were not measured yet.

use alloc::vec::Vec;
use units::{Bytes, Nanos};

/// Learnt facts about an SSD.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learnt {
    /// Prices of the kinds of work that are known.
    pub prices: Vec<LearntPrice>,
    /// Latencies of reads in the SSD, by what else was in it.
    pub reads: Vec<LearntReads>,
    /// Size of the write buffer, if probes of writes have found it.
    pub buffer: Option<Bytes>,
}

/// Latencies of reads of a size in the SSD at one level of load by others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearntReads {
    /// The most that such a read is long; longer ones are of the last class, 512 KiB.
    pub size: Bytes,
    /// The most device time that was in the SSD at once; more than 500 µs are of the last class, 2 ms.
    pub in_flight: Nanos,
    /// The largest part of the SSD's time that was tenants' that write, per cent; more than 12 are of the last class, 100.
    pub written: u8,
    /// The latencies that one in 2, in 20, in 100 and in 200 took longer than.
    pub latencies: [Nanos; 4],
}

/// The price of one kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearntPrice {
    /// The part of the IOs that are reads.
    pub reads: ReadsPart,
    /// The mean size of the IOs: a power of two from 4 to 512 KiB.
    pub size: Bytes,
    /// The device time of such an IO while the SSD does nothing else.
    pub time: Nanos,
}

/// The part of a tenant's IOs that are reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadsPart {
    /// All of them, but for a few.
    All,
    /// Half of them or more.
    Most,
    /// Less than half of them.
    Some,
    /// None, but for a few.
    None,
}

impl ReadsPart {
    /// All four.
    pub const ALL: [ReadsPart; 4] = [ReadsPart::All, ReadsPart::Most, ReadsPart::Some, ReadsPart::None];
}
