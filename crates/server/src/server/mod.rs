//! Starts, inspects, reloads and ends a target.
//!
//! ```text
//!   start:    check ─► start the acceptor ─► provision everything else ─► listen
//!   reload:   check ─► remove old things ─► provision new things                           (`reload`)
//!   shutdown: the acceptor drains ─► pipelines answer their commands ─► flush ─► close     (within a time limit)
//! ```
//!
//! A start provisions everything, a reload only new things. So both lead to the same target.
//!
//! Elsewhere: `thread` is one thread, `topology` is the running parts, `provisioning` brings up new things, `reload` removes old ones, `wipe`
//! erases removed blocks, `remote` is what other threads can do meanwhile, `change` lists the differences of two configurations, `preview`
//! those of a configuration that does not run yet, `takeover` takes groups over from other targets.

mod busy_polling;
mod change;
mod error;
mod pools;
mod preview;
mod provisioning;
mod reload;
mod remote;
mod snapshots;
mod takeover;
mod thread;
mod topology;
mod wipe;

pub use change::{Change, Subject};
pub use error::StartError;
pub use reload::ReloadError;
pub use remote::Remote;
pub use snapshots::Taken;
pub use takeover::TakeoverError;

use crate::acceptor::{self, Acceptor};
use crate::assemble;
use crate::config::{Config, ConfigError, DeviceKind, Listen, NamespaceConfig};
use crate::connections::message::ToConnections;
use crate::device::Survey;
use crate::identity::Identifiers;
use crate::pipeline::change::Change as PipelineChange;
use crate::pipeline::message::{Report, ToAcceptor, ToPipeline};
use crate::policy::policy;
use crate::proof::{Computing, KeyRing, Proofs, Refusals};
use crate::state::StateThread;
use crate::stats::beat::Beat;
use crate::stats::{AcceptorBoard, Stats, TenantDetail};
use provisioning::{Provisioning, in_order, start_others};
use reactor::Clock;
use reload::Unfinished;
use sched::Scheduler;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thread::{Thread, ThreadParts};
use topology::{AcceptorThread, Topology};
use tracing::{info, warn};
use units::{Bytes, Nanos};
use wipe::Wipes;

/// The result of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Every command was answered, and the devices were flushed.
    Complete,
    /// The time limit was exceeded, or the target was stopped. Commands may be unanswered.
    CutShort,
}

/// A namespace as hosts find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceFacts {
    /// Its number.
    pub nsid: u32,
    /// Its UUID, in the byte order of its text.
    pub uuid: [u8; 16],
    /// Bytes of a logical block.
    pub block_size: u32,
    /// Its size.
    pub size: Bytes,
}

/// Open files other than connections: devices, listeners, rings, the log, and files of an embedding program.
const DESCRIPTORS_BESIDE: u64 = 256;

/// Handles of a namespace's file in a directory: for its IOs, its end, its name, its blocks, and for changes.
const DESCRIPTORS_PER_FILE: u64 = 5;

/// The target.
pub struct Server;

impl Server {
    /// Starts a target. When this returns, it accepts connections.
    ///
    /// # Errors
    /// The error names the problem and its remedy. Nothing is left running.
    pub fn start(config: Config) -> Result<ServerHandle, StartError> {
        Server::start_with(config, TenantDetail::default())
    }

