//! The connections of a volume: one controller per SSD, replaced whenever it is lost.
//!
//! Each connection uses its own controller without retries, so that no IO of a lost connection is ever sent again. A
//! namespace is used only if it has the UUID that was registered.

use crate::mount::{Options, Trouble};
use blob::catalog::SsdRecord;
use blob::steer::Slow;
use blob::{Class, Io, IoFault, IoKind, SsdId};
use host::{
    Backoff, BusyView, Completion, ControllerId, ControllerOptions, Engine, Event, Nqn, Operation, Request,
    RetryPolicy, TransportType,
};
use std::collections::BTreeMap;
use std::net::ToSocketAddrs;
use std::sync::mpsc::Sender;
use units::{Instant, Lba, Nanos};

/// Pause before a lost connection is replaced; doubled with each failure, up to the longest.
const PAUSE_FIRST: Nanos = Nanos::millis(50);
const PAUSE_LONGEST: Nanos = Nanos::secs(2);

struct Connection {
    record: SsdRecord,
    controller: Option<ControllerId>,
    /// Grows with each new connection.
    epoch: u64,
    is_up: bool,
    block_size: u64,
    retry_at: Instant,
    pause: Nanos,
}

/// An event that the volume's thread must pass to the core.
pub(crate) enum News {
    Ssd { ssd: SsdId, is_up: bool, epoch: u64 },
    IoEnd { io: u64, epoch: u64, result: Result<Vec<u8>, IoFault>, ssd: SsdId },
}

/// All connections of a volume.
pub(crate) struct Connections {
    options: Options,
    all: BTreeMap<SsdId, Connection>,
    /// Only a mount that begins listens.
    troubles: Sender<Trouble>,
}

impl Connections {
    pub(crate) fn new(options: Options, troubles: Sender<Trouble>) -> Connections {
        Connections { options, all: BTreeMap::new(), troubles }
    }

    /// Sets the SSDs to connect to.
    pub(crate) fn want(&mut self, ssds: Vec<(SsdId, SsdRecord)>) {
        for (ssd, record) in ssds {
            let one = self.all.entry(ssd).or_insert_with(|| Connection {
                record: record.clone(),
                controller: None,
                epoch: 0,
                is_up: false,
                block_size: 0,
                retry_at: Instant::ZERO,
                pause: PAUSE_FIRST,
            });
            // The target may have another address now. An existing connection stays until it breaks.
            if one.record != record {
                one.record = record;
                (one.retry_at, one.pause) = (Instant::ZERO, PAUSE_FIRST);
            }
        }
    }

    /// The time for the next call of `connect_due`.
    pub(crate) fn next_retry(&self) -> Option<Instant> {
        self.all.values().filter(|one| one.controller.is_none()).map(|one| one.retry_at).min()
    }

    /// Starts the connections that are due.
    pub(crate) fn connect_due(&mut self, engine: &mut Engine, now: Instant) {
        for one in self.all.values_mut().filter(|one| one.controller.is_none() && one.retry_at <= now) {
            match controller_options(&self.options, &one.record) {
                Ok(options) => {
                    one.controller = Some(engine.connect(options));
                    one.epoch += 1;
                }
                Err(why) => {
                    one.wait(now);
                    drop(self.troubles.send(Trouble::Ssd(why)));
                }
            }
        }
    }

    pub(crate) fn close_all(&mut self, engine: &mut Engine) {
        for controller in self.all.values_mut().filter_map(|one| one.controller.take()) {
            engine.close(controller);
        }
    }

    fn find(&mut self, controller: ControllerId) -> Option<(SsdId, &mut Connection)> {
        let found = self.all.iter_mut().find(|(_, one)| one.controller == Some(controller));
        found.map(|(ssd, one)| (*ssd, one))
    }

    /// The last report of the switch in front of an SSD: the credit, and whether the SSD is slow.
    pub(crate) fn told(&self, engine: &Engine, ssd: SsdId) -> (Option<u32>, Option<Slow>) {
        let controller = self.all.get(&ssd).and_then(|one| one.controller);
        let Some(view) = controller.and_then(|controller| engine.view(controller)) else {
            return (None, None);
        };
        let slow = |BusyView { reads, writes, until }| Slow { reads, writes, until };
        (view.credit, view.busy.map(slow))
    }

