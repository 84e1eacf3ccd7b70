//! One connection's queue pair, with its completion queue: work in, completions out.
//!
//! ```text
//!   post_receive(data)            --> Received { header, data }         64 bytes, and more of the message in the buffer
//!   read(tag, buffer, from)       --> Read { tag, buffer }
//!   answer(data, message)         --> Sent { buffer }                   WRITE data · WRITE zeros · SEND, one call of the driver
//!   send_capsule(tag, header, …)  --> Sent { tag, buffer }
//!                                  or Failed { what, tag, buffer }      each piece of work has one of these ends
//! ```
//!
//! A buffer belongs to the queue from the moment it is posted until it comes out of `poll`, or until the queue is dropped. What the
//! send queue and the receives have no room for is refused before the device sees it.
//!
//! Holds: the device uses no memory that safe code can reach at that time (buffers are moved in; headers are the queue's own);
//!        every posted buffer comes back, with an error or without (`examples/rdma_loop.rs`).
//! Elsewhere: what a message means, and how many READs may be in flight, is the caller's to know.

use super::abi::{self, QpCap, ReceiveWr, SendWr, Sge, Wc};
use super::domain::{Domain, DomainCore, RegisteredPages, RemoteMemory, ZEROES};
use super::identifier::{CmNumber, Id};
use super::pair::Pair;
use super::sends::{Flight, Flights, Part};
use crate::buffer::IoBuffer;
use std::fmt;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr;
use std::sync::Arc;

/// Bytes of a message that are the queue's own memory: the command of a capsule.
const HEADER: usize = 64;
/// Bytes of an answer's message.
const MESSAGE: usize = 16;
/// Pieces of memory in a WRITE, if the device takes as many.
const PIECES_MAX: u32 = 8;
/// Completions taken by one call of the driver.
const COMPLETIONS: usize = 32;
/// The longest message or transfer of a reliable connection.
const LENGTH_MAX: usize = 1 << 31;

/// The sizes of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// Receives that can be posted.
    pub receives: u32,
    /// Entries of the send queue: see [`Queue::cost`].
    pub sends: u32,
    /// Capsules that can be in flight by [`Queue::send_capsule`]; zero for a target.
    pub capsules: u32,
}

/// Data that goes with an answer to the other end's memory.
#[derive(Debug)]
pub struct AnswerData {
    /// Where it is.
    pub buffer: IoBuffer,
    /// Bytes of the buffer that are written.
    pub held: usize,
    /// Bytes that are written in all: zeros follow those of the buffer.
    pub length: usize,
    /// Where it goes.
    pub to: RemoteMemory,
}

/// A request that was not posted, with the buffer that it would have owned.
#[derive(Debug)]
pub struct NotPosted {
    /// Why: [`io::ErrorKind::WouldBlock`] if there is no room, until work has completed.
    pub error: io::Error,
    /// The buffer, if there was one and the device has not seen it.
    pub buffer: Option<IoBuffer>,
}

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A receive.
    Receive,
    /// A READ of the other end's memory.
    Read,
    /// A WRITE to the other end's memory, before an answer: the answer's own completion follows.
    Write,
    /// An answer.
    Answer,
    /// A capsule.
    Capsule,
}

/// The end of a piece of work.
#[derive(Debug)]
pub enum QueueDone {
    /// A message has come.
    Received {
        /// Its first bytes; zeros after its end.
        header: [u8; 64],
        /// Bytes of the whole message. Those beyond the header are at the beginning of `data`.
        length: u32,
        /// The buffer that was posted, if one was.
        data: Option<IoBuffer>,
        /// The key of this end's memory that the message has made invalid.
        invalidated: Option<u32>,
    },
    /// A READ has filled its buffer.
    Read {
        /// The caller's own name for it.
        tag: u32,
        /// The buffer.
        buffer: IoBuffer,
    },
    /// An answer or a capsule is sent, and received.
    Sent {
        /// The caller's own name for a capsule.
        tag: Option<u32>,
        /// The buffer of the data that went with it.
        buffer: Option<IoBuffer>,
    },
    /// Work has failed, and with it the connection: all that is out fails too.
    Failed {
        /// Its kind.
        what: Work,
        /// The caller's own name for it.
        tag: Option<u32>,
        /// The status (`ibv_wc_status`): 5 says only that the connection has ended.
        status: u32,
        /// The status in words.
        reason: &'static str,
        /// The buffer, its contents unspecified.
        buffer: Option<IoBuffer>,
    },
}

