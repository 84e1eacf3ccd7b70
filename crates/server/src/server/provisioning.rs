//! Brings up new things: when a target starts, and when its configuration changes.
//!
//! ```text
//!   prepare: devices opened ─► schedulers made ─► addresses bound ─► subsystems made ─► threads started     may fail
//!   commit:  threads learn of each other ─► subsystems, namespaces ─► the acceptor lets hosts connect       cannot fail
//! ```
//!
//! `prepare` changes nothing that runs. A provisioning that is dropped after `prepare` leaves nothing behind.

use super::StartError;
use super::busy_polling;
use super::pools::Prepared;
use super::thread::{Thread, ThreadParts};
use super::topology::{Listening, Other, Served, Ssd, Topology};
use crate::acceptor::{self, Listener};
use crate::assemble::{self, Devices, SubsystemError};
use crate::config::{
    self, Config, ConfigError, DeviceConfig, Listen, NamespaceConfig, Overcommit, SubsystemConfig, Transport,
};
use crate::connections::load::Load;
use crate::connections::message::{self, ToConnections};
use crate::connections::thread::{self, ConnectionThread};
use crate::device::{self, DeviceError, Facts, OpenDevice, Usage, lasting_name};
use crate::home::Home;
use crate::home::placement::Placement;
use crate::memory::Memory;
use crate::pipeline::change::Change;
use crate::pipeline::message::ToPipeline;
use crate::pipeline::{self, Pipeline};
use crate::policy::policy;
use crate::proof::{KeyRing, Proofs};
use crate::rdma;
use crate::retry::retry_while_in_use;
use crate::state::Keeper;
use crate::stats::ThreadBoard;
use crate::stats::beat::Beat;
use crate::stats::board::{Board, State};
use crate::switch::Switch;
use crate::tenants::{NamespaceTenant, Numbered, TenantName};
use nvme::subsystem::{DiscoveryRecord, HostAccess, NamespaceInfo};
use reactor::Clock;
use sched::Policy;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use tracing::{error, info, warn};

/// Everything that is new, prepared for `commit`.
pub(super) struct Provisioning {
    ssds: Vec<(usize, Ssd)>,
    /// SSDs with a changed size or write protection.
    facts: Vec<(usize, Facts)>,
    policies: Vec<(usize, Box<dyn Policy>)>,
    subsystems: Vec<(usize, Served, Home)>,
    namespaces: Vec<NewNamespace>,
    /// Namespaces with a changed size.
    pub(super) resized: Vec<Resized>,
    /// Namespaces that become read-only, or writable again.
    protected: Vec<Protected>,
    /// The allowed hosts of subsystems that stay, where they have changed.
    pub(super) hosts: Vec<(usize, usize, HostAccess)>,
    listeners: Vec<(Listening, Listener)>,
    /// The discovery records after the change.
    records: Vec<DiscoveryRecord>,
    /// Memory of each pipeline and of each thread without an SSD, if the limits have changed.
    limits: Option<(Memory, Memory)>,
    /// The keys of hosts after the change.
    keys: Arc<KeyRing>,
    /// The files of namespaces in directories.
    files: Prepared,
}

struct NewNamespace {
    subsystem: usize,
    home: usize,
    info: NamespaceInfo,
    placement: Placement,
    usage: Option<Arc<Usage>>,
    nqn: String,
    config: NamespaceConfig,
}

/// A namespace with a changed size.
pub(super) struct Resized {
    pub(super) subsystem: usize,
    pub(super) home: usize,
    pub(super) nsid: u32,
    pub(super) blocks: u64,
    pub(super) is_smaller: bool,
}

/// A namespace that becomes read-only, or writable again.
struct Protected {
    subsystem: usize,
    home: usize,
    nsid: u32,
    read_only: bool,
}

