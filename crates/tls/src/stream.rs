//! One end of a connection.

use crate::spares::Spares;
use crate::wire::Wire;
use auth::hello::Psk;
use auth::{Hash, Secret};
use s2n_tls::config::Config;
use s2n_tls::connection::{Builder as _, Connection};
use s2n_tls::enums::{Blinding, Mode, PskHmac, Version};
use s2n_tls::error::Error;
use s2n_tls::security::DEFAULT_TLS13;
use std::fmt;
use std::sync::OnceLock;
use std::task::Poll;

/// Updates of keys that the other end may make in a minute, of the first 254.
pub const KEY_UPDATES_MAX: u8 = 16;
/// Length of a minute, in nanoseconds.
const MINUTE: u64 = 60_000_000_000;
/// The library counts no further.
const COUNTED_MAX: u8 = u8::MAX;
/// Bytes of plaintext in a record, at most.
pub const RECORD: usize = 16 << 10;

/// Why a connection cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The handshake failed.
    #[error("the TLS handshake failed: {0}")]
    Handshake(String),
    /// It ended with another version, cipher suite or kind of key than the one that is due.
    #[error("the TLS handshake ended with {0}, which is not allowed")]
    Unwanted(String),
    /// A record could not be read or written.
    #[error("a TLS record is broken: {0}")]
    Record(String),
    /// The other end updates its keys too often.
    #[error("the other end updates its TLS keys more than {KEY_UPDATES_MAX} times a minute")]
    KeyUpdates,
}

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The number of bytes in the place.
    Bytes(usize),
    /// Nothing until more arrives.
    Nothing,
    /// The other end has closed its side in order.
    Closed,
}

/// See the crate.
pub struct Stream {
    /// Before the wire, as it has a pointer to it.
    connection: Connection,
    wire: Wire,
    hash: Hash,
    is_up: bool,
    /// Plaintext that is not in a record yet.
    plain: Vec<u8>,
    /// When the current minute of key updates began, in nanoseconds, and how many there were before it.
    minute: (u64, u8),
    /// Updates of keys by the other end up to the last read, as the library counts them.
    key_updates: u8,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("hash", &self.hash).field("is_up", &self.is_up).finish_non_exhaustive()
    }
}

impl Stream {
    /// The end of a target, with the key that the ClientHello of the host proves.
    ///
    /// # Errors
    /// The library has no memory for it.
    pub fn server(psk: &Psk) -> Result<Stream, Broken> {
        Stream::new(Mode::Server, psk.hash, std::slice::from_ref(psk)).map_err(failed)
    }

    /// The end of a host, which offers these identities in this order.
    ///
    /// # Errors
    /// The library has no memory for it.
    ///
    /// # Panics
    /// Without any key.
    pub fn client(psks: &[Psk]) -> Result<Stream, Broken> {
        let hash = psks.first().expect("a host offers at least one key").hash;
        let mut stream = Stream::new(Mode::Client, hash, psks).map_err(failed)?;
        // The ClientHello.
        stream.negotiate()?;
        Ok(stream)
    }

    fn new(mode: Mode, hash: Hash, psks: &[Psk]) -> Result<Stream, Error> {
        let mut connection = config()?.build_connection(mode)?;
        connection.set_blinding(Blinding::SelfService)?.prefer_throughput()?;
        for psk in psks {
            let hmac = if psk.hash == Hash::Sha256 { PskHmac::SHA256 } else { PskHmac::SHA384 };
            let mut key = s2n_tls::psk::Psk::builder()?;
            key.set_identity(&psk.identity)?.set_secret(psk.secret.expose())?.set_hmac(hmac)?;
            connection.append_psk(&key.build()?)?;
        }
        let wire = Wire::default();
        wire.attach(&mut connection)?;
        Ok(Stream { connection, wire, hash, is_up: false, plain: Vec::new(), minute: (0, 0), key_updates: 0 })
    }

    /// Takes bytes that have arrived, and keeps a copy of them.
    pub fn on_bytes(&mut self, bytes: &[u8]) {
        self.wire.lend(bytes, || {});
    }

    /// The way in for bytes that are read at once, without a copy.
    pub fn inlet(&self) -> Inlet {
        Inlet(self.wire.clone())
    }

    /// Number of bytes that have arrived and were not read.
    pub fn waiting(&self) -> usize {
        self.wire.lock().waiting() + self.connection.peek_len()
    }

    /// Whether the handshake is done.
    pub fn is_up(&self) -> bool {
        self.is_up
    }

    /// Goes on with the handshake. Returns whether it is done.
    ///
    /// # Errors
    /// It failed, or ended with something that is not allowed.
    pub fn negotiate(&mut self) -> Result<bool, Broken> {
        if self.is_up {
            return Ok(true);
        }
        match self.connection.poll_negotiate() {
            Poll::Pending => return Ok(false),
            Poll::Ready(result) => drop(result.map_err(failed)?),
        }
        self.end_of_handshake()?;
        self.is_up = true;
        Ok(true)
    }

    /// Checks what the handshake has agreed on: the library is told no less, and an update of it must not change that.
    fn end_of_handshake(&self) -> Result<(), Broken> {
        let version = self.connection.actual_protocol_version().map_err(failed)?;
        let suite = self.connection.cipher_suite().map_err(failed)?;
        let key = self.connection.negotiated_psk_identity_length().map_err(failed)?;
        let due = match self.hash {
            Hash::Sha384 => "TLS_AES_256_GCM_SHA384",
            Hash::Sha256 | Hash::Sha512 => "TLS_AES_128_GCM_SHA256",
        };
        if version != Version::TLS13 || suite != due || key == 0 {
            let key = if key == 0 { ", without a pre-shared key" } else { "" };
            return Err(Broken::Unwanted(format!("{version:?}, {suite}{key}")));
        }
        Ok(())
    }

