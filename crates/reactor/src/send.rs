//! The data that goes out on a socket in one go: small bytes copied, payload moved.

use crate::IoBuffer;
use std::ops::Range;

/// One stretch of the batch.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    /// A range of the batch's own bytes.
    Bytes(Range<usize>),
    /// A range of one of the batch's buffers.
    Buffer {
        /// Which buffer.
        index: usize,
        /// Which of its bytes.
        range: Range<usize>,
    },
    /// This many zeroes, at most the length of `ZEROES`.
    Zeroes(usize),
}

/// The source of zeroes: no batch holds any.
static ZEROES: [u8; 64 << 10] = [0; 64 << 10];

/// Upper bound for the capacity that an emptied batch keeps for its own bytes.
const BYTES_KEPT: usize = 16 << 10;

impl Piece {
    pub(crate) fn len(&self) -> usize {
        match self {
            Piece::Bytes(range) | Piece::Buffer { range, .. } => range.len(),
            Piece::Zeroes(count) => *count,
        }
    }
}

/// Bytes and buffers to send in order, gathered by the kernel without a copy in user space.
///
/// [`Event::Sent`](crate::Event::Sent) gives the batch back: take the buffers out with [`SendBatch::drain_buffers`], clear it
/// and fill it again; a batch in steady use does not allocate.
#[derive(Debug, Default)]
pub struct SendBatch {
    bytes: Vec<u8>,
    buffers: Vec<IoBuffer>,
    pieces: Vec<Piece>,
    length: usize,
}

impl SendBatch {
    /// An empty batch.
    pub fn new() -> SendBatch {
        SendBatch::default()
    }