impl Provisioning {
    /// Prepares everything that `new` has and `old` does not have. `topology` runs `old`.
    pub(super) fn prepare(
        topology: &Topology,
        old: &Config,
        new: &Config,
    ) -> Result<Provisioning, StartError> {
        let mut facts: HashMap<&str, (usize, Facts)> = HashMap::new();
        let mut opened = Vec::new();
        let mut changed_devices = Vec::new();
        let mut policies = Vec::new();
        let mut slots = free_slots(&topology.ssds);
        for config in &new.devices {
            let name = || config.name.clone();
            let failed = |error| StartError::Device { device: name(), error };
            if let Some((slot, ssd)) = topology.ssd(&config.name) {
                let before = &old.devices
                    [old.device_index(&config.name).expect("the topology runs this configuration")];
                let known = device::measure(config, &ssd.facts).map_err(failed)?;
                if (known.size, known.read_only) != (ssd.facts.size, ssd.facts.read_only) {
                    changed_devices.push((slot, known.clone()));
                }
                if before.scheduler != config.scheduler {
                    policies.push((slot, policy_of(topology, config)?));
                }
                facts.insert(&config.name, (slot, known));
            } else {
                let open = device::open(config, topology.keeper()).map_err(failed)?;
                let &Facts { size, thin, read_only, .. } = &open.facts;
                info!(device = %config.name, %size, thin, read_only, "the device is open");
                let slot = slots.next().expect("slots never run out");
                facts.insert(&config.name, (slot, open.facts.clone()));
                opened.push((slot, config, open, policy_of(topology, config)?));
            }
        }
        if !opened.is_empty() || !changed_devices.is_empty() {
            check_space(new)?;
        }
        let files = Prepared::new(topology, new, &facts)?;
        let keys = KeyRing::read(Clock.now(), new)
            .map_err(|problems| StartError::Config(ConfigError::Wrong { file: None, problems }))?;
        let keys = Arc::new(keys.after(&topology.proofs.keys));
        if new.hosts.iter().any(|host| !host.tls_key.is_empty()) {
            // Here, so that the acceptor does not stand still for it at the first host.
            tls::prepare().map_err(StartError::Tls)?;
        }
        let listeners = bind_new(topology, new)?;
        let named = |subsystem: &SubsystemConfig| {
            let nqn = subsystem.nqn.clone();
            move |error: SubsystemError| StartError::Subsystem { nqn, error }
        };
        let mut provisioning = Provisioning {
            ssds: Vec::new(),
            facts: changed_devices,
            policies,
            subsystems: Vec::new(),
            namespaces: Vec::new(),
            resized: Vec::new(),
            protected: Vec::new(),
            hosts: Vec::new(),
            listeners,
            records: Vec::new(),
            limits: None,
            keys,
            files,
        };
        let mut slots = free_slots(&topology.subsystems);
        for subsystem in &new.subsystems {
            if let Some((slot, served)) = topology.served(&subsystem.nqn) {
                let before = old.subsystem(&subsystem.nqn).expect("it is served by this");
                let grown = provisioning.compare_subsystem(
                    topology,
                    (old, before),
                    (new, subsystem),
                    (slot, served.home),
                    &facts,
                );
                grown.map_err(named(subsystem))?;
                for namespace in &subsystem.namespaces {
                    if before.namespaces.iter().all(|other| other.nsid != namespace.nsid) {
                        // It is read again in `commit`. A file that cannot be read is reported now.
                        topology.stored(&subsystem.nqn, namespace).map_err(StartError::State)?;
                    }
                }
            } else {
                let mut home = assemble::home(new, subsystem, &facts).map_err(named(subsystem))?;
                restore(topology, subsystem, &mut home)?;
                let slot = slots.next().expect("slots never run out");
                let &(thread, _) = &facts[&*subsystem.namespaces[0].device];
                provisioning.subsystems.push((
                    slot,
                    Served { nqn: subsystem.nqn.clone(), home: thread },
                    home,
                ));
            }
        }
        provisioning.records = assemble::discovery_records(new, &provisioning.addresses(topology, new))
            .map_err(|error| StartError::Subsystem { nqn: "discovery".to_owned(), error })?;
        let memory = Memory::divide(&new.limits, new.devices.len(), topology.others.len());
        let is_shared_anew = old.devices.len() != new.devices.len() && !old.devices.is_empty();
        provisioning.limits = (old.limits != new.limits || is_shared_anew).then_some(memory);
        for (slot, config, open, policy) in opened {
            let facts = open.facts.clone();
            facts.held.iter().for_each(|held| topology.survey.watch_held(Arc::downgrade(held)));
            let keeper = topology.keeper().cloned();
            let (thread, board) = start_pipeline(
                new,
                config,
                (slot, open, policy),
                (topology, keeper),
                (memory.0, &provisioning.keys),
            )?;
            provisioning.ssds.push((slot, Ssd { name: config.name.clone(), facts, thread, board }));
        }
        Ok(provisioning)
    }