    /// Reads plaintext. `now`: nanoseconds of a clock that does not go back.
    ///
    /// # Errors
    /// A record is broken, or the keys are updated too often.
    pub fn read(&mut self, now: u64, place: &mut [u8]) -> Result<Read, Broken> {
        let read = match self.connection.poll_recv(place) {
            Poll::Pending => Read::Nothing,
            Poll::Ready(Ok(0)) if !place.is_empty() => Read::Closed,
            Poll::Ready(Ok(count)) => Read::Bytes(count),
            Poll::Ready(Err(error)) => return Err(Broken::Record(error.to_string())),
        };
        self.check_key_updates(now)?;
        Ok(read)
    }

    /// The library updates its own keys after some 2^24 records, and counts up to 255 updates in the life of a connection. So updates are
    /// not bounded after that many: a connection may live for weeks.
    fn check_key_updates(&mut self, now: u64) -> Result<(), Broken> {
        if now >= self.minute.0 + MINUTE {
            self.minute = (now, self.key_updates);
        }
        self.key_updates = self.connection.key_update_counts().map_err(failed)?.recv_key_updates;
        match self.key_updates < COUNTED_MAX && self.key_updates - self.minute.1 > KEY_UPDATES_MAX {
            true => Err(Broken::KeyUpdates),
            false => Ok(()),
        }
    }

    /// Writes plaintext. It is in a record when a record is full, and after [`Stream::seal`].
    ///
    /// # Errors
    /// The connection has failed before.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), Broken> {
        while !bytes.is_empty() {
            if self.plain.is_empty() && bytes.len() >= RECORD {
                let (whole, rest) = bytes.split_at(bytes.len() / RECORD * RECORD);
                self.send(whole)?;
                bytes = rest;
            } else {
                let room = RECORD - self.plain.len();
                let (part, rest) = bytes.split_at(room.min(bytes.len()));
                self.plain.extend_from_slice(part);
                bytes = rest;
                if self.plain.len() == RECORD {
                    self.seal()?;
                }
            }
        }
        Ok(())
    }

    /// Puts what was written into records.
    ///
    /// # Errors
    /// The connection has failed before.
    pub fn seal(&mut self) -> Result<(), Broken> {
        let plain = std::mem::take(&mut self.plain);
        let result = self.send(&plain);
        self.plain = plain;
        self.plain.clear();
        result
    }

    fn send(&mut self, mut bytes: &[u8]) -> Result<(), Broken> {
        while !bytes.is_empty() {
            match self.connection.poll_send(bytes) {
                Poll::Ready(Ok(count)) => bytes = &bytes[count..],
                Poll::Ready(Err(error)) => return Err(Broken::Record(error.to_string())),
                Poll::Pending => unreachable!("the wire takes everything"),
            }
        }
        Ok(())
    }

    /// Says in order that nothing more comes from this end.
    pub fn close(&mut self) {
        if self.is_up {
            // Nothing can be done about a connection that has failed: it is closed anyway.
            let _ = self.connection.poll_shutdown_send();
        }
    }

    /// Number of bytes that wait to be sent.
    pub fn to_send(&self) -> usize {
        self.wire.lock().outbound.len()
    }

    /// Gives memory for the records to be sent, unless there is some already.
    pub fn make_room(&mut self, spares: &mut Spares) {
        let outbound = &mut self.wire.lock().outbound;
        if outbound.capacity() == 0 {
            *outbound = spares.take();
        }
    }

    /// Takes the records to be sent.
    pub fn take_outbound(&mut self, to: impl FnOnce(&mut Vec<u8>)) {
        to(&mut self.wire.lock().outbound);
    }
}

/// Where bytes that have arrived go in.
#[derive(Debug)]
pub struct Inlet(Wire);

impl Inlet {
    /// As [`Stream::on_bytes`]; but only what is not read by the end of `during` is copied.
    pub fn pass<T>(&self, bytes: &[u8], during: impl FnOnce() -> T) -> T {
        self.0.lend(bytes, during)
    }
}

/// Sets the library up, which takes a tenth of a second once in a process: it reads the certificates of the system, although none is used,
/// and collects randomness. Call it before the first connection, on a thread that no host waits for.
///
/// # Errors
/// The library has no memory for it.
pub fn prepare() -> Result<(), Broken> {
    // The library refuses a key of zeroes.
    let nobody = Psk { identity: vec![1], secret: Secret::new(vec![1; 32]), hash: Hash::Sha256 };
    Stream::client(&[nobody]).map(drop)
}

/// The configuration of the library, one for all connections: their keys are their own.
fn config() -> Result<Config, Error> {
    static CONFIG: OnceLock<Config> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(config.clone());
    }
    let mut builder = Config::builder();
    builder.set_security_policy(&DEFAULT_TLS13)?.with_system_certs(false)?;
    let config = builder.build()?;
    Ok(CONFIG.get_or_init(|| config).clone())
}

fn failed(error: Error) -> Broken {
    Broken::Handshake(error.message().to_owned())
}

#[cfg(test)]
impl Stream {
    /// Updates the key of this end before the next record.
    pub(crate) fn update_keys(&mut self) {
        let request = s2n_tls::enums::PeerKeyUpdate::KeyUpdateNotRequested;
        self.connection.request_key_update(request).expect("it is up");
    }
}
