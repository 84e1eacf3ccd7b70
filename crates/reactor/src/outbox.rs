//! A batch on its way out of one socket: the rest that the kernel still has to take.
//!
//! The kernel may take part of a message; the outbox remembers how far it came and describes the rest. Both backends hand
//! [`Outbox::message`] to `sendmsg` and report back with [`Outbox::advance`] until nothing is left.
//!
//! Holds: the memory that `message` describes stays put and unchanged until the batch is taken out (`take`), which a driver
//!        does only when the kernel no longer uses it.

use crate::SendBatch;
use std::mem;
use std::ptr;

/// The most stretches of memory that one `sendmsg` takes.
const PIECES_PER_MESSAGE: usize = libc::UIO_MAXIOV as usize;

/// Zero or one batch in flight, with the `msghdr` that describes the rest of it.
pub(crate) struct Outbox {
    batch: Option<SendBatch>,
    /// The first piece that is not sent whole, and how many of its bytes are.
    piece: usize,
    piece_sent: usize,
    left: usize,
    iovecs: Vec<libc::iovec>,
    /// On the heap, as the kernel may read it after this value has been moved.
    message: Box<libc::msghdr>,
}

impl Outbox {
    pub(crate) fn new() -> Outbox {
        // SAFETY: all-zero is a valid msghdr: null pointers with zero lengths.
        let message = unsafe { mem::zeroed() };
        Outbox {
            batch: None,
            piece: 0,
            piece_sent: 0,
            left: 0,
            iovecs: Vec::new(),
            message: Box::new(message),
        }
    }

    /// Whether a batch is in flight.
    pub(crate) fn is_busy(&self) -> bool {
        self.batch.is_some()
    }

    /// Takes in the next batch.
    pub(crate) fn load(&mut self, batch: SendBatch) {
        assert!(self.batch.is_none(), "one batch per socket");
        (self.piece, self.piece_sent, self.left) = (0, 0, batch.len());
        self.batch = Some(batch);
    }

    /// Bytes that the kernel has not taken yet.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Describes the rest of the batch, as much of it as one call can take. The pointer and all it leads to stay valid until
    /// the next `message`, `load` or `take`.
    pub(crate) fn message(&mut self) -> *const libc::msghdr {
        let batch = self.batch.as_ref().expect("a message needs a batch");
        self.iovecs.clear();
        let mut skip = self.piece_sent;
        for piece in batch.pieces_from(self.piece).iter().take(PIECES_PER_MESSAGE) {
            let start = batch.start_of(piece).wrapping_add(skip).cast_mut().cast();
            self.iovecs.push(libc::iovec { iov_base: start, iov_len: piece.len() - skip });
            skip = 0;
        }
        self.message.msg_iov = self.iovecs.as_mut_ptr();
        self.message.msg_iovlen = self.iovecs.len() as _;
        ptr::from_ref(&*self.message)
    }

    /// Notes that the kernel took `count` more bytes.
    pub(crate) fn advance(&mut self, count: usize) {
        assert!(count <= self.left, "the kernel took {count} bytes of {}", self.left);
        let batch = self.batch.as_ref().expect("only a batch can advance");
        self.left -= count;
        if self.left == 0 {
            // Nearly always, so the pieces are not walked.
            (self.piece, self.piece_sent) = (batch.pieces(), 0);
            return;
        }
        self.piece_sent += count;
        while let Some(piece) = batch.piece(self.piece)
            && self.piece_sent >= piece.len()
        {
            self.piece_sent -= piece.len();
            self.piece += 1;
        }
    }

    /// Gives the batch back, sent or not. The kernel must no longer use it.
    pub(crate) fn take(&mut self) -> Option<SendBatch> {
        self.batch.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes that the kernel takes at a time, and pairs of pieces, more than one message takes. Miri has no hours to lay out a full
    /// message for every byte.
    const PORTIONS: &[usize] = if cfg!(miri) { &[5000] } else { &[1, 2, 3, 7, 64, 5000, 100_000] };
    const PAIRS: u32 = if cfg!(miri) { 550 } else { 1500 };

    /// The bytes that the present message describes, at most `limit` of them.
    fn gather(outbox: &mut Outbox, limit: usize) -> Vec<u8> {
        let message = outbox.message();
        let mut bytes = Vec::new();
        // SAFETY: `message` was just made and the batch is not touched meanwhile.
        unsafe {
            for index in 0..(*message).msg_iovlen {
                let iovec = *(*message).msg_iov.add(index);
                bytes.extend_from_slice(std::slice::from_raw_parts(
                    iovec.iov_base.cast::<u8>(),
                    iovec.iov_len,
                ));
            }
        }
        bytes.truncate(limit);
        bytes
    }

    #[test]
    fn a_batch_taken_in_any_portions_is_the_same_bytes() {
        let mut pool = crate::BufferPool::new(units::Bytes::mib(16));
        for &portion in PORTIONS {
            let mut batch = SendBatch::new();
            let mut expected = Vec::new();
            for index in 0..PAIRS {
                let mut buffer = pool.take(10).expect("the pool has room for all pages");
                buffer.fill(index as u8);
                expected.extend_from_slice(&index.to_le_bytes());
                expected.extend_from_slice(&buffer[2..9]);
                batch.push_bytes(&index.to_le_bytes());
                batch.push_buffer(buffer, 2..9);
            }
            let mut outbox = Outbox::new();
            outbox.load(batch);
            let mut sent = Vec::new();
            while outbox.left() > 0 {
                let taken = gather(&mut outbox, portion);
                outbox.advance(taken.len());
                sent.extend(taken);
            }
            assert!(sent == expected, "portions of {portion}");
            drop(outbox.take());
        }
    }
}