    /// Appends a copy of `bytes`: headers and digests.
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.length += bytes.len();
        match self.pieces.last_mut() {
            Some(Piece::Bytes(range)) => range.end = self.bytes.len(),
            _ if bytes.is_empty() => {}
            _ => self.pieces.push(Piece::Bytes(start..self.bytes.len())),
        }
    }

    /// Appends `bytes`, and leaves it empty: without a copy if the batch has no bytes of its own yet.
    pub fn push_vec(&mut self, bytes: &mut Vec<u8>) {
        if self.bytes.is_empty() && !bytes.is_empty() {
            std::mem::swap(&mut self.bytes, bytes);
            self.length += self.bytes.len();
            self.pieces.push(Piece::Bytes(0..self.bytes.len()));
        } else {
            self.push_bytes(bytes);
        }
        bytes.clear();
    }

    /// Appends `range` of `buffer` by moving the buffer in.
    ///
    /// # Panics
    /// If the buffer has no such range.
    #[inline]
    pub fn push_buffer(&mut self, buffer: IoBuffer, range: Range<usize>) {
        assert!(
            range.start <= range.end && range.end <= buffer.len(),
            "bytes {range:?} of a buffer of {} bytes",
            buffer.len()
        );
        self.length += range.len();
        if !range.is_empty() {
            self.pieces.push(Piece::Buffer { index: self.buffers.len(), range });
        }
        self.buffers.push(buffer);
    }

    /// Appends `count` zeroes, which take no memory.
    pub fn push_zeroes(&mut self, count: usize) {
        self.length += count;
        let whole = std::iter::repeat_n(ZEROES.len(), count / ZEROES.len());
        let rest = Some(count % ZEROES.len()).filter(|rest| *rest > 0);
        self.pieces.extend(whole.chain(rest).map(Piece::Zeroes));
    }

    /// Bytes to send.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Separate stretches of memory: the kernel takes 1024 per system call.
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Number of buffers that it holds.
    pub fn buffers(&self) -> usize {
        self.buffers.len()
    }

    /// Takes the memory of the batch's own bytes, emptied, for the next [`SendBatch::push_vec`]. For a batch that was sent: its bytes are gone.
    pub fn take_vec(&mut self) -> Vec<u8> {
        self.pieces.clear();
        self.length = 0;
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        bytes
    }

    /// Empties the batch and hands out the buffers that it held, in the order in which they were pushed.
    pub fn drain_buffers(&mut self) -> impl Iterator<Item = IoBuffer> + '_ {
        self.bytes.clear();
        self.bytes.shrink_to(BYTES_KEPT);
        self.pieces.clear();
        self.length = 0;
        self.buffers.drain(..)
    }

    /// Empties the batch; its buffers go home to their pools.
    pub fn clear(&mut self) {
        drop(self.drain_buffers());
    }

    pub(crate) fn piece(&self, index: usize) -> Option<&Piece> {
        self.pieces.get(index)
    }

    /// The pieces from this one on.
    #[inline]
    pub(crate) fn pieces_from(&self, first: usize) -> &[Piece] {
        self.pieces.get(first..).unwrap_or_default()
    }

    /// Where a piece begins in memory. Valid until the batch is changed; moving the batch does not move the bytes.
    #[inline]
    pub(crate) fn start_of(&self, piece: &Piece) -> *const u8 {
        match piece {
            Piece::Bytes(range) => self.bytes[range.clone()].as_ptr(),
            Piece::Buffer { index, range } => self.buffers[*index][range.clone()].as_ptr(),
            Piece::Zeroes(_) => ZEROES.as_ptr(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BufferPool;
    use units::Bytes;

    #[test]
    fn headers_that_follow_each_other_are_one_piece() {
        let mut pool = BufferPool::new(Bytes::kib(8));
        let mut batch = SendBatch::new();
        batch.push_bytes(b"");
        batch.push_bytes(b"he");
        batch.push_bytes(b"ad");
        batch.push_buffer(pool.take(4096).expect("the pool is empty"), 10..20);
        batch.push_buffer(pool.take(10).expect("one page is left"), 3..3);
        batch.push_bytes(b"tail");
        assert_eq!((batch.len(), batch.pieces()), (18, 3));
        assert_eq!(batch.drain_buffers().map(|buffer| buffer.len()).collect::<Vec<_>>(), [4096, 10]);
        assert_eq!((batch.len(), batch.pieces()), (0, 0));
    }

    #[test]
    fn a_vector_is_taken_without_a_copy_into_an_empty_batch() {
        let (mut batch, mut bytes) = (SendBatch::new(), Vec::with_capacity(32));
        bytes.extend_from_slice(b"first");
        let place = bytes.as_ptr();
        batch.push_vec(&mut bytes);
        assert_eq!((batch.bytes.as_ptr(), bytes.len()), (place, 0));
        bytes.extend_from_slice(b" second");
        batch.push_vec(&mut bytes);
        batch.push_vec(&mut Vec::new());
        assert_eq!((batch.len(), batch.pieces(), &batch.bytes[..]), (12, 1, &b"first second"[..]));
        let vector = batch.take_vec();
        assert_eq!((vector.as_ptr(), vector.len(), batch.len(), batch.pieces()), (place, 0, 0, 0));
    }

    #[test]
    fn zeroes_take_no_memory_and_bytes_little_once_sent() {
        let mut batch = SendBatch::new();
        batch.push_zeroes(0);
        batch.push_zeroes(1 << 20);
        batch.push_zeroes(5);
        assert_eq!((batch.len(), batch.pieces(), batch.bytes.capacity()), ((1 << 20) + 5, 17, 0));
        let lengths: usize = batch.pieces.iter().map(Piece::len).sum();
        assert_eq!(lengths, batch.len());
        batch.push_bytes(&[1; 1 << 20]);
        batch.clear();
        assert!(batch.bytes.capacity() <= BYTES_KEPT);
    }

    #[test]
    #[should_panic(expected = "bytes 0..11 of a buffer of 10 bytes")]
    fn a_range_outside_the_buffer_is_a_bug() {
        let buffer = BufferPool::new(Bytes::kib(4)).take(10).expect("the pool is empty");
        SendBatch::new().push_buffer(buffer, 0..11);
    }
}