impl QueueDone {
    /// Whether it failed only because the connection had ended, by itself or after another failure.
    pub fn is_flushed(&self) -> bool {
        matches!(self, QueueDone::Failed { status, .. } if *status == abi::WC_FLUSHED as u32)
    }
}

/// A connection's queue. See the module's head; it may move between threads.
pub struct Queue {
    pair: Pair,
    domain: Arc<DomainCore>,
    /// The headers of receives, then those of capsules.
    headers: Option<RegisteredPages>,
    header_start: *mut u8,
    header_key: u32,
    receives: Receives,
    flights: Flights,
    options: QueueOptions,
    pieces_max: usize,
    /// Whether a chain was posted in part: then its end is not known until the queue pair is destroyed.
    is_broken: bool,
    /// Scratch space of `answer`.
    requests: Vec<SendWr>,
    pieces: Vec<Sge>,
}

// SAFETY: its pointers lead to memory of its own, and the device's structs may be used by any one thread at a time.
unsafe impl Send for Queue {}

/// The receives that are posted, each with its buffer.
struct Receives {
    posted: Vec<Option<IoBuffer>>,
    free: Vec<u32>,
}

impl Queue {
    /// The identifier comes back if it fails.
    pub(super) fn open(id: Id, domain: &Domain, options: &QueueOptions) -> Result<Queue, (io::Error, Id)> {
        let (core, options) = (domain.core(), *options);
        let count = options.receives as usize + options.capsules as usize;
        if options.receives == 0 || options.sends == 0 {
            let what = format!("a queue without room: {options:?}");
            return Err((io::Error::new(io::ErrorKind::InvalidInput, what), id));
        }
        let headers = match core.pages(count * HEADER) {
            Ok(headers) => headers,
            Err(error) => return Err((error, id)),
        };
        let pieces_max = core.limits().pieces.clamp(1, PIECES_MAX);
        let cap = QpCap {
            max_send_wr: options.sends,
            max_recv_wr: options.receives,
            max_send_sge: pieces_max.max(2),
            max_recv_sge: 2,
            max_inline_data: MESSAGE as u32,
        };
        let pair = Pair::new(id, core, cap)?;
        Ok(Queue {
            pair,
            domain: Arc::clone(core),
            header_start: headers.start().as_ptr(),
            header_key: headers.keys().local,
            headers: Some(headers),
            receives: Receives {
                posted: (0..options.receives).map(|_| None).collect(),
                free: (0..options.receives).rev().collect(),
            },
            flights: Flights::new(options.sends, options.capsules),
            options,
            pieces_max: pieces_max as usize,
            is_broken: false,
            requests: Vec::new(),
            pieces: Vec::new(),
        })
    }

    /// The number that events of its connection name.
    pub fn number(&self) -> CmNumber {
        self.pair.number()
    }

    /// The other end's address.
    pub fn peer(&self) -> SocketAddr {
        self.pair.id().destination()
    }

    /// This end's address.
    pub fn local(&self) -> SocketAddr {
        self.pair.id().source()
    }

    /// Its sizes.
    pub fn options(&self) -> &QueueOptions {
        &self.options
    }

    /// Accepts the connection: `initiator_depth` READs of this end may be in flight, at most the request's and the device's.
    /// [`CmEvent::Established`](super::CmEvent::Established) follows, and may come after the first messages.
    ///
    /// # Errors
    /// The host has given up, or it is not a connection of a request.
    pub fn accept(&mut self, private_data: &[u8], initiator_depth: u8) -> io::Result<()> {
        self.pair.accept(private_data, initiator_depth)
    }

