//! TLS on the socket of a connection.

use crate::connection::{BATCH_BYTES, Batch};
use auth::hello::Psk;
use reactor::SendBatch;
use tls::{Broken, Inlet, RECORD, Read, Spares, Stream};
use units::Instant;

/// See the module.
#[derive(Debug)]
pub(crate) struct Secured {
    stream: Stream,
    /// The error that ended it.
    broken: Option<Broken>,
}

impl Secured {
    /// Begins TLS with one of these keys, if there are any.
    pub(crate) fn begin(psks: Option<Vec<Psk>>) -> Result<Option<Box<Secured>>, Broken> {
        let Some(psks) = psks else { return Ok(None) };
        let stream = Stream::client(&psks)?;
        Ok(Some(Box::new(Secured { stream, broken: None })))
    }

    /// The way in for records.
    pub(crate) fn inlet(&self) -> Inlet {
        self.stream.inlet()
    }

    /// Goes on with the handshake. Returns whether it has just been done.
    pub(crate) fn negotiate(&mut self) -> Result<bool, Broken> {
        let was_up = self.stream.is_up();
        Ok(self.stream.negotiate()? && !was_up)
    }

    /// Reads plaintext; `None` until more arrives.
    pub(crate) fn read<'p>(
        &mut self,
        now: Instant,
        plain: &'p mut Vec<u8>,
    ) -> Result<Option<&'p [u8]>, Broken> {
        plain.resize(RECORD, 0);
        match self.stream.is_up().then(|| self.stream.read(now.0, plain)).transpose()? {
            Some(Read::Bytes(count)) => Ok(Some(&plain[..count])),
            Some(Read::Nothing | Read::Closed) | None => Ok(None),
        }
    }

    /// Gives memory for the next records.
    pub(crate) fn make_room(&mut self, spares: &mut Spares) {
        self.stream.make_room(spares);
    }

    /// Moves all records into `batch`.
    pub(crate) fn seal(&mut self, batch: &mut SendBatch) -> Result<(), Broken> {
        if let Some(broken) = self.broken.take() {
            return Err(broken);
        }
        if self.stream.is_up() {
            self.stream.seal()?;
        }
        self.stream.take_outbound(|records| batch.push_vec(records));
        Ok(())
    }
}

/// Plaintext; an error is kept for [`Secured::seal`].
impl Batch for Secured {
    fn push(&mut self, bytes: &[u8]) {
        if self.broken.is_none() {
            self.broken = self.stream.write(bytes).err();
        }
    }

    fn has_room(&self) -> bool {
        self.broken.is_none() && self.stream.to_send() < BATCH_BYTES
    }
}
