//! TLS on one connection: records to plaintext and back, between a socket and the NVMe/TCP state of its connection.
//!
//! Plaintext of a batch is collected, so that small PDUs share a record. The buffers of data that was read stay in the batch until it is
//! sent: so what is charged for them is also what the records hold.
//!
//! Elsewhere: the connection is `connection`, the handshake's first message `acceptor::securing`.

use crate::account::Permit;
use crate::payload::Payload;
use nvme::buffer::{Buffer, Outgoing};
use reactor::SendBatch;
use std::ops::Range;
use tls::{Broken, Stream};

/// Bytes of records in one batch, above which it is sent.
const BATCH_BYTES_MAX: usize = 256 << 10;
/// Buffers in one batch.
const BATCH_BUFFERS_MAX: usize = 256;
/// Zeroes that are written at a time.
static ZEROES: [u8; tls::RECORD] = [0; tls::RECORD];

/// See the module.
#[derive(Debug)]
pub(super) struct Secured {
    pub(super) stream: Stream,
    /// Whether nothing can be sent any more.
    pub(super) is_broken: bool,
}

impl Secured {
    pub(super) fn new(stream: Stream) -> Secured {
        Secured { stream, is_broken: false }
    }

    /// Whether records wait to be sent.
    pub(super) fn has_to_send(&self) -> bool {
        !self.is_broken && self.stream.to_send() > 0
    }

    /// Keeps the result of the library: after an error nothing can be sent.
    pub(super) fn keep<T>(&mut self, result: Result<T, Broken>) -> Result<T, Broken> {
        self.is_broken |= result.is_err();
        result
    }
}

/// The batch that a connection with TLS writes its PDUs into.
pub(super) struct Sealing<'a> {
    pub(super) secured: &'a mut Secured,
    pub(super) batch: &'a mut SendBatch,
    pub(super) permits: &'a mut Vec<Permit>,
}

impl Sealing<'_> {
    fn write(&mut self, bytes: &[u8]) {
        if !self.secured.is_broken {
            let result = self.secured.stream.write(bytes);
            // The connection is closed for the error that the reading side has met before.
            drop(self.secured.keep(result));
        }
    }

    /// Moves all records into the batch.
    pub(super) fn finish(self) {
        if !self.secured.is_broken {
            let result = self.secured.stream.seal();
            drop(self.secured.keep(result));
        }
        let batch = self.batch;
        self.secured.stream.take_outbound(|records| batch.push_vec(records));
    }
}

impl Outgoing<Payload> for Sealing<'_> {
    fn header(&mut self, bytes: &[u8]) {
        self.write(bytes);
    }

    fn payload(&mut self, buffer: Payload, range: Range<usize>) {
        self.write(&buffer.bytes()[range]);
        let (buffer, permit) = buffer.into_parts();
        if let Some(buffer) = buffer {
            self.batch.push_buffer(buffer, 0..0);
        }
        self.permits.extend(permit);
    }

    fn zeroes(&mut self, mut count: usize) {
        while count > 0 {
            let part = count.min(ZEROES.len());
            self.write(&ZEROES[..part]);
            count -= part;
        }
    }

    fn room(&self) -> bool {
        self.secured.stream.to_send() < BATCH_BYTES_MAX && self.batch.buffers() < BATCH_BUFFERS_MAX
    }
}
