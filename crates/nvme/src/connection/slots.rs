//! Numbered places for what is under way; a number is good until its place is emptied.
//!
//! Grows to the most that were ever under way at once and then allocates no more.

/// Values under 16-bit numbers.
#[derive(Debug)]
pub(super) struct Slots<T> {
    places: Vec<Option<T>>,
    free: Vec<u16>,
}

impl<T> Slots<T> {
    /// No places yet.
    pub(super) fn new() -> Self {
        Slots { places: Vec::new(), free: Vec::new() }
    }

    /// Puts `value` into a free place.
    pub(super) fn insert(&mut self, value: T) -> u16 {
        match self.free.pop() {
            Some(number) => {
                self.places[usize::from(number)] = Some(value);
                number
            }
            None => {
                let number = u16::try_from(self.places.len()).expect("a queue has at most 65536 entries");
                self.places.push(Some(value));
                number
            }
        }
    }

    /// What is at `number`, which may be anything.
    pub(super) fn find(&mut self, number: u16) -> Option<&mut T> {
        self.places.get_mut(usize::from(number))?.as_mut()
    }

    /// What is at `number`, which must be in use.
    pub(super) fn at(&mut self, number: u16) -> &mut T {
        self.find(number).unwrap_or_else(|| panic!("slot {number} is empty"))
    }

    /// Empties `number`, which must be in use.
    pub(super) fn remove(&mut self, number: u16) -> T {
        let value =
            self.places[usize::from(number)].take().unwrap_or_else(|| panic!("slot {number} is empty"));
        self.free.push(number);
        value
    }

    /// Everything there is.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().flatten()
    }

    /// Empties everything.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.free.clear();
        self.places.drain(..).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_reused_only_after_its_place_was_emptied() {
        let mut slots = Slots::new();
        let (a, b) = (slots.insert('a'), slots.insert('b'));
        assert_ne!(a, b);
        assert_eq!(slots.remove(a), 'a');
        assert_eq!(slots.find(a), None);
        assert_eq!(slots.insert('c'), a);
        assert_eq!((*slots.at(a), *slots.at(b)), ('c', 'b'));
        assert_eq!(slots.find(99), None);
        assert_eq!(slots.drain().collect::<Vec<_>>(), ['c', 'b']);
    }
}
