//! The outstanding commands of one queue, oldest first.
//!
//! A table with as many slots as the queue has depth. The slots are linked in order of submission. So the
//! oldest command, the next to time out, is found at once, and the commands of a lost connection come back in
//! order.
//!
//!   command identifier:  | generation (4 bits) | slot (12 bits) |
//!
//! The generation changes each time a slot is used. So a duplicate or late completion refers to a command
//! that is not outstanding.
//!
//! Holds: a stale identifier finds nothing (`a_completion_that_comes_twice_finds_nothing`);
//!        the order is that of submission, whatever the order of completion (`the_oldest_is_always_known`).

use units::Instant;

const SLOT_BITS: u32 = 12;
const SLOT_MASK: u16 = (1 << SLOT_BITS) - 1;
/// The deepest queue that command identifiers allow.
pub(crate) const DEPTH_MAX: u16 = 1 << SLOT_BITS;
/// End of the list.
const NONE: u16 = u16::MAX;

#[derive(Debug)]
struct Slot<T> {
    generation: u16,
    sent: Instant,
    older: u16,
    newer: u16,
    command: Option<T>,
}

/// The outstanding commands of one queue.
#[derive(Debug)]
pub(crate) struct InFlight<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u16>,
    oldest: u16,
    newest: u16,
}

impl<T> InFlight<T> {
    /// A table for `depth` commands.
    pub(crate) fn new(depth: u16) -> InFlight<T> {
        assert!((1..=DEPTH_MAX).contains(&depth), "a queue depth of {depth}; it must be 1 to {DEPTH_MAX}");
        let slot = |_| Slot { generation: 0, sent: Instant::ZERO, older: NONE, newer: NONE, command: None };
        InFlight {
            slots: (0..depth).map(slot).collect(),
            free: (0..depth).rev().collect(),
            oldest: NONE,
            newest: NONE,
        }
    }

    /// Adds a command that is sent now. Returns its identifier, or the command itself if the queue is full.
    pub(crate) fn insert(&mut self, now: Instant, command: T) -> Result<u16, T> {
        let Some(index) = self.free.pop() else { return Err(command) };
        let newest = self.newest;
        let slot = &mut self.slots[usize::from(index)];
        slot.generation = slot.generation.wrapping_add(1 << SLOT_BITS);
        (slot.sent, slot.older, slot.newer, slot.command) = (now, newest, NONE, Some(command));
        let identifier = slot.generation | index;
        self.newest = index;
        match newest {
            NONE => self.oldest = index,
            older => self.slots[usize::from(older)].newer = index,
        }
        Ok(identifier)
    }

    fn slot(&self, identifier: u16) -> Option<u16> {
        let index = identifier & SLOT_MASK;
        let slot = self.slots.get(usize::from(index))?;
        (slot.command.is_some() && slot.generation == identifier & !SLOT_MASK).then_some(index)
    }

    /// An outstanding command.
    pub(crate) fn get_mut(&mut self, identifier: u16) -> Option<&mut T> {
        let index = self.slot(identifier)?;
        self.slots[usize::from(index)].command.as_mut()
    }

    /// Removes a command. Returns it with the time at which it was sent.
    pub(crate) fn remove(&mut self, identifier: u16) -> Option<(T, Instant)> {
        let index = self.slot(identifier)?;
        let slot = &mut self.slots[usize::from(index)];
        let command = slot.command.take()?;
        let (older, newer, sent) = (slot.older, slot.newer, slot.sent);
        match older {
            NONE => self.oldest = newer,
            older => self.slots[usize::from(older)].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.slots[usize::from(newer)].older = older,
        }
        self.free.push(index);
        Some((command, sent))
    }

    /// The identifier of the oldest command, and when it was sent.
    pub(crate) fn oldest(&self) -> Option<(u16, Instant)> {
        let slot = self.slots.get(usize::from(self.oldest))?;
        Some((slot.generation | self.oldest, slot.sent))
    }

    /// Removes all commands, oldest first.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(|| {
            let (identifier, _) = self.oldest()?;
            self.remove(identifier).map(|(command, _)| command)
        })
    }

    /// Number of outstanding commands.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether the queue is full.
    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn a_completion_that_comes_twice_finds_nothing() {
        let mut commands = InFlight::new(1);
        let first = commands.insert(Instant(1), 'a').expect("the queue is empty");
        assert_eq!(commands.insert(Instant(2), 'b'), Err('b'));
        assert_eq!(commands.remove(first), Some(('a', Instant(1))));
        assert_eq!(commands.remove(first), None);
        let second = commands.insert(Instant(3), 'c').expect("the queue is empty again");
        assert_ne!(first, second);
        assert_eq!((commands.remove(first), commands.get_mut(first)), (None, None));
        assert_eq!(commands.remove(0xfff), None, "a slot the queue does not have");
        assert_eq!(commands.get_mut(second), Some(&mut 'c'));
    }

    #[test]
    fn the_oldest_is_always_known() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut commands = InFlight::new(16);
        let mut model: Vec<(u16, u64)> = Vec::new();
        for time in 0..10_000 {
            if random.random_bool(0.5) {
                match commands.insert(Instant(time), time) {
                    Ok(identifier) => model.push((identifier, time)),
                    Err(_) => assert_eq!(model.len(), 16),
                }
            } else if !model.is_empty() {
                let (identifier, time) = model.remove(random.random_range(0..model.len()));
                assert_eq!(commands.remove(identifier), Some((time, Instant(time))));
            }
            let oldest = model.first().map(|&(identifier, time)| (identifier, Instant(time)));
            assert_eq!((commands.oldest(), commands.len()), (oldest, model.len()));
            assert_eq!(commands.is_full(), model.len() == 16);
        }
        let order: Vec<u64> = model.iter().map(|&(_, time)| time).collect();
        assert_eq!(commands.drain().collect::<Vec<_>>(), order);
        assert_eq!(commands.len(), 0);
    }
}
