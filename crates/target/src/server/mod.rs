//! Starting a target, looking at it, ending it.
//!
//! ```text
//!   start: check ─► open devices ─► a thread per SSD, each with its reactor ─► everybody knows everybody ─► listen
//!   shutdown: front drains ─► pipelines answer what they took ─► flush ─► close          (within a time limit)
//! ```
//!
//! A reactor belongs to the thread that made it, so each thread makes its own and first of all tells its mailbox; when all
//! mailboxes are known, they are given to everybody and the target begins. Nothing listens before that.

mod error;

pub use error::StartError;

use crate::assemble;
use crate::config::{BackendChoice, Config, DeviceConfig, PolicyKind};
use crate::device::{self, OpenDevice};
use crate::front::{self, Front};
use crate::mailbox::Mailbox;
use crate::pipeline::message::{Peers, Report, ToFront, ToPipeline};
use crate::pipeline::{self, Home, Pipeline};
use crate::policy::policy;
use crate::stats::Stats;
use crate::switch::Switch;
use nvme::subsystem::Subsystem;
use reactor::{Backend, Clock, Reactor};
use sched::Policy;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tracing::{error, info, warn};
use units::Bytes;

/// How long an address may stay in use before that is an error.
const ADDRESS_WAIT: Duration = Duration::from_secs(5);
/// How often it is tried meanwhile.
const ADDRESS_RETRY: Duration = Duration::from_millis(20);

/// How a shutdown went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Every command that was taken has been answered, and the devices were flushed.
    Complete,
    /// The time limit came first, or somebody stopped the target: commands may be unanswered.
    CutShort,
}

/// The target.
pub struct Server;

impl Server {
    /// Starts a target. When this returns, it accepts connections.
    ///
    /// # Errors
    /// Says what is wrong and what to do about it. Nothing is left running.
    pub fn start(config: Config) -> Result<ServerHandle, StartError> {
        config.check().map_err(StartError::Config)?;
        let devices = open_devices(&config)?;
        let homes = make_homes(&config, &devices)?;
        let listeners = listen(&config)?;
        let addresses: Vec<SocketAddr> =
            listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
        let discovery = assemble::discovery(&config, &addresses)
            .map_err(|error| StartError::Subsystem { nqn: "discovery".to_owned(), error })?;
        let mut handle = ServerHandle::empty(config, addresses);
        // On an error the handle is dropped, which ends the threads that run already.
        handle.launch(devices, homes, listeners, discovery)?;
        let addresses = &handle.addresses;
        info!(?addresses, devices = handle.config.devices.len(), "the target accepts connections");
        Ok(handle)
    }
}

fn open_devices(config: &Config) -> Result<Vec<OpenDevice>, StartError> {
    let open = |device: &DeviceConfig| {
        device::open(device).map_err(|error| StartError::Device { device: device.name.clone(), error })
    };
    config.devices.iter().map(open).collect()
}

/// Every subsystem with the index of its home.
fn make_homes(config: &Config, devices: &[OpenDevice]) -> Result<Vec<(usize, Home)>, StartError> {
    let make = |subsystem| {
        let home = assemble::home(config, subsystem, devices)
            .map_err(|error| StartError::Subsystem { nqn: subsystem.nqn.clone(), error })?;
        Ok((home_of(config, subsystem), home))
    };
    config.subsystems.iter().map(make).collect()
}

/// The device of the first namespace.
fn home_of(config: &Config, subsystem: &crate::config::SubsystemConfig) -> usize {
    config.device_index(&subsystem.namespaces[0].device).expect("the check has found every device")
}

fn listen(config: &Config) -> Result<Vec<TcpListener>, StartError> {
    let bind = |&address: &SocketAddr| {
        bind_patiently(address).map_err(|error| StartError::Listen { address, error })
    };
    config.listen.iter().map(bind).collect()
}

/// The kernel takes a killed process's ring apart in its own time, and its listener goes with it: a target that is started
/// again at once finds the address in use for a moment.
fn bind_patiently(address: SocketAddr) -> io::Result<TcpListener> {
    let give_up = Instant::now() + ADDRESS_WAIT;
    loop {
        match reactor::bind(address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < give_up => {
                thread::sleep(ADDRESS_RETRY);
            }
            bound => return bound,
        }
    }
}

/// A target that runs. Dropping it stops it at once; [`ServerHandle::shutdown`] ends it in order.
pub struct ServerHandle {
    config: Config,
    addresses: Vec<SocketAddr>,
    front: Option<Mailbox<ToFront>>,
    pipelines: Peers,
    threads: Vec<JoinHandle<()>>,
    report_sender: Sender<Report>,
    reports: Receiver<Report>,
}