    /// Sends an IO. If it cannot be sent, returns its end.
    pub(crate) fn submit(&mut self, engine: &mut Engine, io: &Io) -> Option<News> {
        let (ssd, id) = (io.ssd, io.id.0);
        let (epoch, fault) = match self.all.get_mut(&ssd) {
            Some(one) => (one.epoch, one.send(engine, io).err()),
            None => (0, Some(IoFault::Unreachable)),
        };
        fault.map(|fault| News::IoEnd { io: id, epoch, result: Err(fault), ssd })
    }

    pub(crate) fn on_event(&mut self, engine: &mut Engine, now: Instant, event: Event) -> Option<News> {
        match event {
            Event::Completed { controller, completion } => {
                let (ssd, one) = self.find(controller)?;
                let (io, epoch) = (completion.tag, one.epoch);
                let result = ended(engine, completion);
                Some(News::IoEnd { io, epoch, result, ssd })
            }
            Event::Ready { controller, .. } => {
                let (ssd, one) = self.find(controller)?;
                let (nsid, uuid) = (one.record.nsid, one.record.uuid.replace('-', "").to_lowercase());
                let spaces = engine.namespaces(controller);
                let found = spaces.iter().find(|space| space.nsid == nsid);
                let is_it = |space: &&host::Namespace| {
                    space.uuid.is_some_and(|found| {
                        found.iter().map(|byte| format!("{byte:02x}")).collect::<String>() == uuid
                    })
                };
                match found.filter(is_it) {
                    Some(space) => {
                        one.block_size = space.block_size.get();
                        one.is_up = true;
                        one.pause = PAUSE_FIRST;
                        Some(News::Ssd { ssd, is_up: true, epoch: one.epoch })
                    }
                    None => {
                        engine.close(controller);
                        one.wait(now);
                        let SsdRecord { subsystem, uuid, .. } = &one.record;
                        let at = one.record.addresses();
                        let why = format!("namespace {nsid} of {subsystem} at {at} is not SSD {uuid}");
                        drop(self.troubles.send(Trouble::Ssd(why)));
                        None
                    }
                }
            }
            Event::GaveUp { controller, error } => {
                drop(self.troubles.send(Trouble::Ssd(error.to_string())));
                self.lost(now, controller)
            }
            Event::Closed { controller } => self.lost(now, controller),
            Event::Down { .. }
            | Event::NamespacesChanged { .. }
            | Event::Discovered { .. }
            | Event::Woken => None,
        }
    }

    fn lost(&mut self, now: Instant, controller: ControllerId) -> Option<News> {
        let (ssd, one) = self.find(controller)?;
        one.wait(now);
        Some(News::Ssd { ssd, is_up: false, epoch: one.epoch })
    }
}

impl Connection {
    fn wait(&mut self, now: Instant) {
        self.controller = None;
        self.is_up = false;
        self.retry_at = now + self.pause;
        self.pause = Nanos((self.pause.0 * 2).min(PAUSE_LONGEST.0));
    }

    fn send(&mut self, engine: &mut Engine, io: &Io) -> Result<(), IoFault> {
        let controller = self.controller.filter(|_| self.is_up).ok_or(IoFault::Unreachable)?;
        let (operation, at, length) = match &io.kind {
            IoKind::Read { at, length } => (Operation::Read, *at, u64::from(*length)),
            IoKind::Write { at, bytes, durable } => {
                (Operation::Write { durable: *durable }, *at, bytes.len() as u64)
            }
            IoKind::Flush => (Operation::Flush, 0, 0),
            IoKind::Trim { at, length } => (Operation::Deallocate, *at, *length),
        };
        let (lba, blocks) = (Lba(at / self.block_size), (length / self.block_size) as u32);
        let mut request = Request::new(io.id.0, self.record.nsid, operation, lba, blocks);
        request.class = match io.class {
            Class::Urgent => host::Class::Urgent,
            Class::Normal => host::Class::Normal,
            Class::Background => host::Class::Background,
        };
        if operation.has_buffer() {
            let mut buffer = engine.take_buffer(controller, length as usize).ok_or(IoFault::Failed)?;
            if let IoKind::Write { bytes, .. } = &io.kind {
                buffer.copy_from_slice(bytes);
            }
            request = request.with_buffer(buffer);
        }
        engine.submit(controller, request).map_err(|_| IoFault::Failed)
    }
}

