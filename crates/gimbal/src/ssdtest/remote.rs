//! A namespace of a target, over NVMe/TCP or NVMe/RDMA.
//!
//! The latency of an IO is that seen by this host, including the network and the target. A connection that is lost ends
//! the probe; no IO is sent again, because the retry would be measured.

use super::name::Remote as Name;
use super::real::{Carrier, Ended};
use super::stop::Stop;
use super::tested::{Facts, Storage};
use crate::address::resolve;
use anyhow::{Context, Result, anyhow, bail};
use host::{
    ControllerId, ControllerOptions, Engine, Event, Keys, Namespace, Nqn, Operation, Request, RetryPolicy,
    TransportType,
};
use probe::{Io, IoKind};
use reactor::{Backend, Clock, IoBuffer, Options, Reactor};
use units::{Bytes, Instant, Lba, Nanos};

/// Time for which the thread polls for completions before it sleeps, as for a local device.
const SPIN: Nanos = Nanos::micros(50);
/// Memory for the engine's own buffers; those of IOs are in `Real`.
const MEMORY: Bytes = Bytes::mib(1);
/// Maximum number of commands in flight, if the target grants it. Further commands wait here, and that counts as
/// latency.
const QUEUE_DEPTH: u16 = 1024;
/// Interval between checks for signals while connecting.
const LOOK: Nanos = Nanos::millis(100);
/// Time limit for closing the connection in order.
const GOODBYE: Nanos = Nanos::millis(500);
/// Length of the longest IO of a probe.
const TRANSFER: Bytes = Bytes::kib(256);

/// The namespace.
pub(super) struct Remote {
    engine: Engine,
    controller: ControllerId,
    namespace: Namespace,
}

impl Remote {
    /// Connects.
    pub(super) fn open(
        name: &Name,
        (host, keys): (&str, Keys),
        read_only: bool,
        stop: &Stop,
    ) -> Result<(Remote, Facts)> {
        let address = resolve(&name.address, "DEVICE")?;
        let nqn = |text: &str| Nqn::new(text).with_context(|| format!("`{text}` is not an NQN"));
        let (subsystem, host) = (nqn(&name.subsystem)?, nqn(host)?);
        let reactor = Reactor::with_options(Backend::Auto, &Options { spin: SPIN, ..Options::default() });
        let mut engine = Engine::with_reactor(reactor.context("no sockets can be used")?, MEMORY);
        let controller = engine.connect(ControllerOptions {
            queue_depth: QUEUE_DEPTH,
            // No credits, because the probe measures depths of its own choice.
            credits: false,
            retry: RetryPolicy::Never,
            transport: name.transport,
            keys,
            ..ControllerOptions::new(address, subsystem, host.clone(), host::host_id(&host))
        });
        await_ready(&mut engine, stop)?;
        let namespace = choose(engine.namespaces(controller), name)?;
        if namespace.read_only && !read_only {
            bail!("{name}: is write protected; only --read-only can probe it");
        }
        let info = engine.info(controller).expect("it is ready");
        if info.transfer_max < TRANSFER {
            bail!("{name}: moves at most {} with one command; a probe needs {TRANSFER}", info.transfer_max);
        }
        let size = namespace.size();
        let transport = match name.transport {
            TransportType::Tcp => "NVMe/TCP",
            TransportType::Rdma => "NVMe/RDMA",
        };
        let facts = Facts {
            size,
            block_size: u32::try_from(namespace.block_size.get()).unwrap_or(u32::MAX),
            about: format!(
                "namespace {} of {size} over {transport}; model {}, serial number {}; whether other hosts use it is not visible from here",
                namespace.nsid, info.model, info.serial
            ),
            identity: format!("{} {:?} {:?}", info.serial, namespace.nguid, namespace.uuid),
            storage: Storage::Blocks,
            notes: vec![format!("measured over {transport}: latencies include the network and the target")],
        };
        Ok((Remote { engine, controller, namespace }, facts))
    }

    fn lba(&self, bytes: u64) -> u64 {
        bytes / self.namespace.block_size.get()
    }
}

fn await_ready(engine: &mut Engine, stop: &Stop) -> Result<()> {
    loop {
        stop.check()?;
        engine.wait(Some(Clock.now() + LOOK)).context("no sockets can be used")?;
        while let Some(event) = engine.next_event() {
            match event {
                Event::Ready { .. } => return Ok(()),
                // A target that is missing at the start is an error of the user.
                Event::Down { fault, .. } => bail!("the target cannot be used: {fault}"),
                Event::GaveUp { error, .. } => bail!("{error}"),
                _ => {}
            }
        }
    }
}

fn choose(namespaces: &[Namespace], name: &Name) -> Result<Namespace> {
    let known = || {
        let known: Vec<String> = namespaces.iter().map(|namespace| namespace.nsid.to_string()).collect();
        known.join(", ")
    };
    match (name.nsid, namespaces) {
        (_, []) => bail!("{name}: this host sees no namespace there"),
        (Some(wanted), _) => {
            let found = namespaces.iter().find(|namespace| namespace.nsid == wanted).copied();
            found.with_context(|| format!("{name}: there is no namespace {wanted}, but {}", known()))
        }
        (None, [only]) => Ok(*only),
        (None, _) => bail!("{name}: there are several namespaces; add one to the name: /{}", known()),
    }
}

impl Carrier for Remote {
    fn submit(&mut self, io: &Io, buffer: IoBuffer) -> Result<()> {
        let operation = match io.kind {
            IoKind::Read => Operation::Read,
            IoKind::Write => Operation::Write { durable: false },
        };
        let blocks = self.lba(u64::from(io.length)) as u32;
        let request = Request::new(io.tag, self.namespace.nsid, operation, Lba(self.lba(io.offset)), blocks);
        let request = request.with_buffer(buffer);
        self.engine.submit(self.controller, request).map_err(|refused| anyhow!("{}", refused.why))
    }

    fn wait(&mut self, until: Instant, done: &mut Vec<Ended>) -> Result<()> {
        self.engine.wait(Some(until)).context("no sockets can be used")?;
        while let Some(event) = self.engine.next_event() {
            match event {
                Event::Completed { completion, .. } => done.push(Ended {
                    tag: completion.tag,
                    at: Clock.now(),
                    result: completion.result.map_err(anyhow::Error::from),
                    buffer: completion.buffer.expect("a read or write returns its buffer"),
                }),
                Event::Down { fault, .. } => bail!("the connection was lost: {fault}"),
                Event::GaveUp { error, .. } => bail!("{error}"),
                Event::NamespacesChanged { .. } => bail!("the namespaces of the target have changed"),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Drop for Remote {
    /// Disconnects in order, so that the target need not wait for this host.
    fn drop(&mut self) {
        self.engine.close(self.controller);
        let until = Clock.now() + GOODBYE;
        while Clock.now() < until && self.engine.wait(Some(until)).is_ok() {
            while let Some(event) = self.engine.next_event() {
                if matches!(event, Event::Closed { .. } | Event::GaveUp { .. }) {
                    return;
                }
            }
        }
    }
}