    /// Notes the changes of a subsystem that stays.
    fn compare_subsystem(
        &mut self,
        topology: &Topology,
        (old, before): (&Config, &SubsystemConfig),
        (new, now): (&Config, &SubsystemConfig),
        (subsystem, home): (usize, usize),
        devices: &Devices<'_>,
    ) -> Result<(), SubsystemError> {
        if before.hosts != now.hosts {
            self.hosts.push((subsystem, home, assemble::access(&now.hosts)?));
        }
        let old_devices = topology.devices();
        for namespace in &now.namespaces {
            let nsid = namespace.nsid;
            let (info, placement) = assemble::place(new, &now.nqn, namespace, devices)?;
            let Some(before) = before.namespaces.iter().find(|other| other.nsid == nsid) else {
                let usage = assemble::usage(&now.nqn, namespace, &info, devices);
                let (nqn, config) = (now.nqn.clone(), namespace.clone());
                self.namespaces.push(NewNamespace { subsystem, home, info, placement, usage, nqn, config });
                continue;
            };
            let (former, _) = assemble::place(old, &now.nqn, before, &old_devices)?;
            if info.read_only != former.read_only {
                let read_only = info.read_only;
                self.protected.push(Protected { subsystem, home, nsid, read_only });
            }
            if info.blocks != former.blocks {
                let (blocks, is_smaller) = (info.blocks, info.blocks < former.blocks);
                self.resized.push(Resized { subsystem, home, nsid, blocks, is_smaller });
            }
        }
        Ok(())
    }

    /// The addresses that hosts will connect to, in the order of the configuration.
    pub(super) fn addresses(&self, topology: &Topology, config: &Config) -> Vec<Listen> {
        let new = self.listeners.iter().map(|(listening, _)| *listening);
        in_order(config, topology.listeners.iter().copied().chain(new))
    }

