//! What an engine reports, and the name it gives to a controller.

use crate::discover::Discovered;
use crate::fault::{ConnectError, Fault};
use crate::request::Completion;
use units::Nanos;

/// Names a controller of one engine, from `connect` until it is given up or closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ControllerId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// What an engine reports.
#[derive(Debug)]
pub enum Event {
    /// An IO has ended.
    Completed {
        /// Where it was submitted.
        controller: ControllerId,
        /// How it ended.
        completion: Completion,
    },
    /// IOs can go out. Its namespaces are known from the first time on.
    Ready {
        /// Which.
        controller: ControllerId,
        /// Whether for the first time, or again after it was lost.
        first: bool,
    },
    /// The controller was lost, or an attempt to connect failed; the engine tries again. IOs wait meanwhile.
    Down {
        /// Which.
        controller: ControllerId,
        /// Why.
        fault: Fault,
        /// When the next attempt begins.
        retry_in: Nanos,
    },
    /// The engine does not try again; every IO has ended before this event. The identifier is of no further use.
    GaveUp {
        /// Which.
        controller: ControllerId,
        /// Why.
        error: Box<ConnectError>,
    },
    /// Namespaces came, went or changed size: see [`Engine::namespaces`](crate::Engine::namespaces).
    NamespacesChanged {
        /// Which.
        controller: ControllerId,
    },
    /// What a discovery controller told. It closes by itself.
    Discovered {
        /// Which.
        controller: ControllerId,
        /// The subsystems reachable over TCP.
        subsystems: Vec<Discovered>,
    },
    /// A controller was closed as asked; every IO has ended before this event. The identifier is of no further use.
    Closed {
        /// Which.
        controller: ControllerId,
    },
    /// The engine's [`Waker`](crate::Waker) was used.
    Woken,
}
