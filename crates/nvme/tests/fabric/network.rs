//! A reliable connection of two queue pairs, in memory, and the host's memory that the target's end reaches.

use nvme::rdma::Remote;
use rand::Rng;
use std::collections::{HashMap, VecDeque};

/// A work request of the send queue.
#[derive(Debug)]
pub(crate) enum Request<B> {
    /// A message; `buffer` is held until its end. `cost`: entries of the send queue that are free then.
    Send { bytes: Vec<u8>, invalidate: Option<u32>, tag: Option<u16>, _buffer: Option<B>, cost: usize },
    /// Bytes into the peer's memory. Has no end of its own.
    Write { bytes: Vec<u8>, to: Remote },
    /// Bytes from the peer's memory; `bytes` once they were read.
    Read { tag: u16, buffer: B, length: u32, from: Remote, bytes: Vec<u8> },
}

/// The end of a work request.
#[derive(Debug)]
pub(crate) enum Done<B> {
    Received(Vec<u8>),
    Sent(Option<u16>),
    Read { tag: u16, buffer: B, bytes: Vec<u8> },
}

/// Error that ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// A message is longer than the receive that it meets.
    TooLong,
    /// The host's memory refuses an access.
    RemoteAccess,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Posted,
    Reading,
    Ended,
}

/// One end.
#[derive(Debug)]
pub(crate) struct End<B> {
    sends: VecDeque<(Request<B>, State)>,
    /// Entries of the send queue that are taken.
    taken: usize,
    capacity: usize,
    /// Bytes that each receive has room for.
    receives: VecDeque<usize>,
    pub(crate) done: VecDeque<Done<B>>,
    reads_max: usize,
}

impl<B> End<B> {
    pub(crate) fn new(capacity: usize, reads_max: usize) -> End<B> {
        End {
            sends: VecDeque::new(),
            taken: 0,
            capacity,
            receives: VecDeque::new(),
            done: VecDeque::new(),
            reads_max,
        }
    }

    /// Entries of the send queue that are free.
    pub(crate) fn room(&self) -> usize {
        self.capacity - self.taken
    }

    /// Posts to the send queue.
    pub(crate) fn post(&mut self, requests: impl IntoIterator<Item = Request<B>>) {
        for request in requests {
            self.taken += 1;
            assert!(self.taken <= self.capacity, "the send queue has {} entries", self.capacity);
            self.sends.push_back((request, State::Posted));
        }
        let reads = self
            .sends
            .iter()
            .filter(|(request, state)| matches!(request, Request::Read { .. }) && *state != State::Ended);
        let reads = reads.count();
        assert!(reads <= self.reads_max, "{reads} reads in flight stop the queue at {}", self.reads_max);
    }

    pub(crate) fn post_receive(&mut self, bytes: usize) {
        self.receives.push_back(bytes);
    }

    /// Receives that are posted.
    pub(crate) fn receives(&self) -> usize {
        self.receives.len()
    }

    /// Executes the next request of the send queue, if there is one that can be executed now. Returns whether there was.
    pub(crate) fn execute(&mut self, peer: &mut End<B>, memory: &mut Memory) -> Result<bool, Broken> {
        let Some((request, state)) = self.sends.iter_mut().find(|(_, state)| *state == State::Posted) else {
            return Ok(false);
        };
        match request {
            Request::Read { .. } => *state = State::Reading,
            Request::Write { bytes, to } => {
                memory.write(*to, bytes)?;
                *state = State::Ended;
            }
            Request::Send { bytes, invalidate, .. } => {
                // RNR: the peer has no receive, and the sender waits.
                let Some(room) = peer.receives.front() else { return Ok(false) };
                if bytes.len() > *room {
                    return Err(Broken::TooLong);
                }
                peer.receives.pop_front();
                if let Some(key) = invalidate {
                    memory.invalidate(*key)?;
                }
                peer.done.push_back(Done::Received(bytes.clone()));
                *state = State::Ended;
            }
        }
        Ok(true)
    }

