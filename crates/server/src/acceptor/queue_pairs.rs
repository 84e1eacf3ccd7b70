//! Queue pairs of RDMA: from a host's request to a connection that waits for its Connect.
//!
//! ```text
//!   request ─► private data, limits ─► queue pair, one receive ─► accepted ─► Connect, as of any connection
//!              └─ rejected, with the reason in its private data
//! ```
//!
//! A request is one queue. Its host is unknown, so that it counts as a handshake, and its address pays. The reject is all that a host
//! sees, and Linux prints its reason.
//!
//! Queue pairs are made on this thread, as a device may take its time for one; they end on another one (`crate::rdma`). The events of
//! the connection manager are read here, for all threads: the end of a connection reaches its own thread as the end of its work.

use super::{Acceptor, CONNECTION_MEMORY, Entry, Stage};
use crate::account::{ConnectionAccount, HostAccount};
use crate::assemble::rdma_limits;
use crate::handshake::Handshake;
use crate::log_throttle::Subject;
use crate::quota::Origin;
use crate::rdma;
use crate::replies::Backlog;
use crate::transport::{Connection, Opening, RdmaMoving};
use nvme::rdma::{Accepted, OpenQueue, QueueBounds, RdmaTarget, Rejection};
use reactor::Token;
use reactor::rdma::{Access, CmEvent, CmListener, ConnectRequest, Domain, QueueOptions, RdmaDevice};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use tracing::{debug, error, info, warn};
use units::{Instant, Nanos};

/// Events of the connection manager in one turn: the connections here have their turn in between.
const EVENTS_PER_TURN: usize = 64;
/// Time between two attempts to listen on an address whose device was removed.
const RETRY: Nanos = Nanos::secs(1);
/// Reads of a host's memory in flight: more make one queue no faster, and each holds resources of the device.
const READS_MAX: u8 = 16;

/// See the module.
pub(super) struct QueuePairs {
    context: Arc<rdma::Context>,
    /// The connection manager's events.
    token: Token,
    listeners: Vec<(SocketAddr, CmListener)>,
    /// Addresses whose device was removed. They are tried again at `retry_at`.
    lost: Vec<SocketAddr>,
    retry_at: Instant,
    /// The memory that each device may use.
    domains: Vec<(RdmaDevice, Domain)>,
}

impl QueuePairs {
    /// The domain of a device.
    fn domain(&mut self, device: RdmaDevice) -> io::Result<&Domain> {
        let at =
            match self.domains.iter().position(|(known, domain)| *known == device && domain.is_of(&device)) {
                Some(at) => at,
                None => {
                    let domain = Domain::new(self.context.rdma, &device, Access::Local)?;
                    self.domains.push((device, domain));
                    self.domains.len() - 1
                }
            };
        Ok(&self.domains[at].1)
    }
}

/// A request that is not granted.
struct Rejected {
    request: Option<ConnectRequest>,
    rejection: Rejection,
    why: String,
}

impl Acceptor {
    /// Accepts requests on one more address.
    pub(super) fn listen_rdma(
        &mut self,
        context: Arc<rdma::Context>,
        address: SocketAddr,
        listener: CmListener,
    ) -> io::Result<()> {
        if self.queue_pairs.is_none() {
            let token = self.parts.reactor.add_channel(context.channel.as_fd())?;
            self.queue_pairs = Some(QueuePairs {
                context,
                token,
                listeners: Vec::new(),
                lost: Vec::new(),
                retry_at: Instant::ZERO,
                domains: Vec::new(),
            });
        }
        let pairs = self.queue_pairs.as_mut().expect("just made");
        pairs.listeners.push((address, listener));
        Ok(())
    }

    /// Accepts no more requests on an address.
    pub(super) fn unlisten_rdma(&mut self, address: SocketAddr) {
        if let Some(pairs) = &mut self.queue_pairs {
            pairs.listeners.retain(|(other, _)| *other != address);
            pairs.lost.retain(|other| *other != address);
        }
    }