    /// Puts everything into use.
    ///
    /// # Errors
    /// Listening on an address has failed. Everything else is done.
    pub(super) fn commit(mut self, topology: &mut Topology, new: &Config) -> Result<(), StartError> {
        for (slot, ssd) in self.ssds.drain(..) {
            let mailbox = ssd.thread.mailbox.clone();
            topology.change_acceptor(acceptor::Change::Pipeline { slot, mailbox: Some(mailbox.clone()) });
            topology.introduce(slot, Some(&mailbox));
            put(&mut topology.ssds, slot, ssd);
            for (other, ssd) in topology.running().filter(|(other, _)| *other != slot) {
                let theirs = Some(ssd.thread.mailbox.clone());
                topology.change_ssd(slot, Change::Peer { slot: other, mailbox: theirs });
                topology.change_ssd(other, Change::Peer { slot, mailbox: Some(mailbox.clone()) });
            }
            // The new pipeline learns of the pipelines in lower slots.
            topology.change_ssd(slot, Change::Peer { slot, mailbox: Some(mailbox) });
        }
        // A pipeline must know the tenants before another pipeline sends it their IOs.
        topology.await_acceptor();
        for (slot, facts) in self.facts.drain(..) {
            if let Some(ssd) = &mut topology.ssds[slot] {
                ssd.facts = facts;
            }
        }
        self.files.serve(topology, new);
        for (slot, policy) in self.policies.drain(..) {
            topology.change_ssd(slot, Change::Policy(policy));
        }
        if let Some((memory, of_others)) = self.limits {
            topology.change_others(|| message::Change::Limits {
                limits: new.limits.clone(),
                memory: of_others.arrivals,
            });
            topology.change_acceptor(acceptor::Change::Limits(new.limits.clone()));
            for (slot, _) in topology.running() {
                topology.change_ssd(slot, Change::Limits { limits: new.limits.clone(), memory });
            }
        }
        topology.proofs.keys = Arc::clone(&self.keys);
        for (slot, _) in topology.running() {
            topology.change_ssd(slot, Change::Keys(Arc::clone(&self.keys)));
        }
        topology.change_acceptor(acceptor::Change::Keys(Arc::clone(&self.keys)));
        let named = Arc::new(new.named_hosts());
        for (slot, _) in topology.running() {
            topology.change_ssd(slot, Change::Named(Arc::clone(&named)));
        }
        topology.change_others(|| message::Change::Named(Arc::clone(&named)));
        topology.change_acceptor(acceptor::Change::Named(named));
        let Numbered { mut tenants, left } = number(topology, new);
        let mut take = |nqn: &str, nsid| tenants.remove(&TenantName::of_namespace(nqn, nsid));
        for (slot, served, mut home) in self.subsystems.drain(..) {
            let namespaces = new.subsystem(&served.nqn).map_or(&[][..], |subsystem| &subsystem.namespaces);
            for nsid in namespaces.iter().map(|namespace| namespace.nsid) {
                home.set_tenant(nsid, take(&served.nqn, nsid).map(|(id, _)| id));
            }
            home.usages.values().for_each(|usage| topology.survey.watch(Arc::downgrade(usage)));
            topology.change_ssd(served.home, Change::SubsystemAdded { slot, home: Box::new(home) });
            put(&mut topology.subsystems, slot, served);
        }
        for NewNamespace { subsystem: slot, home, info, placement, usage, nqn, config } in
            self.namespaces.drain(..)
        {
            let nsid = config.nsid;
            let tenant = take(&nqn, nsid).map(|(id, _)| id);
            usage.iter().for_each(|usage| topology.survey.watch(Arc::downgrade(usage)));
            match topology.stored(&nqn, &config) {
                Ok(saved) => {
                    let change = Change::NamespaceAdded { slot, nsid, info, placement, usage, saved, tenant };
                    topology.change_ssd(home, change);
                }
                // `prepare` could read it.
                Err(error) => {
                    error!(nsid, subsystem = nqn, %error, "the namespace is not served: its stored reservations cannot be read")
                }
            }
        }
        let come = tenants.into_iter().filter(|(_, (_, is_new))| *is_new);
        let come = come.map(|(name, (id, _))| (name, Some(id), None));
        let left = left.into_iter().map(|leave| (leave.name().clone(), None, Some(leave)));
        for (name, tenant, former) in come.chain(left) {
            // One that was removed has no IOs.
            let TenantName::Namespace { subsystem, nsid } = name else { continue };
            if let Some((slot, served)) = topology.served(&subsystem) {
                topology.change_ssd(served.home, Change::NamespaceTenant { slot, nsid, tenant, former });
            }
        }
        for &Resized { subsystem: slot, home, nsid, blocks, is_smaller } in &self.resized {
            if !is_smaller {
                let (done, _) = channel();
                topology.change_ssd(home, Change::NamespaceResized { slot, nsid, blocks, done });
            }
        }
        for &Protected { subsystem: slot, home, nsid, read_only } in &self.protected {
            topology.change_ssd(home, Change::NamespaceProtected { slot, nsid, read_only });
        }
        let (routes, records) = (topology.routes(new), std::mem::take(&mut self.records));
        topology.change_acceptor(acceptor::Change::Directory { routes, records });
        self.listeners.drain(..).try_for_each(|(listening, listener)| listen(topology, listening, listener))
    }
}

impl Drop for Provisioning {
    /// Ends the threads that were started if `commit` did not happen.
    fn drop(&mut self) {
        for (_, mut ssd) in self.ssds.drain(..) {
            ssd.thread.mailbox.tell(ToPipeline::Stop);
            ssd.thread.join();
        }
    }
}

/// Tells the acceptor the tenants of `config`, and waits for the numbers of namespaces.
fn number(topology: &Topology, config: &Config) -> Numbered {
    let tenant = |it: config::NamespaceTenant<'_>| {
        let (device, _) = topology.ssd(&it.namespace.device)?;
        let name = TenantName::of_namespace(&it.subsystem.nqn, it.namespace.nsid);
        Some(NamespaceTenant { name, device, share: it.share().to_share() })
    };
    let namespaces = config.namespace_tenants().filter_map(tenant).collect();
    let (numbered, numbers) = channel();
    let hosts = config.tenants.clone();
    topology.change_acceptor(acceptor::Change::Tenants { hosts, namespaces, numbered });
    // If the acceptor has ended (it has logged why), no host comes any more.
    numbers.recv().unwrap_or_default()
}

