//! A fuzzer's bytes, taken as choices. When they run out, every choice is the first one, so that any input is valid.

use arbitrary::Unstructured;

/// What is left of an input.
#[derive(Debug)]
pub(crate) struct Input<'a> {
    unstructured: Unstructured<'a>,
}

impl<'a> Input<'a> {
    /// All of `bytes`.
    pub(crate) fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { unstructured: Unstructured::new(bytes) }
    }

    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.unstructured.is_empty()
    }

    /// Any byte.
    pub(crate) fn byte(&mut self) -> u8 {
        self.unstructured.arbitrary().unwrap_or_default()
    }

    /// Any 16 bits.
    pub(crate) fn half(&mut self) -> u16 {
        self.unstructured.arbitrary().unwrap_or_default()
    }

    /// Any 32 bits.
    pub(crate) fn word(&mut self) -> u32 {
        self.unstructured.arbitrary().unwrap_or_default()
    }

    /// Any 64 bits.
    pub(crate) fn long(&mut self) -> u64 {
        self.unstructured.arbitrary().unwrap_or_default()
    }

    /// True or false.
    pub(crate) fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// True for one byte in `n`.
    pub(crate) fn one_in(&mut self, n: u8) -> bool {
        self.byte() % n == n - 1
    }

    /// Less than `bound`, which is not 0. Takes as few bytes as can say it.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        match bound {
            0..=0x100 => u32::from(self.byte()) % bound,
            0x101..=0x1_0000 => u32::from(self.half()) % bound,
            _ => self.word() % bound,
        }
    }

    /// One of `choices`.
    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u32) as usize]
    }

    /// `count` bytes, the last ones zero if there are not as many.
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        let there = count.min(self.unstructured.len());
        bytes[..there].copy_from_slice(self.unstructured.bytes(there).expect("as many are left"));
        bytes
    }

    /// All that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        self.unstructured.bytes(self.unstructured.len()).expect("as many are left")
    }
}