    /// Accepts no more requests.
    pub(super) fn unlisten_all_rdma(&mut self) {
        if let Some(pairs) = &mut self.queue_pairs {
            pairs.listeners.clear();
            pairs.lost.clear();
        }
    }

    /// When to try again to listen on addresses whose device was removed.
    pub(super) fn relisten_at(&self) -> Option<Instant> {
        self.queue_pairs.as_ref().filter(|pairs| !pairs.lost.is_empty()).map(|pairs| pairs.retry_at)
    }

    /// Tries again, if it is time.
    pub(super) fn relisten(&mut self, now: Instant) {
        if self.relisten_at().is_none_or(|at| now < at) {
            return;
        }
        let Some(pairs) = &mut self.queue_pairs else { return };
        pairs.retry_at = now + RETRY;
        for address in std::mem::take(&mut pairs.lost) {
            match pairs.context.channel.listen(address, rdma::BACKLOG) {
                Ok(listener) => {
                    info!(%address, "its RDMA device is back: the target listens there again");
                    pairs.listeners.push((address, listener));
                }
                Err(error) => {
                    debug!(%address, %error, "the RDMA device is not back");
                    pairs.lost.push(address);
                }
            }
        }
    }

    /// There are events of the connection manager, or completions of a connection here.
    pub(super) fn on_ready(&mut self, now: Instant, token: Token) {
        if self.queue_pairs.as_ref().is_some_and(|pairs| pairs.token == token) {
            return self.on_manager(now, token);
        }
        let Some(key) = self.by_token.get(&token).copied() else { return };
        let entry = self.connections.get_mut(key).expect("every token has its entry");
        let memory = (&mut self.intakes, &mut self.parts.reactor);
        // Replies of discovery are on the heap: there are no buffers to return.
        let result = entry.connection.on_ready(now, true, memory, &mut self.events, |_, _| {});
        self.deferred.wake(now);
        self.take_in(now, key, result);
    }

    fn on_manager(&mut self, now: Instant, token: Token) {
        for _ in 0..EVENTS_PER_TURN {
            let Some(pairs) = &self.queue_pairs else { return };
            match pairs.context.channel.next_event() {
                Ok(None) => break,
                Ok(Some(event)) => self.on_manager_event(now, event),
                Err(error) => {
                    error!(%error, "the RDMA connection manager fails: no more queues are opened by RDMA");
                    return;
                }
            }
        }
        if let Err(error) = self.parts.reactor.watch_channel(token) {
            error!(%error, "the RDMA connection manager cannot be watched: no more queues are opened by RDMA");
        }
    }

    fn on_manager_event(&mut self, now: Instant, event: CmEvent) {
        match event {
            CmEvent::Request(request) => self.on_request(now, request),
            CmEvent::DeviceRemoved(number) => {
                let Some(pairs) = &mut self.queue_pairs else { return };
                let gone = |(_, listener): &(SocketAddr, CmListener)| listener.number() == number;
                for (address, _) in pairs.listeners.extract_if(.., |listener| gone(listener)) {
                    warn!(%address, "the RDMA device of this address was removed: the target listens there again when it is back");
                    pairs.lost.push(address);
                    pairs.retry_at = now + RETRY;
                }
                // Those in use stay until their queue pairs have ended.
                pairs.domains.clear();
            }
            // The work of the connection has ended, which its thread is told.
            CmEvent::Established(_) | CmEvent::Disconnected(_) | CmEvent::Failed { .. } => {}
            other => {
                debug!(event = ?other, "an event of the RDMA connection manager that a target does not expect")
            }
        }
    }

