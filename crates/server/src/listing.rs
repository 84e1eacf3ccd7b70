//! Connections as operators see them.

use std::net::SocketAddr;
use std::sync::Arc;
use units::Nanos;

/// One connection to a subsystem: a queue of a controller.
#[derive(Clone, Debug)]
pub struct ConnectionFacts {
    /// The other end.
    pub peer: SocketAddr,
    /// The host's NQN.
    pub host: Arc<str>,
    /// The subsystem's NQN; `None` if it was removed.
    pub subsystem: Option<String>,
    /// The identifier of the controller.
    pub controller: u16,
    /// The queue; 0 is the admin queue.
    pub queue: u16,
    /// The thread that carries it, as health names it.
    pub thread: String,
    /// Whether its host is still to be answered. One that is not stays until its last IO has ended.
    pub is_open: bool,
    /// Whether the host has proved who it is with a key of DH-HMAC-CHAP.
    pub is_authenticated: bool,
    /// Its transport: `tcp` or `rdma`.
    pub transport: &'static str,
    /// Whether it has TLS.
    pub has_tls: bool,
    /// The time since Connect.
    pub age: Nanos,
    /// IOs that have not ended: in the scheduler, on a device, or on their way.
    pub ios: usize,
}

/// All connections to subsystems, as far as their threads have answered.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// By host, subsystem, controller and queue.
    pub connections: Vec<ConnectionFacts>,
    /// The devices whose threads have not answered in time: they hang in a system call, and their connections are not here.
    pub unanswered: Vec<String>,
}

impl Listing {
    /// In order.
    pub(crate) fn new(mut connections: Vec<ConnectionFacts>, unanswered: Vec<String>) -> Listing {
        connections.sort_by(|one, other| {
            let key = |facts: &ConnectionFacts| (facts.controller, facts.queue, facts.peer);
            let names = one.host.cmp(&other.host).then_with(|| one.subsystem.cmp(&other.subsystem));
            names.then_with(|| key(one).cmp(&key(other)))
        });
        Listing { connections, unanswered }
    }
}
