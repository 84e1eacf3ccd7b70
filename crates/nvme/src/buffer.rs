//! Memory for payloads: who owns it, where it comes from, where it goes.
//!
//! A connection neither allocates payload memory nor writes to a socket. It asks a `BufferSource` for a
//! buffer when data is about to arrive and passes the filled buffer up with the command. It moves reply
//! buffers into an `Outgoing`, from which a socket can gather. A received payload is copied once, from the
//! receive buffer into its own buffer, or not at all: its rest can be received where it belongs
//! (`TargetConnection::place`). A sent payload is not copied.
//!
//!   receive buffer --copy--> Buffer (from BufferSource) --move--> the layer above --move--> Outgoing --gather--> socket
//!
//! A buffer has one of two uses. One for in-capsule data is needed when the whole command is already on its
//! way. One for a transfer is needed before the peer is asked to send (R2T). A source without memory may
//! refuse either. The first refusal stops the parsing of this connection; the second delays only that
//! command. A complete command returns its buffer without needing another one, so a refusal cannot cause a
//! deadlock.

use core::ops::Range;

/// Memory for the data of one command.
pub trait Buffer {
    /// The bytes held. May be longer than the length that was requested.
    fn bytes(&self) -> &[u8];
    /// The same bytes, to be filled.
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

/// The purpose of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferUse {
    /// Data inside a command capsule. If refused, the connection stops parsing until the next call.
    InCapsule,
    /// Data to request with R2T, or to read from the host. If refused, only this command waits; the connection continues.
    Transfer,
}

/// Where buffers for arriving data come from.
pub trait BufferSource {
    /// The type of buffer that this source returns.
    type Buffer: Buffer;

    /// A buffer of at least `length` bytes (never 0), or `None` when there is none now.
    fn take(&mut self, length: usize, purpose: BufferUse) -> Option<Self::Buffer>;
}

/// Zeroes to send as padding after the last byte of a reply.
pub(crate) static ZEROES: [u8; 4096] = [0; 4096];

/// Collects outgoing PDUs in the order in which they go to the socket.
pub trait Outgoing<B> {
    /// Appends bytes that are copied: PDU headers, padding, digests.
    fn header(&mut self, bytes: &[u8]);

    /// Appends `range` of a buffer. The buffer moves here and may be reused once it is sent.
    fn payload(&mut self, buffer: B, range: Range<usize>);

    /// Appends `range` of a buffer that the connection still needs, because the peer requests the transfer in
    /// pieces. Copies, unless the implementation knows a cheaper way.
    fn payload_piece(&mut self, buffer: &B, range: Range<usize>)
    where
        B: Buffer,
    {
        self.header(&buffer.bytes()[range]);
    }

    /// Appends `count` zeroes. They need no buffer.
    fn zeroes(&mut self, count: usize) {
        for from in (0..count).step_by(ZEROES.len()) {
            self.header(&ZEROES[..ZEROES.len().min(count - from)]);
        }
    }

    /// Whether there is room for one more PDU.
    fn room(&self) -> bool;
}

/// Copies everything into one byte vector: for callers that send little.
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