    fn on_request(&mut self, now: Instant, request: ConnectRequest) {
        self.parts.board.accepted.add(1);
        if let Some(key) = self.handshakes.victim() {
            let why = "evicted by a newer connection: limits.connections_waiting is reached";
            self.close(now, key, Subject::Dropped, why);
        }
        let peer = request.peer();
        let Err(Rejected { request, rejection, why }) = self.open_queue_pair(now, request) else { return };
        if self.log_throttle.allows(now, peer.ip(), Subject::NotAccepted) {
            warn!(%peer, sts = rejection as u16, "a queue pair is rejected: {why}");
        }
        if let Some(Err(error)) = request.map(|request| request.reject(&rejection.to_bytes())) {
            debug!(%peer, %error, "the host has given up before its request was rejected");
        }
    }

    fn open_queue_pair(&mut self, now: Instant, request: ConnectRequest) -> Result<(), Rejected> {
        let (peer, local) = (request.peer(), request.local());
        let refuse = |request, rejection: Rejection, why: String| {
            Err(Rejected { request: Some(request), rejection, why })
        };
        let origin = Origin::of(peer.ip());
        if self.throttle.delay(now, origin) > Nanos::ZERO {
            let why = "proofs of hosts at its address have failed: it has to wait".to_owned();
            return refuse(request, Rejection::NoResources, why);
        }
        let bounds = QueueBounds {
            entries: u32::from(self.parts.limits.queue_depth),
            io_queues: self.parts.limits.io_queues,
        };
        let device = request.device().and_then(|device| Ok((device, request.device_limits()?)));
        let (device, of_device) = match device {
            Ok(found) => found,
            Err(error) => return refuse(request, Rejection::NoResources, error.to_string()),
        };
        let reads = request.reads().min(of_device.reads).min(READS_MAX);
        let open = match OpenQueue::parse(request.private_data(), u32::from(reads), bounds) {
            Ok(open) => open,
            Err(rejection) => return refuse(request, rejection, rejection.to_string()),
        };
        let limits = rdma_limits(&self.parts.limits, &open, reads);
        let sends = RdmaTarget::<crate::payload::Payload>::sends(&limits);
        if sends.max(open.entries) > of_device.entries {
            let why = format!(
                "the queue needs {sends} entries, and the device {} has {}",
                device.name(),
                of_device.entries
            );
            return refuse(request, Rejection::HostSends, why);
        }
        let pairs = self.queue_pairs.as_mut().expect("a request came to one of its listeners");
        let closer = pairs.context.closer.clone();
        let options = QueueOptions { receives: open.entries, sends, capsules: 0 };
        let queue = match pairs.domain(device) {
            Ok(domain) => request.open(domain, &options),
            Err(error) => Err((error, request)),
        };
        let queue = match queue {
            Ok(queue) => queue,
            Err((error, request)) => return refuse(request, Rejection::NoResources, error.to_string()),
        };
        // The host is not known yet, so the address pays.
        let payer = self.accounts.payer(None, peer.ip());
        let account = ConnectionAccount::new(CONNECTION_MEMORY, HostAccount::new(None), payer);
        let accepted = Accepted { controller_receives: open.entries as u16 }.to_bytes();
        let connection = RdmaMoving::new(queue, Opening { open, limits, peer }, closer)
            .arrive(now, account, &mut self.parts.reactor)
            .and_then(|mut connection| {
                connection.accept(now, &accepted, reads)?;
                Ok(connection)
            });
        // Dropped with its queue, the host is rejected by the kernel.
        let connection = connection.map_err(|error| Rejected {
            request: None,
            rejection: Rejection::NoResources,
            why: error.to_string(),
        })?;
        let (connection, backlog) = (Connection::Rdma(Box::new(connection)), Backlog::default());
        let token = connection.token();
        let (local, stage) = (Some(local), Stage::Handshake);
        let key = self.connections.insert(Entry { connection, backlog, local, identity: None, stage });
        self.by_token.insert(token, key);
        let timeout = self.parts.limits.connect_timeout;
        self.handshakes.insert(key, origin, Handshake::Connect, now, timeout);
        debug!(%peer, queue = open.queue_id, entries = open.entries, reads, "a queue pair is accepted");
        // Its first message may be there already.
        self.on_ready(now, token);
        Ok(())
    }
}
