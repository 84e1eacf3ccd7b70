//! The memory of an engine: one pool for all controllers by TCP, and one for each by RDMA.
//!
//! A controller by RDMA gets keys of the buffers that it fills and reads, and keeps them: it can look into such a buffer, and change it, long
//! after its IO. So nothing of another controller is ever in it.
//!
//! ```text
//!   limit = what the shared pool may have + what each other one may have
//!                      └───── idle memory moves to the pool that runs short ─────┘
//! ```
//!
//! Holds: the pools together never exceed the limit (`memory_moves_between_pools_and_never_exceeds_the_limit`).

use reactor::{BufferPool, IoBuffer};
use std::collections::BTreeMap;
use units::Bytes;

/// The amount that moves at once, if there is as much: so that few buffers have to wait for a move.
const STEP: Bytes = Bytes::mib(1);

/// A pool, and its part of the limit.
struct Part {
    pool: BufferPool,
    limit: Bytes,
}

impl Part {
    fn new(limit: Bytes) -> Part {
        Part { pool: BufferPool::new(limit), limit }
    }

    fn set_limit(&mut self, limit: Bytes) {
        self.limit = limit;
        self.pool.set_limit(limit);
    }

    /// Gives up idle memory, at most this much. Returns the amount.
    fn cede(&mut self, wanted: Bytes) -> Bytes {
        let idle = self.limit.saturating_sub(self.pool.lent());
        let ceded = idle.min(wanted);
        if ceded > Bytes::ZERO {
            self.set_limit(self.limit - ceded);
        }
        ceded
    }
}

/// See the module.
pub(super) struct Buffers {
    shared: Part,
    /// By the slot of the controller.
    own: BTreeMap<usize, Part>,
}

impl Buffers {
    pub(super) fn new(limit: Bytes) -> Buffers {
        Buffers { shared: Part::new(limit), own: BTreeMap::new() }
    }

    /// A buffer of the shared pool.
    pub(super) fn take_shared(&mut self, length: usize) -> Option<IoBuffer> {
        if let Some(buffer) = self.shared.pool.take(length) {
            return Some(buffer);
        }
        let Buffers { shared, own } = self;
        take_from(shared, own.values_mut(), length)
    }

    /// A buffer that only the controller of this slot ever reaches.
    pub(super) fn take_own(&mut self, slot: usize, length: usize) -> Option<IoBuffer> {
        let part = self.own.entry(slot).or_insert_with(|| Part::new(Bytes::ZERO));
        if let Some(buffer) = part.pool.take(length) {
            return Some(buffer);
        }
        let mut part = self.own.remove(&slot).expect("just found");
        let others = std::iter::once(&mut self.shared).chain(self.own.values_mut());
        let buffer = take_from(&mut part, others, length);
        self.own.insert(slot, part);
        buffer
    }

    pub(super) fn give(&mut self, buffer: IoBuffer) {
        let owner = self.own.values_mut().find(|part| part.pool.owns(&buffer));
        // A buffer of a controller that is gone finds its own way from here.
        owner.unwrap_or(&mut self.shared).pool.give(buffer);
    }

    /// The controller of a slot is gone. Its buffers that are still out are freed when they come back.
    pub(super) fn forget(&mut self, slot: usize) {
        if let Some(part) = self.own.remove(&slot) {
            self.shared.set_limit(self.shared.limit + part.limit);
        }
    }
}

/// A buffer of a pool that has run short, with the idle memory of others.
fn take_from<'p>(
    part: &mut Part,
    others: impl Iterator<Item = &'p mut Part>,
    length: usize,
) -> Option<IoBuffer> {
    let size = Bytes(length.max(IoBuffer::ALIGNMENT).next_power_of_two() as u64);
    let mut lacking = size.max(STEP);
    for other in others {
        lacking = lacking - other.cede(lacking);
        if lacking == Bytes::ZERO {
            break;
        }
    }
    part.set_limit(part.limit + size.max(STEP) - lacking);
    part.pool.take(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = IoBuffer::ALIGNMENT;

    fn limits(buffers: &Buffers) -> u64 {
        buffers.shared.limit.0 + buffers.own.values().map(|part| part.limit.0).sum::<u64>()
    }

    fn lent(buffers: &mut Buffers) -> u64 {
        buffers.shared.pool.lent().0 + buffers.own.values_mut().map(|part| part.pool.lent().0).sum::<u64>()
    }

    #[test]
    fn memory_moves_between_pools_and_never_exceeds_the_limit() {
        let limit = Bytes::mib(2);
        let mut buffers = Buffers::new(limit);
        let mut out: Vec<(Option<usize>, IoBuffer)> = Vec::new();
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let (mut refused, mut served) = (0, 0);
        for _ in 0..20_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let slot = [None, Some(1), Some(2), Some(3)][(random >> 8) as usize % 4];
            match random % 16 {
                0 => {
                    if let Some(slot) = slot {
                        // A controller gives all its buffers back before it goes.
                        out.retain(|(owner, _)| *owner != Some(slot));
                        buffers.forget(slot);
                    }
                }
                1..=7 if !out.is_empty() => {
                    let (_, buffer) = out.swap_remove((random >> 16) as usize % out.len());
                    buffers.give(buffer);
                }
                _ => {
                    let length = PAGE << ((random >> 24) % 9);
                    let before = lent(&mut buffers);
                    let buffer = match slot {
                        None => buffers.take_shared(length),
                        Some(slot) => buffers.take_own(slot, length),
                    };
                    match buffer {
                        Some(buffer) => {
                            served += 1;
                            out.push((slot, buffer));
                        }
                        None => {
                            refused += 1;
                            assert!(
                                before + length as u64 > limit.0,
                                "{length} bytes were to be had beside {before}"
                            );
                        }
                    }
                }
            }
            assert_eq!(limits(&buffers), limit.0);
            assert!(lent(&mut buffers) <= limit.0);
        }
        assert!(served > 5_000 && refused > 500, "{served} were served, {refused} refused");
    }

    #[test]
    fn a_buffer_of_one_controller_never_becomes_one_of_another() {
        let mut buffers = Buffers::new(Bytes(PAGE as u64));
        let mut first = buffers.take_own(1, PAGE).expect("there is one page");
        first.fill(7);
        assert!(buffers.take_own(2, PAGE).is_none() && buffers.take_shared(PAGE).is_none());
        buffers.give(first);
        let second = buffers.take_own(2, PAGE).expect("the idle page was freed, and another one allocated");
        assert!(second.iter().all(|&byte| byte == 0), "it is new");
        buffers.give(second);
        buffers.forget(2);
        assert!(buffers.take_shared(PAGE).is_some());
    }
}