    /// Starts a target that keeps more for each tenant.
    ///
    /// # Errors
    /// See [`Server::start`].
    pub fn start_with(config: Config, detail: TenantDetail) -> Result<ServerHandle, StartError> {
        config.judge().map_err(StartError::Config)?;
        config.warnings().iter().for_each(|warning| warn!("{warning}"));
        provide_descriptors(&config);
        let nothing = Config {
            listen: Vec::new(),
            devices: Vec::new(),
            subsystems: Vec::new(),
            hosts: Vec::new(),
            tenants: Vec::new(),
            ..config.clone()
        };
        let state =
            config.state_dir.as_deref().map(StateThread::start).transpose().map_err(StartError::State)?;
        let survey = Survey::start().map_err(StartError::Thread)?;
        // `commit` brings the keys, before an address is listened on.
        let keys = KeyRing::read(Clock.now(), &nothing)
            .map_err(|problems| StartError::Config(ConfigError::Wrong { file: None, problems }))?;
        let (computing, thread) = Computing::start().map_err(StartError::Thread)?;
        let proofs = Proofs { keys: Arc::new(keys), computing, refusals: Refusals::default() };
        let acceptor = start_acceptor(&config, proofs.clone())?;
        let others = start_others(&config)?;
        let topology = Topology::new(acceptor, detail, others, state, survey, (proofs, thread));
        // On an error the handle is dropped. That ends the threads that run already.
        let remote = Remote::new(&topology);
        let mut handle = ServerHandle {
            config,
            listening: Vec::new(),
            addresses: Vec::new(),
            topology,
            unfinished: Vec::new(),
            wipes: Wipes::default(),
            remote,
        };
        let asked = handle.config.clone();
        handle.config = handle.wipes.recall(&handle.topology, &asked).map_err(StartError::State)?;
        let provisioning = Provisioning::prepare(&handle.topology, &nothing, &handle.config)?;
        provisioning.commit(&mut handle.topology, &handle.config)?;
        handle.confirm();
        handle.wipes.start(&handle.topology);
        if let Some((needed_by, what)) = handle.wipes.blocked(&asked, &handle.config) {
            let blocked = ReloadError::Blocked { what, needed_by };
            warn!("{blocked}");
        }
        handle.note_listening();
        handle.remote.update(&handle.topology, &handle.config);
        let addresses: Vec<String> = handle.listening.iter().map(Listen::to_string).collect();
        info!(?addresses, devices = handle.config.devices.len(), "the target accepts connections");
        Ok(handle)
    }
}

/// Raises the limit of open files to the number that the configured connections need. Logs a warning if that is not possible.
fn provide_descriptors(config: &Config) {
    let limits = &config.limits;
    let connections = [limits.connections, limits.connections_waiting, limits.discovery_connections];
    let is_directory = |name: &str| {
        let mut devices = config.devices.iter().filter(|device| device.name == name);
        devices.any(|device| matches!(device.kind, DeviceKind::Directory(_)))
    };
    let namespaces = config.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces);
    let files = namespaces.filter(|namespace| is_directory(&namespace.device)).count() as u64;
    let wanted =
        DESCRIPTORS_BESIDE + DESCRIPTORS_PER_FILE * files + connections.map(u64::from).iter().sum::<u64>();
    match reactor::raise_descriptor_limit(wanted) {
        Ok(limit) if limit < wanted => warn!(
            limit,
            wanted,
            "the system allows fewer open files than limits.connections and limits.connections_waiting need; raise its limit \
             (ulimit -Hn, LimitNOFILE=) or lower them"
        ),
        Ok(_) => {}
        Err(error) => {
            warn!(%error, "cannot read the limit of open files; connections may be refused before limits.connections is reached")
        }
    }
}

fn start_acceptor(config: &Config, proofs: Proofs) -> Result<AcceptorThread, StartError> {
    let discovery = assemble::discovery(&config.limits)
        .map_err(|error| StartError::Subsystem { nqn: "discovery".to_owned(), error })?;
    let (transport, limits) = (assemble::transport_limits(config), config.limits.clone());
    let ((beat, pulse), board) = (Beat::new(), Arc::new(AcceptorBoard::default()));
    let shown = Arc::clone(&board);
    let thread = Thread::start(
        config.backend,
        Nanos::ZERO,
        "acceptor".to_owned(),
        |_| Ok(()),
        move |parts, ()| {
            let ThreadParts { reactor, mailbox, inbox, reports } = parts;
            let parts = acceptor::Parts {
                reactor,
                discovery,
                limits,
                transport,
                mailbox,
                inbox,
                reports,
                proofs,
                board: shown,
                beat,
            };
            Acceptor::new(parts).run()
        },
    )?;
    Ok(AcceptorThread { thread, board, pulse })
}

/// The time for the last flush when the time for answers is used up.
const FLUSH_GRACE: Duration = Duration::from_secs(5);

/// A running target. Dropping the handle stops it at once; [`ServerHandle::shutdown`] ends it in order.
pub struct ServerHandle {
    config: Config,
    listening: Vec<Listen>,
    addresses: Vec<SocketAddr>,
    topology: Topology,
    /// The removed subsystem or namespace that still has IOs in flight.
    unfinished: Vec<Unfinished>,
    /// Removed blocks that have to be erased.
    wipes: Wipes,
    remote: Remote,
}

