//! A mounted volume, from the point of view of its users.

use crate::connections::Connections;
use crate::inbox::{Inbox, Job, Ticket};
use crate::store_thread;
use crate::thread::Thread;
use blob::store::Store;
use blob::{Fault, Outcome, Request, Settings, Volume};
use host::{Backend, Engine, HostId, Keys, Nqn, TransportType, host_id};
use reactor::Reactor;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use units::{Bytes, Nanos};

/// Options for the connections to targets, and for the volume.
#[derive(Clone, Debug)]
pub struct Options {
    /// Settings of the volume.
    pub settings: Settings,
    /// This host's NQN, which identifies the tenant to targets.
    pub host: Nqn,
    /// This host's identifier.
    pub host_id: HostId,
    /// The transport by which targets are reached.
    pub transport: TransportType,
    /// The keys by which this host and the targets prove themselves to each other.
    pub keys: Keys,
    /// The kernel interface for the network.
    pub backend: Backend,
    /// Memory for IOs in flight.
    pub memory: Bytes,
    /// Time limit of an IO; after that, it fails and its connection is closed. Must be less than the quarantine of the
    /// settings.
    pub io_timeout: Nanos,
    /// Time for which the volume's thread polls for completions before it sleeps, while they come that quickly. `None`: 200 µs, or none on
    /// a machine with one processor.
    pub spin: Option<Nanos>,
}

/// The reason why a volume could not be mounted.
#[derive(Debug)]
pub enum MountError {
    /// This machine has no thread or socket for the volume.
    Io(io::Error),
    /// The volume failed.
    Volume(Fault),
    /// The metadata store could not be used until the patience was over: the last reason.
    Store(String),
    /// The SSDs could not be used until the patience was over: the last reason.
    Ssd(String),
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MountError::Io(error) => write!(f, "cannot start the client: {error}"),
            MountError::Volume(fault) => fault.fmt(f),
            MountError::Store(why) => write!(f, "{}: {why}", Fault::LeaseUnsure),
            MountError::Ssd(why) => write!(f, "{}: {why}", Fault::Unreachable),
        }
    }
}

impl std::error::Error for MountError {}

/// The NQN and identifier of this machine for targets: the same for all volumes, so that they are one tenant.
pub fn identity() -> (Nqn, HostId) {
    let machine = machine();
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = machine.chars().map(plain).collect();
    let host = Nqn::new(&format!("nqn.2025-01.io.gimbal:volume:{name}"));
    let host = host.expect("a host name has at most 64 bytes");
    (host.clone(), host_id(&host))
}

fn machine() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// A name for a mount that is unique among all mounts.
pub fn unique_name() -> String {
    // The standard library gives each `RandomState` new keys.
    let random = RandomState::new().build_hasher().finish();
    format!("{}/{}/{random:016x}", machine(), std::process::id())
}

/// Time for which the volume's thread polls for completions of targets before it sleeps, while they come that quickly:
/// about the duration of a read of one block. Sleeping and waking up was most of the cost of a read (docs/rocksdb.md).
/// No polling on a single processor, where it would keep all other threads from running.
fn busy_polling() -> Nanos {
    let has_company = thread::available_parallelism().is_ok_and(|processors| processors.get() > 1);
    if has_company { Nanos::micros(200) } else { Nanos::ZERO }
}

/// A trouble while a volume is being mounted.
pub(crate) enum Trouble {
    /// Why the store could not be used.
    Store(String),
    /// Why an SSD could not be used.
    Ssd(String),
}

/// The reason of a failed mount, with the last trouble that led to it.
fn explained(fault: Fault, troubles: Vec<Trouble>) -> MountError {
    let last = troubles.into_iter().rev().find_map(|trouble| match (trouble, fault) {
        (Trouble::Store(why), Fault::LeaseUnsure) => Some(MountError::Store(why)),
        (Trouble::Ssd(why), Fault::Unreachable) => Some(MountError::Ssd(why)),
        _ => None,
    });
    last.unwrap_or(MountError::Volume(fault))
}

/// A mounted volume. Dropped without `unmount`, it stays locked until its lease has run out.
pub struct Mount {
    inbox: Arc<Inbox>,
    thread: Option<JoinHandle<()>>,
}

impl Mount {
    /// Mounts a volume.
    ///
    /// # Errors
    /// See [`MountError`].
    pub fn open(options: Options, store: Box<dyn Store + Send>) -> Result<Mount, MountError> {
        let (send, receive) = channel();
        let (troubles, heard) = channel();
        // The engine belongs to the thread that made it.
        let thread = thread::Builder::new().name("blob-volume".to_owned()).spawn(move || {
            let reactor = Reactor::with_options(
                options.backend,
                &reactor::Options {
                    spin: options.spin.unwrap_or_else(busy_polling),
                    is_polite: true,
                    ..reactor::Options::default()
                },
            );
            let engine = match reactor {
                Ok(reactor) => Engine::with_reactor(reactor, options.memory),
                Err(error) => return drop(send.send(Err(error))),
            };
            let inbox = Arc::new(Inbox::new(engine.waker()));
            let orders = match store_thread::start(store, Arc::clone(&inbox)) {
                Ok(orders) => orders,
                Err(error) => return drop(send.send(Err(error))),
            };
            let volume = Volume::new(options.settings.clone());
            drop(send.send(Ok(Arc::clone(&inbox))));
            let connections = Connections::new(options, troubles.clone());
            Thread::new(engine, volume, connections, inbox, orders, troubles).run();
        });
        let thread = thread.map_err(MountError::Io)?;
        let started = receive.recv().unwrap_or_else(|_| Err(io::Error::other("its thread ended at once")));
        let mount = Mount { inbox: started.map_err(MountError::Io)?, thread: Some(thread) };
        match mount.call(Request::Mount) {
            Outcome::Done => Ok(mount),
            Outcome::Failed(fault) => Err(explained(fault, heard.try_iter().collect())),
            other => unreachable!("not an outcome of a mount: {other:?}"),
        }
    }

    /// Starts an operation.
    pub fn submit(&self, request: Request) -> Ticket {
        let (ticket, answer) = Ticket::new();
        self.inbox.put(Job::Request(request, answer));
        ticket
    }

    /// Starts an operation together with the next one that is submitted, so that the volume's thread is woken once for
    /// both. `begin_later` starts it earlier.
    pub fn submit_later(&self, request: Request) -> Ticket {
        let (ticket, answer) = Ticket::new();
        self.inbox.leave(Job::Request(request, answer));
        ticket
    }

    /// Starts the operations of `submit_later`.
    pub fn begin_later(&self) {
        self.inbox.knock();
    }

    /// Carries out an operation and waits for its outcome.
    pub fn call(&self, request: Request) -> Outcome {
        self.submit(request).wait()
    }

    /// Syncs everything and unlocks the volume.
    ///
    /// # Errors
    /// If some data may not be safe; the volume then stays locked until its lease has run out.
    pub fn unmount(self) -> Result<(), Fault> {
        match self.call(Request::Unmount) {
            Outcome::Failed(fault) => Err(fault),
            _ => Ok(()),
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.inbox.put(Job::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