    /// Connects: the other end may have `responder_resources` READs in flight, at most the device's.
    /// [`CmEvent::Accepted`](super::CmEvent::Accepted) or [`CmEvent::Rejected`](super::CmEvent::Rejected) follows.
    ///
    /// # Errors
    /// It is not a connection that begins here, or there is too much private data (56 bytes are allowed).
    pub fn connect(&mut self, private_data: &[u8], responder_resources: u8) -> io::Result<()> {
        self.pair.connect(private_data, responder_resources)
    }

    /// Ends the connection. Work that is out fails as flushed, and comes out of `poll` with its buffers.
    pub fn disconnect(&mut self) {
        self.pair.disconnect();
    }

    /// Receives that can be posted now.
    pub fn receives_free(&self) -> usize {
        self.receives.free.len()
    }

    /// Entries of the send queue that are free now: none after an error of the device.
    pub fn room(&self) -> usize {
        if self.is_broken { 0 } else { self.flights.room() }
    }

    /// Capsules that could be sent now.
    pub fn capsules_free(&self) -> usize {
        self.flights.headers().min(self.room())
    }

    /// Entries of the send queue that an answer takes with `held` bytes of data and zeros up to `length`. A READ and a capsule take one.
    pub fn cost(&self, held: usize, length: usize) -> usize {
        let pieces = usize::from(held > 0) + length.saturating_sub(held).div_ceil(ZEROES);
        pieces.div_ceil(self.pieces_max) + 1
    }

    /// Posts a receive of a message: its header, and the rest of it into `data`, up to the buffer's length. A message that is longer
    /// than both ends the connection.
    ///
    /// # Errors
    /// There is no room, or the buffer could not be registered.
    pub fn post_receive(&mut self, mut data: Option<IoBuffer>) -> Result<(), NotPosted> {
        let Some(&slot) = self.receives.free.last() else {
            return Err(NotPosted { error: no_room(), buffer: data });
        };
        let mut pieces = [self.header(slot), Sge::default()];
        let mut count = 1;
        if let Some(buffer) = data.as_mut().filter(|buffer| !buffer.is_empty()) {
            match self.piece(buffer, buffer.len()) {
                Ok(piece) => pieces[1] = piece,
                Err(error) => return Err(NotPosted { error, buffer: data }),
            }
            count = 2;
        }
        let mut request = ReceiveWr {
            wr_id: Part::Receive.name(slot),
            next: ptr::null_mut(),
            sg_list: pieces.as_mut_ptr(),
            num_sge: count,
        };
        // SAFETY: the request and its pieces live during the call. The header is the queue's own and free; the buffer is moved into the
        // slot. Both stay until the receive's completion or the end of the queue pair.
        if let Err(error) = unsafe { self.pair.post_receive(&mut request) } {
            return Err(NotPosted { error, buffer: data });
        }
        self.receives.free.pop();
        self.receives.posted[slot as usize] = data;
        Ok(())
    }

    /// READs `length` bytes of the other end's memory into the beginning of a buffer.
    ///
    /// # Errors
    /// There is no room, the length is zero or more than the buffer's, or the buffer could not be registered.
    pub fn read(
        &mut self,
        tag: u32,
        mut buffer: IoBuffer,
        length: usize,
        from: RemoteMemory,
    ) -> Result<(), NotPosted> {
        let mut piece = match self.room_for(1).and_then(|()| self.piece(&mut buffer, length)) {
            Ok(piece) => piece,
            Err(error) => return Err(NotPosted { error, buffer: Some(buffer) }),
        };
        let request = SendWr {
            sg_list: &raw mut piece,
            num_sge: 1,
            opcode: abi::OP_RDMA_READ,
            send_flags: abi::SEND_SIGNALED,
            remote_addr: from.address,
            rkey: from.key,
            ..SendWr::EMPTY
        };
        // SAFETY: the piece lives during the call and is in the buffer, which the flight owns.
        unsafe { self.launch(request, Flight::Read { tag, buffer }) }
    }

