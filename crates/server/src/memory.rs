//! The division of the configured memory among the threads.
//!
//! ```text
//!   limits.memory ─┬─ half: data that arrives ── in equal parts to all threads that have connections
//!                  └─ half: data that was read ─ in equal parts to the devices
//! ```
//!
//! Each part belongs to one thread, so no thread needs a lock to take memory.
//!
//! Holds: all parts together are at most the configured memory (`the_parts_are_never_more_than_the_whole`).

use crate::account::{REPLIES_MAX, Supply};
use crate::config::Limits;
use crate::payload::Intakes;
use units::Bytes;

/// The guaranteed minimum of a named host for data in capsules: eight of the largest.
const CAPSULES_FLOOR: Bytes = Bytes::kib(64);
/// Memory that every host gets even when others have most: for data in capsules, and for other data of IOs.
const CAPSULES_FIRST: Bytes = Bytes::kib(16);
const DATA_FIRST: Bytes = Bytes::kib(256);

/// Memory of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    /// For data that arrives.
    pub(crate) arrivals: Bytes,
    /// For data that was read.
    pub(crate) reads: Bytes,
    /// For replies with data of the controller itself.
    pub(crate) replies: Bytes,
}

impl Memory {
    /// The memory of each thread with a device, and of each thread without one.
    pub(crate) fn divide(limits: &Limits, devices: usize, others: usize) -> (Memory, Memory) {
        let (devices, threads) = (devices.max(1) as u64, (devices.max(1) + others) as u64);
        let half = limits.memory.get() / 2;
        let arrivals = Bytes(half / threads);
        let of_device = Memory {
            arrivals,
            reads: Bytes(half / devices),
            replies: Bytes(limits.reply_memory.get() / devices),
        };
        (of_device, Memory { arrivals, reads: Bytes::ZERO, replies: Bytes::ZERO })
    }

    /// The memory of each account.
    pub(crate) fn supplies(&self, limits: &Limits) -> [Supply; 4] {
        let (capsules, transfers) = Intakes::parts(self.arrivals);
        [
            Supply { limit: capsules, floor_max: CAPSULES_FLOOR, first: CAPSULES_FIRST },
            Supply { limit: transfers, floor_max: limits.transfer_max, first: DATA_FIRST },
            Supply { limit: self.reads, floor_max: limits.transfer_max, first: DATA_FIRST },
            Supply { limit: self.replies, floor_max: Bytes(REPLIES_MAX), first: Bytes(REPLIES_MAX) },
        ]
    }

    /// The part that one host may have, if the configuration limits that.
    pub(crate) fn of_host(&self, limits: &Limits) -> Option<Bytes> {
        let (part, whole) = (u128::from((self.arrivals + self.reads).get()), u128::from(limits.memory.get()));
        limits.memory_per_host.map(|limit| Bytes((part * u128::from(limit.get()) / whole) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_never_more_than_the_whole() {
        let limits = Limits { memory_per_host: Some(Bytes::mib(100)), ..Limits::default() };
        for (devices, others) in [(1, 0), (1, 1), (1, 7), (3, 0), (3, 5)] {
            let (of_device, of_other) = Memory::divide(&limits, devices, others);
            let sum = |part: fn(&Memory) -> Bytes| {
                devices as u64 * part(&of_device).get() + others as u64 * part(&of_other).get()
            };
            let all = sum(|memory| memory.arrivals + memory.reads);
            assert!(
                all <= limits.memory.get() && all > limits.memory.get() - 64,
                "{devices} and {others}: {all}"
            );
            assert!(sum(|memory| memory.replies) <= limits.reply_memory.get());
            let of_host = |memory: &Memory| memory.of_host(&limits).expect("there is one").get();
            let of_host = devices as u64 * of_host(&of_device) + others as u64 * of_host(&of_other);
            assert!(of_host <= Bytes::mib(100).get(), "a host on all threads");
        }
    }
}
