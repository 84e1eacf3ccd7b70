//! Sets up real NVMe/TCP queues and hands their sockets to the load generator.
//!
//! The admin queue and the handshakes use the host side of `nvme` over blocking sockets. When the Connect of an IO queue is answered,
//! nothing is outstanding on its socket, and the load generator takes it over.

use anyhow::{Context, Result, bail, ensure};
use nvme::host::{AdminCommand, AdminData, AdminEvent, AdminOptions, HostController, Names, Purpose, Tag};
use nvme::spec::{ConnectCommand, ConnectData, Cqe, HostId, Nqn, Sqe};
use nvme::tcp::pdu::Digests;
use nvme::tcp::{HostConnection, HostEvent, HostOptions, Transfer};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use units::Nanos;

/// The default subsystem of `gimbal serve`.
const SUBSYSTEM: &str = "nqn.2025-01.io.gimbal:ssd";
/// Entries of each IO queue, as Linux has them.
const ENTRIES: u16 = 128;
/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A controller of the target: its admin queue, held open.
pub(crate) struct Association {
    admin: Queue,
    controller: HostController,
    names: Names,
    address: SocketAddr,
    /// Unused IO queues, held open.
    idle: Vec<TcpStream>,
}

impl Association {
    /// Connects as the host with this number; each number is a different tenant.
    pub(crate) fn new(address: SocketAddr, host: u16, io_queues: u16) -> Result<Association> {
        let name = |text: &str| Nqn::new(text).with_context(|| format!("{text} is not an NQN"));
        let mut host_id = [0x42; 16];
        host_id[..2].copy_from_slice(&host.to_le_bytes());
        let names = Names {
            subsystem: name(SUBSYSTEM)?,
            host: name(&format!("nqn.2025-01.io.gimbal:bench-{host}"))?,
            host_id: HostId(host_id),
        };
        let options = AdminOptions {
            purpose: Purpose::Io,
            io_queues,
            credits: false,
            keep_alive: Nanos::ZERO,
            authenticates: false,
        };
        let mut association = Association {
            admin: Queue::open(address, Digests::default())?,
            controller: HostController::new(names.clone(), options),
            names,
            address,
            idle: Vec::new(),
        };
        association.bring_up().with_context(|| format!("connecting to {address}"))?;
        ensure!(
            association.controller.info().io_queues >= io_queues,
            "the target grants {} IO queues, not {io_queues}",
            association.controller.info().io_queues
        );
        Ok(association)
    }

    fn bring_up(&mut self) -> Result<()> {
        let began = Instant::now();
        let now = || units::Instant::ZERO + Nanos(began.elapsed().as_nanos() as u64);
        loop {
            while let Some(event) = self.controller.poll_event() {
                if matches!(event, AdminEvent::Ready(_)) {
                    return Ok(());
                }
            }
            ensure!(began.elapsed() < PATIENCE, "the controller is not ready after {PATIENCE:?}");
            match self.controller.poll(now())? {
                Some((Tag::Sequence, command)) => {
                    let (cqe, data) = self.admin.execute(&command)?;
                    self.controller.on_completed(now(), Tag::Sequence, &cqe, &data)?;
                }
                Some((tag, _)) => bail!("{tag:?} is requested before the controller is ready"),
                // Ask for the state of the controller again a little later.
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Connects IO queue `id`, without queue flow control, as Linux and SPDK do, and returns its socket.
    pub(crate) fn io_queue(&self, id: u16, digests: Digests) -> Result<TcpStream> {
        self.io_queue_of(id, ENTRIES, digests)
    }

    /// Holds an unused IO queue open.
    pub(crate) fn keep(&mut self, queue: TcpStream) {
        self.idle.push(queue);
    }

    /// Connects a queue with this many entries.
    pub(crate) fn io_queue_of(&self, id: u16, entries: u16, digests: Digests) -> Result<TcpStream> {
        let command = ConnectCommand {
            record_format: 0,
            queue_id: id,
            sqsize: entries - 1,
            attributes: ConnectCommand::ATTRIBUTE_NO_FLOW_CONTROL,
            keep_alive_timeout: 0,
        };
        let Names { subsystem, host, host_id } = &self.names;
        let controller_id = self.controller.info().controller_id;
        let data = ConnectData::new(*host_id, host, subsystem, controller_id);
        let data = AdminData::ToController(zerocopy::IntoBytes::as_bytes(&data).to_vec());
        let mut queue = Queue::open(self.address, digests)?;
        let (cqe, _) = queue.execute(&AdminCommand { sqe: command.to_sqe(), data })?;
        self.controller.on_io_queue_answer(&cqe).with_context(|| format!("connecting IO queue {id}"))?;
        ensure!(queue.digests == digests, "the target grants {:?}", queue.digests);
        Ok(queue.socket)
    }
}

/// One connection that executes one command at a time.
struct Queue {
    socket: TcpStream,
    connection: HostConnection<Vec<u8>>,
    digests: Digests,
    next_cid: u16,
}

impl Queue {
    fn open(address: SocketAddr, digests: Digests) -> Result<Queue> {
        let socket = TcpStream::connect(address).with_context(|| format!("connecting to {address}"))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let connection = HostConnection::new(HostOptions { digests, ..HostOptions::default() });
        Ok(Queue { socket, connection, digests, next_cid: 0 })
    }

    /// Sends a command and waits for its answer and the data that comes with it.
    fn execute(&mut self, command: &AdminCommand) -> Result<(Cqe, Vec<u8>)> {
        let transfer = match &command.data {
            AdminData::None => Transfer::None,
            AdminData::ToController(data) => Transfer::ToController(data.clone(), data.len() as u32),
            AdminData::FromController(length) => Transfer::FromController(vec![0; *length as usize], *length),
        };
        let sqe: Sqe = command.sqe.with_cid(self.next_cid);
        self.next_cid += 1;
        let submitted = self.connection.submit(sqe, transfer);
        submitted.map_err(|error| anyhow::anyhow!("the queue refuses: {:?}", error.refusal))?;
        let (mut events, mut bytes) = (Vec::new(), [0; 4096]);
        loop {
            let mut out = Vec::new();
            self.connection.poll_transmit(&mut out);
            self.socket.write_all(&out).context("sending a command")?;
            let count = self.socket.read(&mut bytes).context("waiting for an answer")?;
            ensure!(count > 0, "the target closed the connection");
            self.connection.on_bytes(&bytes[..count], &mut events)?;
            for event in events.drain(..) {
                match event {
                    HostEvent::Initialized { digests, .. } => self.digests = digests,
                    HostEvent::Completed { cqe, data, received } => {
                        let mut data = data.unwrap_or_default();
                        data.truncate(received as usize);
                        return Ok((cqe, data));
                    }
                }
            }
        }
    }
}