/// The addresses of `listening` that `config` names, in its order.
pub(super) fn in_order(config: &Config, listening: impl Iterator<Item = Listening>) -> Vec<Listen> {
    let mut listening: Vec<Listening> = listening.collect();
    let mut take = |asked: &Listen| {
        let index = listening.iter().position(|listening| listening.asked == *asked)?;
        Some(listening.remove(index).listen())
    };
    config.listen.iter().filter_map(&mut take).collect()
}

/// Gives the namespaces of a new subsystem their stored reservations.
fn restore(topology: &Topology, subsystem: &SubsystemConfig, home: &mut Home) -> Result<(), StartError> {
    for namespace in &subsystem.namespaces {
        let nsid = namespace.nsid;
        if let Some(saved) = topology.stored(&subsystem.nqn, namespace).map_err(StartError::State)? {
            let (registrants, generation) = (saved.registrants.len(), saved.generation);
            home.subsystem.restore_reservations(nsid, saved).expect("it was checked when it was read");
            info!(subsystem = subsystem.nqn, nsid, registrants, generation, "reservations were restored");
        }
    }
    Ok(())
}

fn listen(topology: &mut Topology, listening: Listening, listener: Listener) -> Result<(), StartError> {
    let listen = listening.listen();
    let (answer, answered) = channel();
    topology.change_acceptor(acceptor::Change::Listen { listen, listener, answer });
    let result = answered.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()));
    result.map_err(|error| StartError::Listen { listen, error })?;
    topology.listeners.push(listening);
    Ok(())
}

/// Binds the addresses of `config` that the target does not listen on yet.
fn bind_new(topology: &Topology, config: &Config) -> Result<Vec<(Listening, Listener)>, StartError> {
    let mut known: Vec<Listen> = topology.listeners.iter().map(|listening| listening.asked).collect();
    let mut bound = Vec::new();
    for &asked in &config.listen {
        if let Some(index) = known.iter().position(|other| *other == asked) {
            known.swap_remove(index);
            continue;
        }
        let failed = |error| StartError::Listen { listen: asked, error };
        let is_in_use = |error: &io::Error| error.kind() == io::ErrorKind::AddrInUse;
        let bind = || bind(topology, config, asked);
        let (listener, address) = retry_while_in_use(bind, is_in_use).map_err(failed)?;
        bound.push((Listening { asked, address }, listener));
    }
    Ok(bound)
}

/// Binds an address. Returns it with the port that the system has chosen.
fn bind(topology: &Topology, config: &Config, asked: Listen) -> io::Result<(Listener, SocketAddr)> {
    match asked.transport {
        Transport::Tcp => {
            let listener = reactor::bind(asked.address)?;
            let address = listener.local_addr()?;
            Ok((Listener::Tcp(listener), address))
        }
        Transport::Rdma => {
            let context = topology.rdma(&config.limits)?;
            let listener = context.channel.listen(asked.address, rdma::BACKLOG)?;
            let address = listener.local_addr();
            Ok((Listener::Rdma(context, listener), address))
        }
    }
}

/// The scheduler of a device, set up with all that is known of the device.
fn policy_of(topology: &Topology, device: &DeviceConfig) -> Result<Box<dyn Policy>, StartError> {
    let kept = match (device.scheduler.policy.learns, topology.keeper(), lasting_name(&device.kind)) {
        (true, Some(keeper), Some(ssd)) => keeper.load_learnt(ssd).unwrap_or_else(|error| {
            warn!(device = %device.name, "{error}");
            None
        }),
        _ => None,
    };
    if let Some(learnt) = &kept {
        info!(device = %device.name, prices = learnt.prices.len(), "the scheduler begins with what was learnt of the SSD before");
    }
    policy(device.scheduler.policy, device, kept)
        .map_err(|error| StartError::Policy { device: device.name.clone(), error })
}

/// Warns of sparse files that the file system has no room for, or refuses them, as configured.
fn check_space(config: &Config) -> Result<(), StartError> {
    for (device, shortage) in device::shortages(config) {
        match device.overcommit {
            Overcommit::Refuse => {
                let error = DeviceError::Overcommitted(shortage);
                return Err(StartError::Device { device: device.name.clone(), error });
            }
            Overcommit::Warn => warn!(device = %device.name, "{shortage}"),
        }
    }
    Ok(())
}