/// What a thread needs before it can begin.
struct Acquaintance {
    pipelines: Peers,
    front: Mailbox<ToFront>,
}

impl ServerHandle {
    fn empty(config: Config, addresses: Vec<SocketAddr>) -> ServerHandle {
        let (report_sender, reports) = channel();
        ServerHandle {
            config,
            addresses,
            front: None,
            pipelines: Vec::new(),
            threads: Vec::new(),
            report_sender,
            reports,
        }
    }

    fn launch(
        &mut self,
        devices: Vec<OpenDevice>,
        homes: Vec<(usize, Home)>,
        listeners: Vec<TcpListener>,
        discovery: Subsystem,
    ) -> Result<(), StartError> {
        let home_indices: Vec<usize> = homes.iter().map(|(home, _)| *home).collect();
        let mut homes: Vec<Option<(usize, Home)>> = homes.into_iter().map(Some).collect();
        let mut waiting = Vec::new();
        for (index, device) in devices.into_iter().enumerate() {
            let own =
                homes.iter_mut().map(|home| home.take_if(|(home, _)| *home == index).map(|(_, home)| home));
            let (introduce, acquaintance) = channel();
            let mailbox = self.launch_pipeline(index, device, own.collect(), acquaintance)?;
            self.pipelines.push(mailbox);
            waiting.push(introduce);
        }
        let (introduce, acquaintance) = channel();
        let front = self.launch_front(listeners, discovery, home_indices, acquaintance)?;
        self.front = Some(front.clone());
        waiting.push(introduce);
        for introduce in waiting {
            let acquaintance = Acquaintance { pipelines: self.pipelines.clone(), front: front.clone() };
            // A thread that has ended meanwhile has logged why, and shutdown finds it ended.
            drop(introduce.send(acquaintance));
        }
        Ok(())
    }

    fn launch_pipeline(
        &mut self,
        index: usize,
        device: OpenDevice,
        homes: Vec<Option<Home>>,
        acquaintance: Receiver<Acquaintance>,
    ) -> Result<Mailbox<ToPipeline>, StartError> {
        let config = &self.config.devices[index];
        let name = config.name.clone();
        let policy = policy(config.scheduler.policy, config)
            .map_err(|error| StartError::Policy { device: name.clone(), error })?;
        let memory = Bytes(self.config.limits.memory.get() / self.config.devices.len() as u64);
        let limits = self.config.limits.clone();
        let reports = self.report_sender.clone();
        self.launch_thread(format!("ssd {name}"), move |mut reactor, introduce| {
            let device = device.start(Clock.now(), &mut reactor)?;
            let switch = Switch::new(policy, device);
            let (mailbox, inbox) = Mailbox::new(reactor.waker());
            drop(introduce.send(Ok(mailbox)));
            let Ok(Acquaintance { pipelines: peers, front }) = acquaintance.recv() else { return Ok(()) };
            let parts = pipeline::Parts {
                index,
                name,
                reactor,
                switch,
                homes,
                inbox,
                peers,
                front,
                reports,
                memory,
                limits,
            };
            Pipeline::new(parts).run()
        })
    }

    fn launch_front(
        &mut self,
        listeners: Vec<TcpListener>,
        discovery: Subsystem,
        homes: Vec<usize>,
        acquaintance: Receiver<Acquaintance>,
    ) -> Result<Mailbox<ToFront>, StartError> {
        let transport = assemble::transport_limits(&self.config);
        let Config { subsystems, tenants, limits, .. } = self.config.clone();
        let reports = self.report_sender.clone();
        self.launch_thread("front".to_owned(), move |mut reactor, introduce| {
            let (mailbox, inbox) = Mailbox::new(reactor.waker());
            let listeners =
                listeners.into_iter().map(|listener| reactor.listen(listener)).collect::<io::Result<_>>()?;
            drop(introduce.send(Ok(mailbox)));
            let Ok(Acquaintance { pipelines, .. }) = acquaintance.recv() else { return Ok(()) };
            Front::new(front::Parts {
                reactor,
                listeners,
                discovery,
                subsystems,
                homes,
                tenants,
                limits,
                transport,
                inbox,
                pipelines,
                reports,
            })
            .run()
        })
    }

