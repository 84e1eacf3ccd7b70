//! Names for the things that a reactor watches, and the table behind them.
//!
//! A slot of the table outlives its token: after `close` the kernel may still use the slot's memory, so the slot is *retired*
//! (its token is stale from this moment) and *removed* only when the last operation has come back.
//!
//!   insert --> live --retire--> retired --remove--> free --insert--> live with the next generation
//!
//! Holds: a stale token never reaches the slot's next tenant (`a_stale_token_finds_nothing`).

/// Names a listener, socket, file or channel of one reactor, from the call that made it until `close`.
///
/// Tokens of two reactors may be equal. A token that was closed stays invalid for ever: its slot may be used again, but under
/// another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token {
    index: u32,
    generation: u32,
}

impl Token {
    pub(crate) fn index(self) -> u32 {
        self.index
    }

    /// The token as a number for the kernel to give back.
    pub(crate) fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    pub(crate) fn from_bits(bits: u64) -> Token {
        Token { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// A table of values that are found by token, or by bare index once retired.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Slab<T> {
        Slab { slots: Vec::new(), free: Vec::new() }
    }

    /// Values in the table, retired ones included.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Puts in the value that `make` builds from its own token.
    pub(crate) fn insert(&mut self, make: impl FnOnce(Token) -> T) -> Token {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, value: None });
            u32::try_from(self.slots.len() - 1).expect("more slots than a token can name")
        });
        let slot = &mut self.slots[index as usize];
        let token = Token { index, generation: slot.generation };
        slot.value = Some(make(token));
        token
    }

    /// The value of a live token.
    pub(crate) fn get(&mut self, token: Token) -> Option<&mut T> {
        self.slots
            .get_mut(token.index as usize)
            .filter(|slot| slot.generation == token.generation)
            .and_then(|slot| slot.value.as_mut())
    }

    /// The value in a slot, whether its token still lives or not.
    pub(crate) fn at(&mut self, index: u32) -> Option<&mut T> {
        self.slots.get_mut(index as usize).and_then(|slot| slot.value.as_mut())
    }

    /// Makes a live token stale; the value stays until [`Slab::remove`].
    pub(crate) fn retire(&mut self, token: Token) -> Option<&mut T> {
        let slot =
            self.slots.get_mut(token.index as usize).filter(|slot| slot.generation == token.generation)?;
        slot.value.as_ref()?;
        slot.generation = slot.generation.wrapping_add(1);
        slot.value.as_mut()
    }

    /// Takes the value out and frees the slot for another.
    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let slot = self.slots.get_mut(index as usize)?;
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_token_finds_nothing() {
        let mut slab = Slab::new();
        let first = slab.insert(|_| "first");
        assert_eq!(slab.retire(first), Some(&mut "first"));
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.at(first.index()), Some(&mut "first"), "a retired value stays until removed");
        assert_eq!(slab.remove(first.index()), Some("first"));
        let second = slab.insert(|_| "second");
        assert_eq!(second.index(), first.index(), "the slot is used again");
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.retire(first), None);
        assert_eq!(slab.get(second), Some(&mut "second"));
        assert_eq!(slab.len(), 1);
        assert_eq!(Token::from_bits(second.to_bits()), second);
    }
}