fn ended(engine: &mut Engine, completion: Completion) -> Result<Vec<u8>, IoFault> {
    let mut bytes = Vec::new();
    if let Some(buffer) = completion.buffer {
        if completion.operation == Operation::Read {
            bytes.extend_from_slice(&buffer);
        }
        engine.give_buffer(buffer);
    }
    match completion.result {
        Ok(()) => Ok(bytes),
        Err(host::IoError::Status(_)) => Err(IoFault::Failed),
        Err(_) => Err(IoFault::Unreachable),
    }
}

/// The options to connect to an SSD, or why the record cannot be used: then the SSD counts as unreachable.
fn controller_options(options: &Options, record: &SsdRecord) -> Result<ControllerOptions, String> {
    let SsdRecord { domain, subsystem, address, rdma_address, .. } = record;
    let text = match options.transport {
        TransportType::Tcp if address.is_empty() => {
            return Err(format!("target {domain} offers its SSDs over RDMA only (transport `rdma`)"));
        }
        TransportType::Tcp => address,
        TransportType::Rdma => rdma_address.as_ref().ok_or_else(|| {
            format!("target {domain} offers its SSDs over TCP only (rdma:// in its `listen` adds RDMA)")
        })?,
    };
    let mut addresses =
        text.to_socket_addrs().map_err(|error| format!("target {domain} at {text}: {error}"))?;
    let address = addresses.next().ok_or_else(|| format!("target {domain} at {text} has no IP address"))?;
    let subsystem = Nqn::new(subsystem).map_err(|_| format!("{subsystem:?} of target {domain} is no NQN"))?;
    let base = ControllerOptions::new(address, subsystem, options.host.clone(), options.host_id);
    Ok(ControllerOptions {
        transport: options.transport,
        backoff: Backoff::NEVER_RETRY,
        retry: RetryPolicy::Never,
        io_timeout: options.io_timeout,
        keys: options.keys.clone(),
        ..base
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use blob::Settings;
    use host::{Backend, HostId, Keys};
    use units::Bytes;

    /// The address that is connected to by a transport, or why there is none.
    fn reached(
        transport: TransportType,
        address: &str,
        rdma_address: Option<&str>,
    ) -> Result<String, String> {
        let options = Options {
            settings: Settings::new("volume", "test"),
            host: Nqn::new("nqn.2025-01.com.example:host").expect("a name"),
            host_id: HostId([1; 16]),
            transport,
            keys: Keys::default(),
            backend: Backend::Auto,
            memory: Bytes::ZERO,
            io_timeout: Nanos::secs(1),
            spin: None,
        };
        let record = SsdRecord {
            uuid: String::new(),
            domain: "one".to_owned(),
            address: address.to_owned(),
            rdma_address: rdma_address.map(str::to_owned),
            subsystem: "nqn.2025-01.com.example:x".to_owned(),
            nsid: 1,
            block_size: 512,
            capacity: 0,
            mega: 0,
        };
        controller_options(&options, &record).map(|options| {
            assert_eq!(options.transport, transport);
            options.address.to_string()
        })
    }

    #[test]
    fn a_target_is_reached_by_the_transport_that_was_chosen_or_says_which_it_has() {
        let (tcp, rdma) = ("192.0.2.1:4420", Some("192.0.2.1:4421"));
        assert_eq!(reached(TransportType::Tcp, tcp, rdma), Ok(tcp.to_owned()));
        assert_eq!(reached(TransportType::Rdma, tcp, rdma), Ok("192.0.2.1:4421".to_owned()));
        let only = reached(TransportType::Rdma, tcp, None).expect_err("there is none");
        assert!(only.contains("target one offers its SSDs over TCP only"), "{only}");
        let only = reached(TransportType::Tcp, "", rdma).expect_err("there is none");
        assert!(only.contains("target one offers its SSDs over RDMA only"), "{only}");
        let wrong = reached(TransportType::Tcp, "nonsense", None).expect_err("no address");
        assert!(wrong.contains("target one at nonsense"), "{wrong}");
    }
}
