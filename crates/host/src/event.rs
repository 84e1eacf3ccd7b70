//! Events of an engine, and the identifier of a controller.

use crate::discover::Discovered;
use crate::fault::{ConnectError, Fault};
use crate::request::Completion;
use units::Nanos;

/// Identifies a controller of one engine, from `connect` until it is given up or closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ControllerId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// An event of an engine.
#[derive(Debug)]
pub enum Event {
    /// An IO has ended.
    Completed {
        /// The controller.
        controller: ControllerId,
        /// The result.
        completion: Completion,
    },
    /// IOs can be sent. The namespaces are known from the first time on.
    Ready {
        /// The controller.
        controller: ControllerId,
        /// Whether this is the first time, or the controller was lost before.
        first: bool,
    },
    /// The controller was lost, or a connection attempt failed. The engine tries again; IOs wait.
    Down {
        /// The controller.
        controller: ControllerId,
        /// Why.
        fault: Fault,
        /// Time until the next attempt.
        retry_in: Nanos,
    },
    /// The engine gives the controller up. Every IO has ended before this event. The identifier is no longer
    /// valid.
    GaveUp {
        /// The controller.
        controller: ControllerId,
        /// Why.
        error: Box<ConnectError>,
    },
    /// Namespaces were added or removed or changed size: see
    /// [`Engine::namespaces`](crate::Engine::namespaces).
    NamespacesChanged {
        /// The controller.
        controller: ControllerId,
    },
    /// The subsystems that a discovery controller lists. The controller closes by itself.
    Discovered {
        /// The controller.
        controller: ControllerId,
        /// The subsystems reachable over the controller's transport.
        subsystems: Vec<Discovered>,
    },
    /// A controller was closed by the caller. Every IO has ended before this event. The identifier is no
    /// longer valid.
    Closed {
        /// The controller.
        controller: ControllerId,
    },
    /// The engine's [`Waker`](crate::Waker) was used.
    Woken,
}