    /// Ends one of the reads in flight. Requests end in order all the same (`retire`). Returns whether there was one.
    pub(crate) fn end_read(&mut self, rng: &mut impl Rng, memory: &Memory) -> Result<bool, Broken> {
        let reading: Vec<usize> =
            (0..self.sends.len()).filter(|at| self.sends[*at].1 == State::Reading).collect();
        if reading.is_empty() {
            return Ok(false);
        }
        let (request, state) = &mut self.sends[reading[rng.random_range(0..reading.len())]];
        let Request::Read { length, from, bytes, .. } = request else {
            unreachable!("only reads are reading")
        };
        *bytes = memory.read(*from, *length)?.to_vec();
        *state = State::Ended;
        Ok(true)
    }

    /// Reports requests that have ended, in order. Returns whether there was one.
    pub(crate) fn retire(&mut self) -> bool {
        let mut any = false;
        while self.sends.front().is_some_and(|(_, state)| *state == State::Ended) {
            let (request, _) = self.sends.pop_front().expect("there is one");
            any = true;
            match request {
                // Its entry is free when the request behind it has ended.
                Request::Write { .. } => {}
                Request::Send { tag, cost, .. } => {
                    self.taken -= cost;
                    self.done.push_back(Done::Sent(tag));
                }
                Request::Read { tag, buffer, bytes, .. } => {
                    self.taken -= 1;
                    self.done.push_back(Done::Read { tag, buffer, bytes });
                }
            }
        }
        any
    }

    /// Whether nothing is on its way.
    pub(crate) fn is_idle(&self) -> bool {
        self.sends.is_empty() && self.done.is_empty()
    }
}

/// A part of the host's memory with a key.
#[derive(Debug)]
struct Region {
    address: u64,
    bytes: Vec<u8>,
    is_valid: bool,
}

/// The host's memory.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    regions: HashMap<u32, Region>,
    next_key: u32,
}

impl Memory {
    /// Registers bytes. Returns their place.
    pub(crate) fn register(&mut self, bytes: Vec<u8>, invalidates: bool) -> Remote {
        self.next_key += 1;
        let key = self.next_key;
        let address = 0x7000_0000_0000 + (u64::from(key) << 24);
        self.regions.insert(key, Region { address, bytes, is_valid: true });
        Remote { address, key, invalidates }
    }

    /// Takes the bytes of a region back, and whether its key is still valid.
    pub(crate) fn deregister(&mut self, key: u32) -> (Vec<u8>, bool) {
        let Region { bytes, is_valid, .. } = self.regions.remove(&key).expect("it was registered");
        (bytes, is_valid)
    }

    fn range(&self, place: Remote, length: usize) -> Result<(&Region, usize), Broken> {
        let region = self.regions.get(&place.key).filter(|region| region.is_valid);
        let region = region.ok_or(Broken::RemoteAccess)?;
        let from = place.address.checked_sub(region.address).ok_or(Broken::RemoteAccess)? as usize;
        if from + length > region.bytes.len() {
            return Err(Broken::RemoteAccess);
        }
        Ok((region, from))
    }

    fn read(&self, place: Remote, length: u32) -> Result<&[u8], Broken> {
        let (region, from) = self.range(place, length as usize)?;
        Ok(&region.bytes[from..from + length as usize])
    }

    fn write(&mut self, place: Remote, bytes: &[u8]) -> Result<(), Broken> {
        let (_, from) = self.range(place, bytes.len())?;
        let region = self.regions.get_mut(&place.key).expect("it was found");
        region.bytes[from..from + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn invalidate(&mut self, key: u32) -> Result<(), Broken> {
        let region = self.regions.get_mut(&key).filter(|region| region.is_valid);
        region.ok_or(Broken::RemoteAccess)?.is_valid = false;
        Ok(())
    }
}
