//! A slab: reusable numbered slots, for values that events refer to by number.

/// Values of type `T` with small numbers. A number is reused after its value was removed.
pub(crate) struct Slab<T> {
    values: Vec<T>,
    free: Vec<u32>,
}

impl<T: Copy> Slab<T> {
    pub(crate) fn new() -> Slab<T> {
        Slab { values: Vec::new(), free: Vec::new() }
    }

    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.values[number as usize] = value;
                number
            }
            None => {
                self.values.push(value);
                (self.values.len() - 1) as u32
            }
        }
    }

    /// Removes the value; its number may be reused.
    #[inline]
    pub(crate) fn remove(&mut self, number: u32) -> T {
        self.free.push(number);
        self.values[number as usize]
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> &T {
        &self.values[number as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> &mut T {
        &mut self.values[number as usize]
    }
}
