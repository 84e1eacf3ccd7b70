//! A reactor under test, on either backend, that fails instead of hanging.
#![allow(dead_code, unreachable_pub)] // Each test file uses its part.

use reactor::{Backend, BufferPool, Clock, Event, Options, Reactor, SendBatch, Token, bind};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use units::{Bytes, Nanos};

/// Long enough for the slowest machine; reached only when something is lost.
const PATIENCE: Nanos = Nanos::secs(60);

/// Declares the given functions as tests, once for each backend. Where the kernel allows no io_uring, its half passes unseen.
#[macro_export]
macro_rules! on_both_backends {
    ($($name:ident),* $(,)?) => {
        mod io_uring {
            $(#[test] fn $name() {
                match reactor::Reactor::new(reactor::Backend::IoUring) {
                    Ok(_) => super::$name(reactor::Backend::IoUring),
                    Err(error) => eprintln!("skipped: no io_uring here: {error}"),
                }
            })*
        }
        mod epoll {
            $(#[test] fn $name() { super::$name(reactor::Backend::Epoll) })*
        }
    };
}

/// A reactor and a pool for the data that it sends.
pub struct Side {
    pub reactor: Reactor,
    pub pool: BufferPool,
}

impl Side {
    pub fn new(backend: Backend) -> Side {
        Side::with_options(backend, &Options::default())
    }

    pub fn with_options(backend: Backend, options: &Options) -> Side {
        let reactor = Reactor::with_options(backend, options).expect("a reactor");
        Side { reactor, pool: BufferPool::new(Bytes::mib(64)) }
    }

    /// The next event, which must come.
    pub fn event(&mut self) -> Event {
        let give_up = Clock.now() + PATIENCE;
        loop {
            if let Some(event) = self.reactor.next_event() {
                return event;
            }
            assert!(Clock.now() < give_up, "no event in {PATIENCE}");
            self.reactor.wait(Some(give_up)).expect("waits");
        }
    }

    /// Lets the reactor work until `done`, without taking events.
    pub fn work_until(&mut self, mut done: impl FnMut(&mut Side) -> bool) {
        let give_up = Clock.now() + PATIENCE;
        while !done(self) {
            assert!(Clock.now() < give_up, "not done in {PATIENCE}");
            self.reactor.flush().expect("flushes");
        }
    }

    /// A socket of the reactor and its other end, a plain blocking one.
    pub fn pair(&mut self) -> (Token, TcpStream) {
        let (near, far) = tcp_pair();
        (self.reactor.add_socket(near).expect("added"), far)
    }

    /// A listener of the reactor.
    pub fn listen(&mut self) -> (Token, SocketAddr) {
        let listener = local_listener();
        let address = listener.local_addr().expect("bound");
        (self.reactor.listen(listener).expect("listens"), address)
    }

    /// A batch of one header and one buffer, both filled from `bytes`.
    pub fn batch(&mut self, bytes: &[u8]) -> SendBatch {
        let mut batch = SendBatch::new();
        let (header, payload) = bytes.split_at(bytes.len().min(24));
        batch.push_bytes(header);
        let mut buffer = self.pool.take(payload.len()).expect("the pool has room");
        buffer.copy_from_slice(payload);
        batch.push_buffer(buffer, 0..payload.len());
        batch
    }

    /// Takes events until `count` bytes of `token` have come; nothing else may.
    pub fn receive(&mut self, token: Token, count: usize) -> Vec<u8> {
        let mut received = Vec::new();
        while received.len() < count {
            match self.event() {
                Event::Received { token: from, bytes } if from == token => received.extend_from_slice(&bytes),
                other => panic!("{} of {count} bytes, then {other:?}", received.len()),
            }
        }
        received
    }

    /// Makes the reactor look at everything that has happened: a byte goes round through a fresh connection, `rounds` times.
    /// Events of other tokens are handed to `other`.
    pub fn fence(&mut self, rounds: usize, mut other: impl FnMut(Event)) {
        let (token, mut far) = self.pair();
        for _ in 0..rounds {
            far.write_all(b"f").expect("room for a byte");
            loop {
                match self.event() {
                    Event::Received { token: from, .. } if from == token => break,
                    event => other(event),
                }
            }
        }
        self.reactor.close(token);
    }
}

pub fn local_listener() -> TcpListener {
    bind(([127, 0, 0, 1], 0).into()).expect("a port of the kernel's choice")
}

pub fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = local_listener();
    let far = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
    (listener.accept().expect("accepts").0, far)
}

/// Bytes that differ from their neighbours and from other seeds' bytes.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(|_| step()).collect()
}

pub fn read_exactly(stream: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).expect("the bytes come");
    bytes
}