    /// Starts a thread with a reactor of its own, and waits for its mailbox.
    fn launch_thread<M: Send + 'static>(
        &mut self,
        name: String,
        body: impl FnOnce(Reactor, &Sender<Result<Mailbox<M>, StartError>>) -> io::Result<()> + Send + 'static,
    ) -> Result<Mailbox<M>, StartError> {
        let backend = match self.config.backend {
            BackendChoice::Auto => Backend::Auto,
            BackendChoice::IoUring => Backend::IoUring,
            BackendChoice::Epoll => Backend::Epoll,
        };
        let (introduce, introduced) = channel();
        let reports = self.report_sender.clone();
        let thread = thread::Builder::new().name(name.clone()).spawn(move || {
            let result = Reactor::new(backend).and_then(|reactor| {
                if let Some(reason) = reactor.fallback_reason() {
                    warn!(thread = %name, %reason, "io_uring cannot be used: epoll instead");
                }
                body(reactor, &introduce)
            });
            if let Err(error) = result {
                error!(thread = %name, %error, "the thread ends");
                // If it is past its introduction, the report below is what tells.
                drop(introduce.send(Err(StartError::Backend(error))));
            }
            // Nobody waits if the target was not shut down but dropped.
            let _ = reports.send(Report::Ended);
        });
        self.threads.push(thread.map_err(StartError::Thread)?);
        introduced.recv().unwrap_or_else(|_| Err(StartError::Thread(io::ErrorKind::Other.into())))
    }

    /// Where hosts connect, in the order of the configuration, with the ports that the system chose.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The configuration it was started with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// How everybody fares. An SSD whose pipeline has ended is left out.
    pub fn stats(&self) -> Stats {
        let ask = |pipeline: &Mailbox<ToPipeline>| {
            let (answer, answered) = channel();
            pipeline.post(ToPipeline::Stats(answer)).ok().map(|()| answered)
        };
        // All are asked before the first answer is awaited, so that the snapshots are close together.
        let answers: Vec<_> = self.pipelines.iter().filter_map(ask).collect();
        Stats { ssds: answers.into_iter().filter_map(|answered| answered.recv().ok()).collect() }
    }

    /// Puts another scheduler in charge of `device`, with the constants of its configuration. IOs in flight end as usual;
    /// nothing is lost.
    ///
    /// # Errors
    /// The scheduler cannot be had.
    ///
    /// # Panics
    /// If there is no such device.
    pub fn set_policy(&self, device: usize, kind: PolicyKind) -> Result<(), StartError> {
        let config = &self.config.devices[device];
        let policy: Box<dyn Policy> = policy(kind, config)
            .map_err(|error| StartError::Policy { device: config.name.clone(), error })?;
        self.pipelines[device].tell(ToPipeline::ReplacePolicy(policy));
        Ok(())
    }

    /// What stops the target at once, from any thread.
    pub fn stopper(&self) -> Stopper {
        Stopper { front: self.front.clone(), pipelines: self.pipelines.clone() }
    }

    /// Ends the target: accepts no more, answers the commands that came, flushes the devices, closes. What is not done after
    /// `limit` is given up.
    pub fn shutdown(mut self, limit: Duration) -> Shutdown {
        let deadline = Instant::now() + limit;
        if let Some(front) = &self.front {
            front.tell(ToFront::Drain);
        }
        self.post_to_all(|| ToPipeline::Drain);
        let drained = self.await_reports(Report::Drained, self.threads.len(), deadline);
        self.post_to_all(|| ToPipeline::Finish);
        let flushed = drained && self.await_reports(Report::Ended, self.pipelines.len(), deadline);
        if !flushed {
            warn!(?limit, "the target is stopped before everything was answered");
        }
        self.stop();
        if flushed { Shutdown::Complete } else { Shutdown::CutShort }
    }

    fn post_to_all(&self, message: impl Fn() -> ToPipeline) {
        for pipeline in &self.pipelines {
            pipeline.tell(message());
        }
    }

    /// Waits for `count` reports; false if the deadline or an unexpected end comes first.
    fn await_reports(&self, wanted: Report, count: usize, deadline: Instant) -> bool {
        let mut seen = 0;
        while seen < count {
            match self.reports.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(report) if report == wanted => seen += 1,
                Ok(_) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return false,
            }
        }
        true
    }

    /// Stops every thread and waits for its end.
    fn stop(&mut self) {
        self.stopper().stop();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                error!("a thread of the target panicked");
            }
        }
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Stops a target at once: commands may stay unanswered.
#[derive(Clone)]
pub struct Stopper {
    front: Option<Mailbox<ToFront>>,
    pipelines: Peers,
}

impl Stopper {
    /// Stops it.
    pub fn stop(&self) {
        if let Some(front) = &self.front {
            front.tell(ToFront::Stop);
        }
        for pipeline in &self.pipelines {
            pipeline.tell(ToPipeline::Stop);
        }
    }
}
