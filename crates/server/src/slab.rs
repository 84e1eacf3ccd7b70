//! A table of values with generational keys.
//!
//! A key is the index of a slot and the slot's generation. A completion for a connection that has ended finds nothing, even if the slot
//! holds another value by then. Slots are reused, so a table in steady use does not allocate.
//!
//! A number that a key was made of has its highest two bits clear, however often a slot was reused: devices mark their own operations there.
//!
//! Holds: a stale key finds nothing (`a_stale_key_finds_nothing`); the highest bits of a key stay clear (`the_highest_bits_of_a_key_stay_clear`).

/// Number of generations of a slot before its keys repeat: 18 minutes, at a million a second. No unused key is kept that long.
const LIVES: u32 = 1 << 30;

/// Names a value of one [`Slab`], as a single number: generation above, index below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key(u64);

impl Key {
    /// The key as a number that protocols hand back.
    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }

    /// The key that [`Key::to_bits`] made a number of.
    pub(crate) fn from_bits(bits: u64) -> Key {
        Key(bits)
    }

    /// The key of life `generation` of slot `index`.
    pub(crate) fn new(index: u32, generation: u32) -> Key {
        Key(u64::from(generation) << 32 | u64::from(index))
    }

    /// The slot.
    pub(crate) fn index(self) -> usize {
        self.0 as u32 as usize
    }

    /// Which life of the slot.
    pub(crate) fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// Values under keys.
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    /// An empty table.
    pub(crate) fn new() -> Slab<T> {
        Slab { slots: Vec::new(), free: Vec::new() }
    }

    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Puts a value in.
    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> Key {
        self.insert_with(|_| value)
    }

    /// Inserts the value that `make` makes of its key. It is built in place, if the compiler can do that.
    // Otherwise all that `make` needs is copied once more on its way.
    #[inline(always)]
    pub(crate) fn insert_with(&mut self, make: impl FnOnce(Key) -> T) -> Key {
        let index = self.free.pop().unwrap_or_else(|| self.grow());
        let slot = &mut self.slots[index as usize];
        let key = Key::new(index, slot.generation);
        // The slot is free: said so that the compiler has no old value to drop.
        if slot.value.is_none() {
            slot.value = Some(make(key));
        }
        key
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        self.slots.push(Slot { generation: 0, value: None });
        u32::try_from(self.slots.len() - 1).expect("more values than a key can name")
    }

    /// The value under `key`, if it is still there.
    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        #[cfg(test)]
        steps::count(1);
        self.slots.get(key.index()).filter(|slot| slot.generation == key.generation())?.value.as_ref()
    }

    /// The value under `key`, if it is still there.
    #[inline]
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        #[cfg(test)]
        steps::count(1);
        self.slots.get_mut(key.index()).filter(|slot| slot.generation == key.generation())?.value.as_mut()
    }

    /// Takes the value under `key` out.
    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.index()).filter(|slot| slot.generation == key.generation())?;
        let value = slot.value.take()?;
        slot.generation = (slot.generation + 1) % LIVES;
        self.free.push(key.index() as u32);
        Some(value)
    }

    /// Drops the value under `key` where it is.
    #[inline]
    pub(crate) fn free(&mut self, key: Key) {
        if let Some(slot) = self.slots.get_mut(key.index()).filter(|slot| slot.generation == key.generation())
            && slot.value.is_some()
        {
            slot.value = None;
            slot.generation = (slot.generation + 1) % LIVES;
            self.free.push(key.index() as u32);
        }
    }

    /// Every value, to be changed.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        #[cfg(test)]
        steps::count(self.slots.len() as u64);
        self.slots.iter_mut().filter_map(|slot| slot.value.as_mut())
    }

    /// Every value with its key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        #[cfg(test)]
        steps::count(self.slots.len() as u64);
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(index, slot)| Some((Key::new(index as u32, slot.generation), slot.value.as_ref()?)))
    }
}

/// Number of table entries visited on this thread, which tests compare instead of times.
#[cfg(test)]
pub(crate) mod steps {
    use std::cell::Cell;

    thread_local!(static STEPS: Cell<u64> = const { Cell::new(0) });

    pub(crate) fn count(steps: u64) {
        STEPS.set(STEPS.get() + steps);
    }

    pub(crate) fn so_far() -> u64 {
        STEPS.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_key_finds_nothing() {
        let mut slab = Slab::new();
        let first = slab.insert("first");
        assert_eq!(slab.remove(first), Some("first"));
        let second = slab.insert("second");
        assert_ne!(first, second);
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.get_mut(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(Key::from_bits(second.to_bits())), Some(&"second"));
        assert_eq!((slab.len(), slab.iter().count()), (1, 1));
    }

    #[test]
    fn the_highest_bits_of_a_key_stay_clear() {
        let mut slab = Slab::new();
        let key = slab.insert(());
        slab.remove(key);
        slab.slots[0].generation = LIVES - 1;
        for remove in [|slab: &mut Slab<()>, key| _ = slab.remove(key), Slab::free] {
            let last = slab.insert(());
            assert!(last.to_bits() >> 62 == 0 && slab.get(last).is_some(), "{last:?}");
            remove(&mut slab, last);
            assert_eq!(slab.get(last), None);
            assert_eq!(slab.slots[0].generation, 0, "the lives begin again");
            slab.slots[0].generation = LIVES - 1;
        }
    }
}
