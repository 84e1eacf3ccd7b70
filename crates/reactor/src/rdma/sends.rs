//! Work in a send queue: what it owns until the device is done with it, and the entries that it takes.
//!
//! A *flight* is one call's work: a chain of requests, of which the last has a completion. Completions come in the order of the
//! requests, so the last one's says that the device is done with all of the chain. Those before it have one only if they fail.

use crate::buffer::IoBuffer;

/// What the work of a flight is, and the buffer that the device uses for it.
pub(super) enum Flight {
    Read { tag: u32, buffer: IoBuffer },
    Answer { buffer: Option<IoBuffer> },
    Capsule { tag: u32, header: u32, buffer: Option<IoBuffer> },
}

/// The part of a request in its `wr_id`, above the slot's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Receive,
    /// A WRITE that an answer follows.
    Write,
    /// The last of a flight.
    Last,
}

const PARTS: [Part; 3] = [Part::Receive, Part::Write, Part::Last];

impl Part {
    /// Names a request for the device to give back.
    pub(super) fn name(self, slot: u32) -> u64 {
        (self as u64) << 32 | u64::from(slot)
    }

    /// The part and the slot, or nothing for a name that was never given.
    pub(super) fn of(name: u64) -> Option<(Part, u32)> {
        Some((*PARTS.get((name >> 32) as usize)?, name as u32))
    }
}

/// A flight and the entries of the send queue that it takes.
struct Slot {
    flight: Flight,
    entries: usize,
}

/// The flights of a send queue of bounded size.
pub(super) struct Flights {
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    room: usize,
    /// Free places for the headers of capsules.
    headers: Vec<u32>,
}

impl Flights {
    pub(super) fn new(entries: u32, headers: u32) -> Flights {
        Flights {
            slots: (0..entries).map(|_| None).collect(),
            free: (0..entries).rev().collect(),
            room: entries as usize,
            headers: (0..headers).rev().collect(),
        }
    }

    /// Entries of the send queue that are free.
    pub(super) fn room(&self) -> usize {
        self.room
    }

    /// Free places for headers.
    pub(super) fn headers(&self) -> usize {
        self.headers.len()
    }

    /// Takes a place for a header.
    pub(super) fn take_header(&mut self) -> Option<u32> {
        self.headers.pop()
    }

    /// The slot that the next flight gets.
    pub(super) fn next(&self) -> Option<u32> {
        self.free.last().copied()
    }

    /// Puts a flight into the slot that `next` has named, which must have room for it.
    pub(super) fn put(&mut self, flight: Flight, entries: usize) {
        let slot = self.free.pop().expect("each flight takes an entry, and there are as many slots");
        self.room = self.room.checked_sub(entries).expect("the room was checked");
        self.slots[slot as usize] = Some(Slot { flight, entries });
    }

    /// Takes the flight out of a slot, with its entries free again.
    pub(super) fn take(&mut self, slot: u32) -> Option<Flight> {
        let Slot { flight, entries } = self.slots.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        self.room += entries;
        if let Flight::Capsule { header, .. } = &flight {
            self.headers.push(*header);
        }
        Some(flight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_known_by_the_name_that_it_was_given() {
        for part in PARTS {
            assert_eq!(Part::of(part.name(u32::MAX)), Some((part, u32::MAX)));
        }
        assert_eq!(Part::of(u64::MAX), None);
    }

    #[test]
    fn entries_and_headers_are_free_again_when_a_flight_has_ended() {
        let mut flights = Flights::new(4, 1);
        let header = flights.take_header().expect("one");
        assert_eq!((flights.take_header(), flights.headers()), (None, 0));
        let first = flights.next().expect("free");
        flights.put(Flight::Capsule { tag: 7, header, buffer: None }, 1);
        let second = flights.next().expect("free");
        flights.put(Flight::Answer { buffer: None }, 3);
        assert_eq!(flights.room(), 0);
        assert!(matches!(flights.take(second), Some(Flight::Answer { buffer: None })));
        assert!(flights.take(second).is_none(), "taken already");
        assert!(matches!(flights.take(first), Some(Flight::Capsule { tag: 7, .. })));
        assert_eq!((flights.room(), flights.headers()), (4, 1));
        assert!(flights.take(9).is_none(), "no such slot");
    }
}