    /// Sends a capsule: a header, and the first bytes of a buffer after it.
    ///
    /// # Errors
    /// There is no room, the length is more than the buffer's, or the buffer could not be registered.
    pub fn send_capsule(
        &mut self,
        tag: u32,
        header: &[u8; 64],
        data: Option<(IoBuffer, usize)>,
    ) -> Result<(), NotPosted> {
        let (mut buffer, length) = match data {
            Some((buffer, length)) => (Some(buffer), length),
            None => (None, 0),
        };
        let mut pieces = [Sge::default(); 2];
        let mut count = 1;
        if let Err(error) = self.room_for(1) {
            return Err(NotPosted { error, buffer });
        }
        if let Some(data) = buffer.as_mut().filter(|_| length > 0) {
            match self.piece(data, length) {
                Ok(piece) => pieces[1] = piece,
                Err(error) => return Err(NotPosted { error, buffer }),
            }
            count = 2;
        }
        let Some(place) = self.flights.take_header() else {
            return Err(NotPosted { error: no_room(), buffer });
        };
        let at = self.options.receives + place;
        pieces[0] = self.header(at);
        // SAFETY: the place is within the queue's own pages, and free: no work names it.
        unsafe { ptr::copy_nonoverlapping(header.as_ptr(), self.header_at(at), HEADER) };
        let request = SendWr {
            sg_list: pieces.as_mut_ptr(),
            num_sge: count,
            opcode: abi::OP_SEND,
            send_flags: abi::SEND_SIGNALED,
            ..SendWr::EMPTY
        };
        // SAFETY: the pieces live during the call; the header's place and the buffer are the flight's.
        unsafe { self.launch(request, Flight::Capsule { tag, header: place, buffer }) }
    }

    /// Answers: WRITEs the data, if there is any, and then sends the message, which makes the other end's key `invalidate` invalid. The
    /// other end sees all of the data before the message.
    ///
    /// # Errors
    /// There is no room for its `cost`, more is held than the buffer or the length, or the buffer could not be registered.
    pub fn answer(
        &mut self,
        data: Option<AnswerData>,
        message: &[u8; 16],
        invalidate: Option<u32>,
    ) -> Result<(), NotPosted> {
        let (mut buffer, held, length, to) = match data {
            Some(AnswerData { buffer, held, length, to }) => (Some(buffer), held, length, to),
            None => (None, 0, 0, RemoteMemory { address: 0, key: 0 }),
        };
        let entries = self.cost(held, length);
        let mut pieces = mem::take(&mut self.pieces);
        let gathered =
            self.room_for(entries).and_then(|()| self.gather(buffer.as_mut(), held, length, &mut pieces));
        if let Err(error) = gathered {
            self.pieces = pieces;
            return Err(NotPosted { error, buffer });
        }
        let slot = self.flights.next().expect("there is room for a flight");
        let mut requests = mem::take(&mut self.requests);
        let mut address = to.address;
        for pieces in pieces.chunks_mut(self.pieces_max) {
            requests.push(SendWr {
                wr_id: Part::Write.name(slot),
                sg_list: pieces.as_mut_ptr(),
                num_sge: pieces.len() as i32,
                opcode: abi::OP_RDMA_WRITE,
                remote_addr: address,
                rkey: to.key,
                ..SendWr::EMPTY
            });
            let written: u64 = pieces.iter().map(|piece| u64::from(piece.length)).sum();
            address = address.wrapping_add(written);
        }
        let mut sent = Sge { addr: message.as_ptr().addr() as u64, length: MESSAGE as u32, lkey: 0 };
        requests.push(SendWr {
            wr_id: Part::Last.name(slot),
            sg_list: &raw mut sent,
            num_sge: 1,
            opcode: if invalidate.is_some() { abi::OP_SEND_WITH_INVALIDATE } else { abi::OP_SEND },
            send_flags: abi::SEND_SIGNALED | abi::SEND_INLINE,
            invalidate_rkey: invalidate.unwrap_or(0),
            ..SendWr::EMPTY
        });
        let start = requests.as_mut_ptr();
        for (index, request) in requests.iter_mut().enumerate().rev().skip(1) {
            request.next = start.wrapping_add(index + 1);
        }
        // SAFETY: requests and pieces live during the call. The pieces are in the buffer, which the flight owns, and in the domain's zeros;
        // the message is inline, so the device copies it in the call.
        let result = unsafe { self.post(&mut requests, Flight::Answer { buffer }) };
        requests.clear();
        pieces.clear();
        (self.requests, self.pieces) = (requests, pieces);
        result
    }

