//! Memory for payloads: who owns it, where it comes from, how it leaves.
//!
//! A connection neither allocates payload memory nor writes to a socket. It asks a `BufferSource` when data is about to
//! arrive, moves the filled buffer upwards with the command, and moves reply buffers into an `Outgoing` that a socket can
//! gather from. A payload is copied once, from the receive buffer into its own; on the way out it is not copied at all.
//!
//!   receive buffer --copy--> Buffer (from BufferSource) --move--> the layer above --move--> Outgoing --gather--> socket
//!
//! Why two uses: a buffer for in-capsule data is wanted only when the whole command is already on the way, while a buffer
//! for a solicited transfer is wanted before the peer is asked to send. A source that has run dry may refuse either: the
//! first stops the parse, the second only delays that command. Commands that are complete give their buffers back without
//! needing another one, so a refusal never leads to a deadlock.

use core::ops::Range;

/// Memory that holds one command's data.
pub trait Buffer {
    /// The bytes held. At least as many as were asked of the source.
    fn bytes(&self) -> &[u8];
    /// The bytes held, for filling.
    fn bytes_mut(&mut self) -> &mut [u8];
}

impl Buffer for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
}

/// What a buffer is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferUse {
    /// Data inside a command capsule: a refusal stops the parse of this connection until the next call.
    InCapsule,
    /// Data to be asked for with R2T: a refusal parks the command, the connection goes on.
    Transfer,
}

/// Where buffers for arriving data come from.
pub trait BufferSource {
    /// The memory handed out.
    type Buffer: Buffer;

    /// A buffer of at least `length` bytes (never 0), or `None` when there is none now.
    fn take(&mut self, length: usize, purpose: BufferUse) -> Option<Self::Buffer>;
}

/// Zeroes to be sent: whatever a reply has behind its last byte.
pub(crate) static ZEROES: [u8; 4096] = [0; 4096];

/// Where outgoing PDUs are laid, in the order in which they go to the socket.
pub trait Outgoing<B> {
    /// Appends bytes that are copied: PDU headers, padding, digests.
    fn header(&mut self, bytes: &[u8]);

    /// Appends `range` of a buffer, which moves here and may be reused once it was sent.
    fn payload(&mut self, buffer: B, range: Range<usize>);

    /// Appends `range` of a buffer that the connection still needs (a transfer the peer asks for in pieces). Copies, unless
    /// the implementation knows a cheaper way.
    fn payload_piece(&mut self, buffer: &B, range: Range<usize>)
    where
        B: Buffer,
    {
        self.header(&buffer.bytes()[range]);
    }

    /// Appends `count` zeroes, which nobody holds.
    fn zeroes(&mut self, count: usize) {
        for from in (0..count).step_by(ZEROES.len()) {
            self.header(&ZEROES[..ZEROES.len().min(count - from)]);
        }
    }

    /// Whether one more PDU may be laid.
    fn room(&self) -> bool;
}

/// All of it end to end, copied: for whoever sends little.
impl Outgoing<Vec<u8>> for Vec<u8> {
    fn header(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn payload(&mut self, buffer: Vec<u8>, range: Range<usize>) {
        self.extend_from_slice(&buffer[range]);
    }

    fn room(&self) -> bool {
        true
    }
}
