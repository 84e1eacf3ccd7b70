//! The write buffer: which writes are admitted, and when a flush may complete.
//!
//! Writes are admitted in order; a write that does not fit delays those after it. A command of up to half the
//! buffer is admitted as a whole, a larger one in pieces of that size. (Data of a stripe that is not full
//! stays in the buffer until more data comes. So the buffer never empties completely, and a command that
//! waited for that would wait forever.)
//!
//! Slots are released when the unit that holds them has been programmed. Units on different dies end out of
//! order. A flush waits until all units filled before it have ended (`Ledger`).

use std::collections::VecDeque;

/// Memory for written data that is not yet on flash.
pub(crate) struct WriteBuffer {
    capacity: u32,
    free: u32,
    waiting: VecDeque<Waiting>,
}

#[derive(Clone, Copy)]
struct Waiting {
    command: u32,
    slots: u32,
}

/// An admitted piece of a write command.
#[derive(Clone, Copy)]
pub(crate) struct Admitted {
    pub(crate) command: u32,
    pub(crate) slots: u32,
}

impl WriteBuffer {
    pub(crate) fn new(capacity: u32) -> WriteBuffer {
        WriteBuffer { capacity, free: capacity, waiting: VecDeque::new() }
    }

    /// Slots in the buffer.
    pub(crate) fn occupied(&self) -> u32 {
        self.capacity - self.free
    }

    pub(crate) fn on_write(&mut self, command: u32, slots: u32) {
        self.waiting.push_back(Waiting { command, slots });
    }

    /// Admits the next piece if there is room.
    pub(crate) fn admit(&mut self) -> Option<Admitted> {
        let next = self.waiting.front_mut()?;
        let slots = next.slots.min(self.capacity / 2);
        if slots > self.free {
            return None;
        }
        self.free -= slots;
        next.slots -= slots;
        let admitted = Admitted { command: next.command, slots };
        if next.slots == 0 {
            self.waiting.pop_front();
        }
        Some(admitted)
    }

    pub(crate) fn release(&mut self, slots: u32) {
        self.free += slots;
        debug_assert!(self.free <= self.capacity, "more leaves the write buffer than came in");
    }
}

/// Records which units of the host have been programmed, and which flushes wait for them.
#[derive(Default)]
pub(crate) struct Ledger {
    /// All units below this number have been programmed.
    settled: u64,
    /// Whether each unit starting at `settled` has been programmed.
    programmed: VecDeque<bool>,
    /// Waiting flush commands in order, each with the number of units that must be settled.
    flushes: VecDeque<(u64, u32)>,
}

impl Ledger {
    pub(crate) fn on_programmed(&mut self, sequence: u64) {
        let ahead = (sequence - self.settled) as usize;
        if self.programmed.len() <= ahead {
            self.programmed.resize(ahead + 1, false);
        }
        self.programmed[ahead] = true;
        while self.programmed.front() == Some(&true) {
            self.programmed.pop_front();
            self.settled += 1;
        }
    }

    /// The flush `command` waits for the first `units` units of the host.
    pub(crate) fn on_flush(&mut self, command: u32, units: u64) {
        self.flushes.push_back((units, command));
    }

    /// A flush with all its units settled.
    pub(crate) fn finished_flush(&mut self) -> Option<u32> {
        let &(units, command) = self.flushes.front()?;
        if units > self.settled {
            return None;
        }
        self.flushes.pop_front();
        Some(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_waits_for_every_unit_before_it_in_any_order_of_completion() {
        let mut ledger = Ledger::default();
        ledger.on_flush(7, 3);
        for sequence in [2, 4, 0, 3] {
            ledger.on_programmed(sequence);
            assert_eq!(ledger.finished_flush(), None, "unit 1 is not programmed");
        }
        ledger.on_programmed(1);
        assert_eq!(ledger.finished_flush(), Some(7));
        assert_eq!(ledger.finished_flush(), None);
    }

    #[test]
    fn a_write_larger_than_the_buffer_comes_in_pieces() {
        let mut buffer = WriteBuffer::new(100);
        buffer.on_write(1, 120);
        assert_eq!(buffer.admit().map(|piece| piece.slots), Some(50));
        assert_eq!(buffer.admit().map(|piece| piece.slots), Some(50));
        assert!(buffer.admit().is_none(), "the buffer is full");
        buffer.release(30);
        assert_eq!(buffer.admit().map(|piece| piece.slots), Some(20));
        assert!(buffer.admit().is_none(), "the command is in");
        assert_eq!(buffer.occupied(), 90);
    }
}
