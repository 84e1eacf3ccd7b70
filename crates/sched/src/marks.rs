//! Notes of a scheduler on each IO in flight, found by the [`Mark`] that the IO carries.

use crate::Mark;
use alloc::vec::Vec;

/// Notes of IOs in flight. Places of those that have ended are used again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks<T> {
    notes: Vec<T>,
    free: Vec<Mark>,
}

impl<T: Copy> Marks<T> {
    /// Notes something of an IO that goes to the SSD.
    pub(crate) fn note(&mut self, note: T) -> Mark {
        if let Some(mark) = self.free.pop() {
            self.notes[mark.0 as usize] = note;
            return mark;
        }
        self.notes.push(note);
        Mark(u32::try_from(self.notes.len() - 1).expect("fewer IOs are in flight than a mark can name"))
    }

    /// Takes the note of an IO that has ended.
    pub(crate) fn take(&mut self, mark: Mark) -> T {
        self.free.push(mark);
        self.notes[mark.0 as usize]
    }
}