    /// The pieces of memory that an answer's data is in.
    fn gather(
        &self,
        buffer: Option<&mut IoBuffer>,
        held: usize,
        length: usize,
        pieces: &mut Vec<Sge>,
    ) -> io::Result<()> {
        if held > length || length > LENGTH_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{held} bytes of {length}")));
        }
        if let Some(buffer) = buffer.filter(|_| held > 0) {
            pieces.push(self.piece(buffer, held)?);
        }
        let (zeroes, lkey) = self.domain.zeroes();
        let mut left = length - held;
        while left > 0 {
            let length = left.min(ZEROES);
            pieces.push(Sge { addr: zeroes, length: length as u32, lkey });
            left -= length;
        }
        Ok(())
    }

    /// The first bytes of a buffer, registered.
    fn piece(&self, buffer: &mut IoBuffer, length: usize) -> io::Result<Sge> {
        if length == 0 || length > buffer.len() || length > LENGTH_MAX {
            let what = format!("{length} bytes of a buffer of {}", buffer.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let keys = buffer.register(&self.domain)?;
        Ok(Sge { addr: buffer.start().addr() as u64, length: length as u32, lkey: keys.local })
    }

    fn header_at(&self, slot: u32) -> *mut u8 {
        debug_assert!(slot < self.options.receives + self.options.capsules);
        self.header_start.wrapping_add(slot as usize * HEADER)
    }

    fn header(&self, slot: u32) -> Sge {
        Sge { addr: self.header_at(slot).addr() as u64, length: HEADER as u32, lkey: self.header_key }
    }

    fn room_for(&self, entries: usize) -> io::Result<()> {
        if self.is_broken {
            return Err(io::Error::new(
                io::ErrorKind::BrokenPipe,
                "the RDMA device has refused work of this queue",
            ));
        }
        if entries > self.flights.room() { Err(no_room()) } else { Ok(()) }
    }

    /// Posts a flight of one request.
    ///
    /// # Safety
    /// As for `post`.
    unsafe fn launch(&mut self, mut request: SendWr, flight: Flight) -> Result<(), NotPosted> {
        request.wr_id = Part::Last.name(self.flights.next().expect("there is room for a flight"));
        // SAFETY: the caller's.
        unsafe { self.post(std::slice::from_mut(&mut request), flight) }
    }

    /// Posts a flight, which gets the slot that `Flights::next` names.
    ///
    /// # Safety
    /// The requests are a chain, with pieces of memory that live during the call. What the pieces name is the flight's or the domain's, or
    /// it is inline.
    unsafe fn post(&mut self, requests: &mut [SendWr], flight: Flight) -> Result<(), NotPosted> {
        let slot = self.flights.next().expect("there is room for a flight");
        self.flights.put(flight, requests.len());
        // SAFETY: the flight stays in its slot until the completion of the chain's last request, or until the queue pair is destroyed.
        let Err((error, posted)) = (unsafe { self.pair.post_sends(requests) }) else { return Ok(()) };
        if posted > 0 {
            self.is_broken = true;
            return Err(NotPosted { error, buffer: None });
        }
        let buffer = self.flights.take(slot).and_then(|flight| match flight {
            Flight::Read { buffer, .. } => Some(buffer),
            Flight::Answer { buffer } | Flight::Capsule { buffer, .. } => buffer,
        });
        Err(NotPosted { error, buffer })
    }

    /// Takes all completions, in the order in which the work ended.
    ///
    /// # Errors
    /// The device is broken, or was removed.
    pub fn poll(&mut self, done: &mut Vec<QueueDone>) -> io::Result<()> {
        let mut completions = [Wc::default(); COMPLETIONS];
        loop {
            let count = self.pair.poll(&mut completions)?;
            for completion in &completions[..count] {
                done.extend(self.on_completion(completion));
            }
            if count < COMPLETIONS {
                return Ok(());
            }
        }
    }

    fn on_completion(&mut self, completion: &Wc) -> Option<QueueDone> {
        let (part, slot) = Part::of(completion.wr_id)?;
        if completion.status != abi::WC_SUCCESS {
            return self.on_failure(part, slot, completion.status);
        }
        match part {
            Part::Receive => {
                let data = self.take_receive(slot);
                let mut header = [0; HEADER];
                // SAFETY: the slot's header is within the queue's own pages, and its receive has ended: nobody writes to it.
                unsafe { ptr::copy_nonoverlapping(self.header_at(slot), header.as_mut_ptr(), HEADER) };
                let length = completion.byte_len;
                if let Some(rest) = header.get_mut(length as usize..) {
                    // Bytes of an earlier message.
                    rest.fill(0);
                }
                let is_invalidation = completion.wc_flags & abi::WC_WITH_INVALIDATE != 0;
                let invalidated = is_invalidation.then_some(completion.invalidated_rkey);
                Some(QueueDone::Received { header, length, data, invalidated })
            }
            Part::Write => None,
            Part::Last => Some(match self.flights.take(slot)? {
                Flight::Read { tag, buffer } => QueueDone::Read { tag, buffer },
                Flight::Answer { buffer } => QueueDone::Sent { tag: None, buffer },
                Flight::Capsule { tag, buffer, .. } => QueueDone::Sent { tag: Some(tag), buffer },
            }),
        }
    }

    fn on_failure(&mut self, part: Part, slot: u32, status: i32) -> Option<QueueDone> {
        let (what, tag, buffer) = match part {
            Part::Receive => (Work::Receive, None, self.take_receive(slot)),
            // The buffer stays until the answer's own completion.
            Part::Write => (Work::Write, None, None),
            Part::Last => match self.flights.take(slot)? {
                Flight::Read { tag, buffer } => (Work::Read, Some(tag), Some(buffer)),
                Flight::Answer { buffer } => (Work::Answer, None, buffer),
                Flight::Capsule { tag, buffer, .. } => (Work::Capsule, Some(tag), buffer),
            },
        };
        let reason = self.domain.rdma().status_text(status);
        Some(QueueDone::Failed { what, tag, status: status as u32, reason, buffer })
    }

    fn take_receive(&mut self, slot: u32) -> Option<IoBuffer> {
        self.receives.free.push(slot);
        self.receives.posted[slot as usize].take()
    }

    /// Asks for the descriptor to become readable with the next completion, and takes notices that have come. Then `poll` until there is
    /// nothing: completions from before this call do not make it readable.
    ///
    /// # Errors
    /// The device is broken, or was removed.
    pub fn arm(&mut self) -> io::Result<()> {
        self.pair.arm()
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor of the completion channel stays open as long as the queue.
        unsafe { BorrowedFd::borrow_raw(self.pair.fd()) }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if !self.pair.destroy() {
            // The device may still use any of this, so it must never be freed.
            mem::forget(self.headers.take());
            mem::forget(mem::take(&mut self.receives.posted));
            mem::forget(mem::replace(&mut self.flights, Flights::new(0, 0)));
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Queue { options, receives, .. } = self;
        let (number, free, room) = (self.number().0, receives.free.len(), self.room());
        write!(
            f,
            "Queue({number}, {free} of {} receives free, room for {room} of {})",
            options.receives, options.sends
        )
    }
}

fn no_room() -> io::Error {
    io::Error::from(io::ErrorKind::WouldBlock)
}
