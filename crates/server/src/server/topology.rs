//! The running parts: the acceptor, a thread for each SSD, threads for connections, and the SSD of each subsystem.
//!
//! Slots are small numbers by which threads refer to each other, and to subsystems. A slot is reused when nothing refers to its former
//! owner any more.

use super::thread::Thread;
use crate::acceptor::{self, Route};
use crate::assemble::{self, Devices};
use crate::config::{Config, Limits, Listen, NamespaceConfig, SubsystemConfig};
use crate::connections::load::Load;
use crate::connections::message::{self, ToConnections};
use crate::device::{Facts, Survey};
use crate::mailbox::Mailbox;
use crate::pipeline::change::Change;
use crate::pipeline::message::{ToAcceptor, ToPipeline};
use crate::proof::{ComputingThread, Proofs};
use crate::rdma;
use crate::state::{Keeper, StateError, StateThread};
use crate::stats::beat::Pulse;
use crate::stats::board::Board;
use crate::stats::{AcceptorBoard, TenantDetail, ThreadBoard};
use nvme::subsystem::SavedReservations;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tracing::warn;
use units::Bytes;

/// Maximum wait for a pipeline to make a change. It takes a moment, unless the device hangs in the kernel.
const CHANGE_GRACE: Duration = Duration::from_secs(10);

/// Everything that runs.
pub(super) struct Topology {
    pub(super) acceptor: AcceptorThread,
    /// The histograms that are kept for each tenant.
    pub(super) detail: TenantDetail,
    /// Threads with connections and no SSD. Their number does not change while the target runs.
    pub(super) others: Vec<Other>,
    /// Stores reservations, if there is a state directory.
    pub(super) state: Option<StateThread>,
    /// Counts the allocated blocks of thin namespaces.
    pub(super) survey: Survey,
    /// By slot.
    pub(super) ssds: Vec<Option<Ssd>>,
    /// By slot.
    pub(super) subsystems: Vec<Option<Served>>,
    pub(super) listeners: Vec<Listening>,
    /// RDMA, once an address wants it.
    rdma: OnceLock<Arc<rdma::Context>>,
    /// The keys of hosts, and the way to check them.
    pub(super) proofs: Proofs,
    /// The thread of computations for proofs.
    _computing: ComputingThread,
}

/// The thread that hosts reach first.
pub(super) struct AcceptorThread {
    pub(super) thread: Thread<ToAcceptor>,
    pub(super) board: Arc<AcceptorBoard>,
    pub(super) pulse: Pulse,
}

/// An SSD with its thread.
pub(super) struct Ssd {
    /// The device's name.
    pub(super) name: String,
    pub(super) facts: Facts,
    pub(super) thread: Thread<ToPipeline>,
    pub(super) board: Arc<Board>,
}

/// A thread with connections and no SSD.
pub(super) struct Other {
    pub(super) thread: Thread<ToConnections>,
    pub(super) load: Load,
    pub(super) board: Arc<ThreadBoard>,
    pub(super) pulse: Pulse,
}

/// A subsystem that is served.
pub(super) struct Served {
    pub(super) nqn: String,
    /// The slot of the SSD on the thread that serves it.
    pub(super) home: usize,
}

/// An address that the target listens on.
#[derive(Clone, Copy)]
pub(super) struct Listening {
    /// As configured, perhaps without a port.
    pub(super) asked: Listen,
    /// The real address.
    pub(super) address: SocketAddr,
}

impl Listening {
    /// The real address and its transport.
    pub(super) fn listen(&self) -> Listen {
        Listen { address: self.address, transport: self.asked.transport }
    }
}

impl Topology {
    /// RDMA, from the first use on.
    pub(super) fn rdma(&self, limits: &Limits) -> io::Result<Arc<rdma::Context>> {
        if let Some(context) = self.rdma.get() {
            return Ok(Arc::clone(context));
        }
        let context = rdma::Context::new(limits).map_err(io::Error::other)?;
        Ok(Arc::clone(self.rdma.get_or_init(|| context)))
    }

    /// The acceptor, and threads for connections.
    pub(super) fn new(
        acceptor: AcceptorThread,
        detail: TenantDetail,
        others: Vec<Other>,
        state: Option<StateThread>,
        survey: Survey,
        (proofs, computing): (Proofs, ComputingThread),
    ) -> Topology {
        Topology {
            acceptor,
            detail,
            others,
            state,
            survey,
            ssds: Vec::new(),
            subsystems: Vec::new(),
            listeners: Vec::new(),
            rdma: OnceLock::new(),
            proofs,
            _computing: computing,
        }
    }

    /// The keeper of the state directory, if there is one.
    pub(super) fn keeper(&self) -> Option<&Keeper> {
        self.state.as_ref().map(StateThread::keeper)
    }

    /// The stored reservations of a namespace.
    pub(super) fn stored(
        &self,
        nqn: &str,
        namespace: &NamespaceConfig,
    ) -> Result<Option<SavedReservations>, StateError> {
        self.keeper().map_or(Ok(None), |keeper| keeper.load(assemble::name_of(nqn, namespace)))
    }

    /// All SSDs with their slots.
    pub(super) fn running(&self) -> impl Iterator<Item = (usize, &Ssd)> {
        self.ssds.iter().enumerate().filter_map(|(slot, ssd)| Some((slot, ssd.as_ref()?)))
    }

