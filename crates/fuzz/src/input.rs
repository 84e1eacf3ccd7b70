//! The bytes of a fuzzer, used as choices. When they run out, every further choice is the first one, so that
//! every input is valid.

use arbitrary::Unstructured;

/// The remaining bytes of an input.
#[derive(Debug)]
pub(crate) struct Input<'a> {
    unstructured: Unstructured<'a>,
}

impl<'a> Input<'a> {
    /// Starts with all of `bytes`.
    pub(crate) fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { unstructured: Unstructured::new(bytes) }
    }

    /// Whether no bytes are left.
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

    /// A number less than `bound`, which must not be 0. Uses as few bytes as possible.
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

    /// `count` bytes; missing ones are zero.
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        let there = count.min(self.unstructured.len());
        bytes[..there].copy_from_slice(self.unstructured.bytes(there).expect("no more than are left"));
        bytes
    }

    /// All remaining bytes.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        self.unstructured.bytes(self.unstructured.len()).expect("no more than are left")
    }
}
