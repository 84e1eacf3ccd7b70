//! The messages with which a queue is opened: private data of the connection manager's request, reply and reject.
//!
//! | message | bytes | fields (offset: size, little-endian) |
//! |---|---|---|
//! | request | 32 | RECFMT 0:2 = 0; QID 2:2; HRQSIZE 4:2, the host's receives; HSQSIZE 6:2, the host's sends, less one |
//! | reply | 32 | RECFMT 0:2 = 0; CRQSIZE 2:2, the controller's receives |
//! | reject | 4 | RECFMT 0:2 = 0; STS 2:2 |
//!
//! Their length says little: some connection managers pad private data with zeroes. So a message is as long as it is here, or longer.
//!
//! NVM Express RDMA Transport Specification: "Fabric Dependent Settings".

use std::fmt;

const REQUEST_BYTES: usize = 32;
const REPLY_BYTES: usize = 32;
const REJECT_BYTES: usize = 4;
/// The only format of these messages.
const RECORD_FORMAT: u16 = 0;

/// Reason why a queue is not opened (STS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Rejection {
    /// The private data is shorter than it has to be.
    Length = 1,
    /// Its format is unknown.
    Format = 2,
    /// There is no queue with this number.
    QueueId = 3,
    /// The host sends too many commands at a time, or none.
    HostSends = 4,
    /// The host takes no answers.
    HostReceives = 5,
    /// The controller has no resources for the queue.
    NoResources = 6,
    /// The host lets its memory not be read (inbound RDMA reads).
    InboundReads = 7,
    /// The controller lets its memory not be read (outbound RDMA reads of the host).
    OutboundReads = 8,
}

impl Rejection {
    const ALL: [Rejection; 8] = [
        Rejection::Length,
        Rejection::Format,
        Rejection::QueueId,
        Rejection::HostSends,
        Rejection::HostReceives,
        Rejection::NoResources,
        Rejection::InboundReads,
        Rejection::OutboundReads,
    ];

    /// The private data of the reject.
    pub fn to_bytes(self) -> [u8; REJECT_BYTES] {
        let mut bytes = [0; REJECT_BYTES];
        put(&mut bytes, 0, RECORD_FORMAT);
        put(&mut bytes, 2, self as u16);
        bytes
    }

    /// The reason in the private data of a reject; `None` if it gives none that is known.
    pub fn from_bytes(bytes: &[u8]) -> Option<Rejection> {
        if bytes.len() < REJECT_BYTES || get(bytes, 0) != RECORD_FORMAT {
            return None;
        }
        Rejection::ALL.into_iter().find(|rejection| *rejection as u16 == get(bytes, 2))
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rejection::Length => "the private data is too short",
            Rejection::Format => "the private data has an unknown format",
            Rejection::QueueId => "there is no queue with this number",
            Rejection::HostSends => "the queue's size is not supported",
            Rejection::HostReceives => "the host takes no answers",
            Rejection::NoResources => "there are no resources for the queue",
            Rejection::InboundReads => "the host's memory cannot be read",
            Rejection::OutboundReads => "the host cannot read the controller's memory",
        })
    }
}

/// Bounds on the queues that a controller opens.
#[derive(Clone, Copy, Debug)]
pub struct QueueBounds {
    /// Most entries of a queue.
    pub entries: u32,
    /// Most IO queues of a controller.
    pub io_queues: u16,
}

/// The host's request for a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenQueue {
    /// QID; 0 is the admin queue.
    pub queue_id: u16,
    /// HRQSIZE: answers that the host has room for.
    pub host_receives: u16,
    /// HSQSIZE + 1: entries of the submission queue.
    pub entries: u32,
}

impl OpenQueue {
    /// The private data of the request.
    pub fn to_bytes(self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        put(&mut bytes, 0, RECORD_FORMAT);
        put(&mut bytes, 2, self.queue_id);
        put(&mut bytes, 4, self.host_receives);
        put(&mut bytes, 6, (self.entries - 1) as u16);
        bytes
    }

