//! Reusable numbered places, for what events refer to by number.

/// Values of type `T` under small numbers; a number is used again after its value was removed.
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

    /// Takes the value out; its number may be used again from now on.
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