impl ServerHandle {
    /// Where hosts connect, in the order of the configuration, with the ports that the system chose.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The same with their transports.
    pub fn listening(&self) -> &[Listen] {
        &self.listening
    }

    fn note_listening(&mut self) {
        self.listening = in_order(&self.config, self.topology.listeners.iter().copied());
        self.addresses = self.listening.iter().map(|listen| listen.address).collect();
    }

    /// The present configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The namespaces of a subsystem, as hosts find them.
    pub fn namespaces(&self, nqn: &str) -> Vec<NamespaceFacts> {
        let all = self.config.subsystem(nqn).map_or(&[][..], |subsystem| &subsystem.namespaces);
        let facts = |namespace: &NamespaceConfig| {
            Some(NamespaceFacts {
                nsid: namespace.nsid,
                uuid: Identifiers::of(nqn, namespace).uuid,
                block_size: namespace.block_size,
                size: self.topology.size_of(namespace)?,
            })
        };
        all.iter().filter_map(facts).collect()
    }

    /// Statistics of all SSDs and threads.
    pub fn stats(&self) -> Stats {
        self.remote.stats()
    }

    /// Operations on the target from other threads while this handle is busy.
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// Changes the scheduler of `device`, with the constants of its configuration. No IO is lost.
    ///
    /// # Errors
    /// The scheduler cannot be made.
    ///
    /// # Panics
    /// If there is no such device.
    pub fn set_policy(&self, device: usize, kind: &'static Scheduler) -> Result<(), StartError> {
        let config = &self.config.devices[device];
        let policy = policy(kind, config, None)
            .map_err(|error| StartError::Policy { device: config.name.clone(), error })?;
        if let Some((slot, _)) = self.topology.ssd(&config.name) {
            self.topology.change_ssd(slot, PipelineChange::Policy(policy));
        }
        Ok(())
    }

    /// Ends all connections of a host, which may connect again. Returns their number; those of a device that hangs end when it continues, and do
    /// not count.
    pub fn disconnect(&self, host: &str) -> usize {
        self.topology.disconnect(host)
    }

    /// Ends the target: stops accepting, answers all commands, flushes the devices, closes the connections. Anything not done within
    /// `limit` is abandoned.
    pub fn shutdown(mut self, limit: Duration) -> Shutdown {
        let deadline = Instant::now() + limit;
        let topology = &self.topology;
        let pipelines = || topology.running().map(|(_, ssd)| &ssd.thread);
        let others = || topology.others.iter().map(|other| &other.thread);
        topology.acceptor.thread.mailbox.tell(ToAcceptor::Drain);
        // Connection threads first: their commands must arrive at the pipelines before these check that all are answered.
        others().for_each(|thread| thread.mailbox.tell(ToConnections::Drain));
        let loud = others().filter(|thread| !thread.await_report(Report::Quiet, deadline)).count();
        pipelines().for_each(|thread| thread.mailbox.tell(ToPipeline::Drain));
        // Waits for all threads, even if one is late: the others still have answers to send and devices to flush.
        let acceptor = topology.acceptor.thread.await_report(Report::Drained, deadline);
        let late = pipelines().filter(|thread| !thread.await_report(Report::Drained, deadline)).count();
        others().for_each(|thread| thread.mailbox.tell(ToConnections::Finish));
        let unsent = others().filter(|thread| !thread.await_report(Report::Drained, deadline)).count();
        pipelines().for_each(|thread| thread.mailbox.tell(ToPipeline::Finish));
        let deadline = deadline.max(Instant::now() + FLUSH_GRACE);
        let unflushed = pipelines().filter(|thread| !thread.await_report(Report::Ended, deadline)).count();
        self.wipes.end();
        let flushed = acceptor && loud == 0 && late == 0 && unsent == 0 && unflushed == 0;
        if !flushed {
            warn!(?limit, "the target is stopped before everything was answered");
        }
        if flushed { Shutdown::Complete } else { Shutdown::CutShort }
    }
}

impl Drop for ServerHandle {
    /// Stops all threads and waits for them.
    fn drop(&mut self) {
        self.remote.update(&self.topology, &self.config);
        self.remote.stop();
        self.topology.join();
    }
}