    /// Checks the private data of a request. `reads`: RDMA reads of the host's memory that may be in flight.
    ///
    /// # Errors
    /// The reason to reject it with.
    pub fn parse(bytes: &[u8], reads: u32, bounds: QueueBounds) -> Result<OpenQueue, Rejection> {
        if bytes.len() < REQUEST_BYTES {
            return Err(Rejection::Length);
        }
        if get(bytes, 0) != RECORD_FORMAT {
            return Err(Rejection::Format);
        }
        let open = OpenQueue {
            queue_id: get(bytes, 2),
            host_receives: get(bytes, 4),
            entries: u32::from(get(bytes, 6)) + 1,
        };
        if open.queue_id > bounds.io_queues {
            return Err(Rejection::QueueId);
        }
        if !(2..=bounds.entries).contains(&open.entries) {
            return Err(Rejection::HostSends);
        }
        if open.host_receives == 0 {
            return Err(Rejection::HostReceives);
        }
        // Without any, the first read of a write's data would never end, and nothing would say so.
        if reads == 0 {
            return Err(Rejection::InboundReads);
        }
        Ok(open)
    }
}

/// The controller's reply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// CRQSIZE: capsules that the controller has room for.
    pub controller_receives: u16,
}

impl Accepted {
    /// The private data of the reply.
    pub fn to_bytes(self) -> [u8; REPLY_BYTES] {
        let mut bytes = [0; REPLY_BYTES];
        put(&mut bytes, 0, RECORD_FORMAT);
        put(&mut bytes, 2, self.controller_receives);
        bytes
    }

    /// The reply in private data; `None` if it is too short, or of an unknown format.
    pub fn parse(bytes: &[u8]) -> Option<Accepted> {
        // Four bytes have a meaning, and some controllers send no more.
        if bytes.len() < REJECT_BYTES || get(bytes, 0) != RECORD_FORMAT {
            return None;
        }
        Some(Accepted { controller_receives: get(bytes, 2) })
    }
}

fn get(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: QueueBounds = QueueBounds { entries: 1024, io_queues: 64 };
    /// As a Linux host asks for an IO queue, padded as over the InfiniBand connection manager.
    const LINUX: OpenQueue = OpenQueue { queue_id: 1, host_receives: 128, entries: 128 };

    #[test]
    fn a_request_is_understood_with_and_without_padding() {
        let mut bytes = LINUX.to_bytes().to_vec();
        assert_eq!(bytes[..8], [0, 0, 1, 0, 128, 0, 127, 0]);
        assert_eq!(OpenQueue::parse(&bytes, 1, BOUNDS), Ok(LINUX));
        bytes.resize(56, 0);
        assert_eq!(OpenQueue::parse(&bytes, 128, BOUNDS), Ok(LINUX));
        assert_eq!(OpenQueue::parse(&bytes[..31], 128, BOUNDS), Err(Rejection::Length));
    }

    #[test]
    fn each_fault_has_its_reason() {
        let parse = |open: OpenQueue, reads| OpenQueue::parse(&open.to_bytes(), reads, BOUNDS);
        let entries = |entries| OpenQueue { entries, ..LINUX };
        assert_eq!(parse(entries(1024), 1), Ok(entries(1024)));
        assert_eq!(parse(entries(1025), 1), Err(Rejection::HostSends));
        assert_eq!(parse(entries(65536), 1), Err(Rejection::HostSends));
        assert_eq!(parse(entries(1), 1), Err(Rejection::HostSends));
        assert_eq!(parse(OpenQueue { queue_id: 65, ..LINUX }, 1), Err(Rejection::QueueId));
        assert_eq!(parse(OpenQueue { host_receives: 0, ..LINUX }, 1), Err(Rejection::HostReceives));
        assert_eq!(parse(LINUX, 0), Err(Rejection::InboundReads));
        let mut bytes = LINUX.to_bytes();
        bytes[0] = 1;
        assert_eq!(OpenQueue::parse(&bytes, 1, BOUNDS), Err(Rejection::Format));
    }

    #[test]
    fn replies_and_rejects_are_understood_however_long_they_arrive() {
        let reply = Accepted { controller_receives: 32 };
        for length in [4, 32, 196] {
            let mut bytes = reply.to_bytes().to_vec();
            bytes.resize(length, 0);
            assert_eq!(Accepted::parse(&bytes), Some(reply));
        }
        assert_eq!(Accepted::parse(&[0, 0, 1]), None);
        for rejection in Rejection::ALL {
            let mut bytes = rejection.to_bytes().to_vec();
            bytes.resize(148, 0);
            assert_eq!(Rejection::from_bytes(&bytes), Some(rejection));
        }
        assert_eq!(Rejection::from_bytes(&[0, 0, 9, 0]), None);
        assert_eq!(Rejection::from_bytes(&[]), None);
    }
}
