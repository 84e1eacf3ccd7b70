//! The events of the connection manager.

use super::identifier::{CmNumber, ConnectRequest};

/// The step on the way to a connection that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CmStep {
    /// Finding the device that leads to the address.
    Address,
    /// Finding the way to the address.
    Route,
    /// Connecting.
    Connect,
    /// The other end does not answer.
    Reach,
}

/// Something that happened to an identifier of a [`CmChannel`](super::CmChannel).
#[derive(Debug)]
pub enum CmEvent {
    /// A host wants to connect to a listener.
    Request(ConnectRequest),
    /// The address of an attempt is resolved: [`CmId::resolve_route`](super::CmId::resolve_route) is next.
    AddressResolved(CmNumber),
    /// The way is known: [`CmId::open`](super::CmId::open) is next.
    RouteResolved(CmNumber),
    /// The other end has accepted: the queue is connected.
    Accepted {
        /// The connection.
        id: CmNumber,
        /// The bytes that came with it, with zeros after them.
        private_data: Vec<u8>,
    },
    /// A connection that was accepted here is complete. Its first message may have come before.
    Established(CmNumber),
    /// The other end has rejected.
    Rejected {
        /// The attempt.
        id: CmNumber,
        /// The reason of the connection manager: 28, the other end's program, which `private_data` explains; 8, nobody listens.
        status: i32,
        /// The bytes that came with it, with zeros after them.
        private_data: Vec<u8>,
    },
    /// An attempt has failed, or a connection that was accepted here was never completed.
    Failed {
        /// The attempt.
        id: CmNumber,
        /// The step that failed.
        what: CmStep,
        /// A negative error number, or a reason of the connection manager.
        status: i32,
    },
    /// The other end has disconnected, or is lost.
    Disconnected(CmNumber),
    /// The device of this listener or connection is removed: drop it. librdmacm itself keeps a device open that it has used, so the
    /// removal of a device of software, which waits for that, ends only with this process.
    DeviceRemoved(CmNumber),
}