    /// The SSD called `name`, with its slot.
    pub(super) fn ssd(&self, name: &str) -> Option<(usize, &Ssd)> {
        self.running().find(|(_, ssd)| ssd.name == name)
    }

    /// The subsystem of that name, with its slot.
    pub(super) fn served(&self, nqn: &str) -> Option<(usize, &Served)> {
        let named = |served: &Option<Served>| served.as_ref().is_some_and(|served| served.nqn == nqn);
        let slot = self.subsystems.iter().position(named)?;
        Some((slot, self.subsystems[slot].as_ref()?))
    }

    /// The name of the device whose thread serves a subsystem.
    pub(super) fn home_of(&self, nqn: &str) -> Option<String> {
        let (_, served) = self.served(nqn)?;
        Some(self.ssds[served.home].as_ref()?.name.clone())
    }

    /// All devices, for placing namespaces on them.
    pub(super) fn devices(&self) -> Devices<'_> {
        self.running().map(|(slot, ssd)| (&*ssd.name, (slot, ssd.facts.clone()))).collect()
    }

    /// How large a namespace is.
    pub(super) fn size_of(&self, namespace: &NamespaceConfig) -> Option<Bytes> {
        let (_, ssd) = self.ssd(&namespace.device)?;
        Some(namespace.size.unwrap_or(ssd.facts.size.saturating_sub(namespace.offset)))
    }

    /// The routes to the subsystems of `config`. All of them are served.
    pub(super) fn routes(&self, config: &Config) -> Vec<Route> {
        let route = |subsystem: &SubsystemConfig| {
            let (slot, served) = self.served(&subsystem.nqn)?;
            let (nqn, hosts) = (subsystem.nqn.clone(), subsystem.hosts.clone());
            let (cntlid, demand) = (subsystem.cntlid, config.security.demand(subsystem.security));
            Some(Route { subsystem: slot, nqn, hosts, home: served.home, cntlid, demand })
        };
        config.subsystems.iter().filter_map(route).collect()
    }

    /// Waits for the end of all threads. They were asked to end.
    pub(super) fn join(&mut self) {
        self.acceptor.thread.join();
        self.ssds.iter_mut().flatten().for_each(|ssd| ssd.thread.join());
        self.others.iter_mut().for_each(|other| other.thread.join());
    }

    /// Sends a change to every thread without an SSD.
    pub(super) fn change_others(&self, change: impl Fn() -> message::Change) {
        for other in &self.others {
            other.thread.mailbox.tell(ToConnections::Change(Box::new(change())));
        }
    }

    /// Informs the threads without an SSD that a pipeline was started, or has ended.
    pub(super) fn introduce(&self, slot: usize, mailbox: Option<&Mailbox<ToPipeline>>) {
        self.change_others(|| message::Change::Pipeline { slot, mailbox: mailbox.cloned() });
    }

    /// Sends a change to the acceptor.
    pub(super) fn change_acceptor(&self, change: acceptor::Change) {
        self.acceptor.thread.mailbox.tell(ToAcceptor::Change(change));
    }

    /// Sends a change to the pipeline of a slot.
    pub(super) fn change_ssd(&self, slot: usize, change: Change) {
        if let Some(Some(ssd)) = self.ssds.get(slot) {
            ssd.thread.mailbox.tell(ToPipeline::Change(Box::new(change)));
        }
    }

    /// Ends the connections of a host. Returns their number; a device whose thread hangs ends its own when it continues, and does not count.
    pub(super) fn disconnect(&self, host: &str) -> usize {
        let asked: Vec<Receiver<usize>> = self
            .running()
            .map(|(slot, _)| {
                let (ended, has_ended) = channel();
                self.change_ssd(slot, Change::Disconnect { host: host.to_owned(), ended });
                has_ended
            })
            .collect();
        let deadline = Instant::now() + CHANGE_GRACE;
        let rest = || deadline.saturating_duration_since(Instant::now());
        // A thread that has ended drops the request.
        asked.into_iter().filter_map(|ended| ended.recv_timeout(rest()).ok()).sum()
    }

    /// Waits until the acceptor has made all changes.
    pub(super) fn await_acceptor(&self) {
        let (done, is_done) = channel();
        self.change_acceptor(acceptor::Change::Barrier(done));
        // If the acceptor has ended (it has logged why), there is nothing to wait for.
        let _ = is_done.recv();
    }

    /// Waits until all pipelines and threads without an SSD have made all changes, so that hosts see them.
    pub(super) fn await_ssds(&self) {
        let mut asked: Vec<(&str, Receiver<()>)> = self
            .running()
            .map(|(slot, ssd)| {
                let (done, is_done) = channel();
                self.change_ssd(slot, Change::Barrier(done));
                (&*ssd.name, is_done)
            })
            .collect();
        for other in &self.others {
            let (done, is_done) = channel();
            other.thread.mailbox.tell(ToConnections::Change(Box::new(message::Change::Barrier(done))));
            asked.push(("none", is_done));
        }
        let deadline = Instant::now() + CHANGE_GRACE;
        for (device, is_done) in asked {
            // A thread that has ended (it has logged why) drops the request.
            let waited = is_done.recv_timeout(deadline.saturating_duration_since(Instant::now()));
            if waited == Err(RecvTimeoutError::Timeout) {
                warn!(
                    device,
                    "the thread of the device hangs in a system call; changes take effect when it continues"
                );
            }
        }
    }
}