fn start_pipeline(
    config: &Config,
    device: &DeviceConfig,
    (index, open, policy): (usize, OpenDevice, Box<dyn Policy>),
    (topology, keeper): (&Topology, Option<Keeper>),
    (memory, keys): (Memory, &Arc<KeyRing>),
) -> Result<(Thread<ToPipeline>, Arc<Board>), StartError> {
    let (name, lasting_name) = (device.name.clone(), lasting_name(&device.kind));
    let (limits, held) = (config.limits.clone(), open.facts.held.first().cloned());
    let (beat, pulse) = Beat::new();
    // The clock of a device is known when the device is started, and that is done by its thread.
    let board = Arc::new(OnceLock::new());
    let (shown, shown_as, detail) = (Arc::clone(&board), device.name.clone(), topology.detail);
    let start = move |reactor: &mut reactor::Reactor| {
        let device = open.start(Clock.now(), reactor)?;
        let board = Arc::new(Board::new(shown_as, device.clock(), detail, pulse));
        // A reader before the first turn sees the parts of the device, too.
        board.publish(State { auxiliary: device.auxiliary(), files: device.files(), ..State::default() });
        let board = Arc::clone(shown.get_or_init(|| board));
        Ok((device, board))
    };
    let others: Vec<_> =
        topology.others.iter().map(|other| (other.thread.mailbox.clone(), other.load.clone())).collect();
    let proofs = Proofs { keys: Arc::clone(keys), ..topology.proofs.clone() };
    let spin = busy_polling::time(config.spin, config.devices.len() + others.len());
    let thread =
        Thread::start(config.backend, spin, format!("ssd {name}"), start, move |parts, (device, board)| {
            let ThreadParts { reactor, mailbox, inbox, reports } = parts;
            let (switch, load) = (Switch::new(policy, device), Load::default());
            let parts = pipeline::Parts {
                index,
                name,
                reactor,
                switch,
                inbox,
                reports,
                keeper,
                lasting_name,
                held,
                memory,
                limits,
                proofs,
                mailbox,
                load,
                others,
                board,
                beat,
            };
            Pipeline::new(parts).run()
        })?;
    let board = board.get().expect("it was made before the thread was started");
    Ok((thread, Arc::clone(board)))
}

/// Starts the threads with connections and no SSD.
pub(super) fn start_others(config: &Config) -> Result<Vec<Other>, StartError> {
    let (devices, count) = (config.devices.len(), config.connection_threads(busy_polling::processors()));
    let (_, memory) = Memory::divide(&config.limits, devices, count);
    let spin = busy_polling::time(config.spin, devices + count);
    let start = |index| {
        let limits = config.limits.clone();
        let ((beat, pulse), board) = (Beat::new(), Arc::new(ThreadBoard::default()));
        let shown = Arc::clone(&board);
        let run = move |parts: ThreadParts<ToConnections>, ()| {
            let ThreadParts { reactor, inbox, reports, .. } = parts;
            let parts = thread::Parts { index, reactor, inbox, reports, limits, memory, board: shown, beat };
            ConnectionThread::new(parts).run()
        };
        let thread = Thread::start(config.backend, spin, format!("connections {index}"), |_| Ok(()), run)?;
        Ok(Other { thread, load: Load::default(), board, pulse })
    };
    let mut others = Vec::new();
    for index in 0..count {
        match start(index) {
            Ok(other) => others.push(other),
            Err(error) => {
                others.iter().for_each(|other: &Other| other.thread.mailbox.tell(ToConnections::Stop));
                others.iter_mut().for_each(|other| other.thread.join());
                return Err(error);
            }
        }
    }
    Ok(others)
}

/// The free slots, lowest first.
fn free_slots<T>(taken: &[Option<T>]) -> impl Iterator<Item = usize> {
    let free: Vec<usize> =
        taken.iter().enumerate().filter_map(|(slot, it)| it.is_none().then_some(slot)).collect();
    free.into_iter().chain(taken.len()..)
}

fn put<T>(slots: &mut Vec<Option<T>>, slot: usize, item: T) {
    if slots.len() <= slot {
        slots.resize_with(slot + 1, || None);
    }
    slots[slot] = Some(item);
}
