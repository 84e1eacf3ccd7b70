//! A slab: values with 16-bit numbers. A number is valid until its slot is emptied.
//!
//! It grows to the largest number of values ever held at once, then allocates no more.

/// A slab of values with 16-bit numbers.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    places: Vec<Option<T>>,
    free: Vec<u16>,
}

impl<T> Slots<T> {
    /// An empty slab.
    pub(crate) fn new() -> Self {
        Slots { places: Vec::new(), free: Vec::new() }
    }

    /// Puts `value` into a free slot and returns its number.
    pub(crate) fn insert(&mut self, value: T) -> u16 {
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

    /// The value at `number`, if `number` is in use.
    pub(crate) fn find(&mut self, number: u16) -> Option<&mut T> {
        self.places.get_mut(usize::from(number))?.as_mut()
    }

    /// The value at `number`, which must be in use.
    pub(crate) fn at(&mut self, number: u16) -> &mut T {
        self.find(number).unwrap_or_else(|| panic!("slot {number} is empty"))
    }

    /// Empties slot `number`, which must be in use.
    pub(crate) fn remove(&mut self, number: u16) -> T {
        let value =
            self.places[usize::from(number)].take().unwrap_or_else(|| panic!("slot {number} is empty"));
        self.free.push(number);
        value
    }

    /// All values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().flatten()
    }

    /// Removes all values.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
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
