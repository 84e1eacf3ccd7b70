//! A target in memory, sans-IO: `nvme`'s connections and subsystems over a byte vector; tests can control
//! everything.

use nvme::buffer::{BufferSource, BufferUse};
use nvme::queue::{FlowControl, TargetEvent};
use nvme::rdma::{COMMAND_BYTES, RdmaLimits, RdmaTarget, RdmaWork};
use nvme::spec::connect::ConnectCommand;
use nvme::spec::discovery::{SubsystemType, TransportType};
use nvme::spec::nqn::Nqn;
use nvme::spec::{Cqe, Sqe, Status};
use nvme::subsystem::{
    Action, BlockSize, DiscoveryAddress, DiscoveryRecord, HostAccess, IoCommand, IoOp, NamespaceInfo, Output,
    QueueKey, Subsystem, SubsystemConfig, read_connect, unknown_subsystem,
};
use nvme::tcp::{TargetConnection, TargetLimits};
use std::collections::{BTreeMap, VecDeque};
use units::Instant;

/// Bytes of a block.
pub(super) const BLOCK: usize = 512;
/// Blocks of namespace 1.
pub(super) const BLOCKS: u64 = 16384;
/// The subsystem with namespace 1.
pub(super) const NQN: &str = "nqn.2024-01.test:disk";

/// Lends vectors without limit.
struct Heap;

impl BufferSource for Heap {
    type Buffer = Vec<u8>;
    fn take(&mut self, length: usize, _: BufferUse) -> Option<Vec<u8>> {
        Some(vec![0; length])
    }
}

struct Peer {
    connection: Wire,
    /// Receives of a queue pair that are posted.
    receives: u32,
    /// Bytes that the connection has not taken yet.
    unread: Vec<u8>,
    /// The subsystem it connected to.
    subsystem: Option<usize>,
}

/// The target's end of a connection.
enum Wire {
    Tcp(TargetConnection<Vec<u8>>),
    Rdma(RdmaTarget<Vec<u8>>),
}

impl Wire {
    fn reply(&mut self, cqe: Cqe) {
        match self {
            Wire::Tcp(connection) => connection.reply(cqe),
            Wire::Rdma(pair) => pair.reply(cqe),
        }
    }

    fn reply_with_data(&mut self, cqe: Cqe, data: Vec<u8>, length: u32) {
        match self {
            Wire::Tcp(connection) => connection.reply_with_data(cqe, data, length),
            Wire::Rdma(pair) => pair.reply_with_data(cqe, data, length),
        }
    }
}

struct Held {
    slot: u32,
    sqe: Sqe,
    command: IoCommand,
    data: Option<Vec<u8>>,
}

/// The target.
pub(super) struct TestTarget {
    subsystems: Vec<Subsystem>,
    peers: BTreeMap<u32, Peer>,
    next_slot: u32,
    pub(super) disk: Vec<u8>,
    pub(super) limits: TargetLimits,
    /// The credit in completions if the host has enabled credits.
    pub(super) credit: u32,
    /// Dword 1 of the same completions.
    pub(super) busy: u32,
    /// Whether IOs are held until `release`.
    pub(super) holds: bool,
    held: VecDeque<Held>,
    /// Most IOs held at once.
    pub(super) held_max: usize,
    /// The keep-alive timeout of the last Connect of an admin queue, in milliseconds.
    pub(super) keep_alive_timeout: Option<u32>,
    /// Whether nothing is answered any more.
    pub(super) is_silent: bool,
    /// Flips a bit in the next data sent.
    pub(super) corrupts_next: bool,
    /// Most bytes of data in an answer that is no IO's.
    pub(super) reply_max: u32,
}

impl TestTarget {
    pub(super) fn new(edit: impl FnOnce(&mut SubsystemConfig)) -> TestTarget {
        let nqn = Nqn::new(NQN).expect("a name");
        let mut config = SubsystemConfig::io(nqn.clone(), "1")
            .with_namespace(1, NamespaceInfo::new(BlockSize::B512, BLOCKS));
        edit(&mut config);
        let io = Subsystem::new(config).expect("a good configuration");
        let mut discovery = Subsystem::new(SubsystemConfig::discovery("2")).expect("a good configuration");
        discovery.set_discovery_records(vec![DiscoveryRecord {
            subsystem: nqn,
            kind: SubsystemType::Nvm,
            transport: TransportType::Tcp,
            address: DiscoveryAddress::AsReached { is_ipv6: false, port: 4420 },
            hosts: HostAccess::Any,
            secure: nvme::spec::discovery::SecureChannel::Without,
        }]);
        TestTarget {
            subsystems: vec![io, discovery],
            peers: BTreeMap::new(),
            next_slot: 0,
            disk: vec![0; BLOCK * BLOCKS as usize],
            limits: TargetLimits::default(),
            credit: 32,
            busy: 0,
            holds: false,
            held: VecDeque::new(),
            held_max: 0,
            keep_alive_timeout: None,
            is_silent: false,
            corrupts_next: false,
            reply_max: u32::MAX,
        }
    }

    pub(super) fn subsystem(&mut self) -> &mut Subsystem {
        &mut self.subsystems[0]
    }

    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    pub(super) fn accept(&mut self) -> u32 {
        let slot = self.next_slot;
        self.next_slot += 1;
        let connection = Wire::Tcp(TargetConnection::new(self.limits));
        self.peers.insert(slot, Peer { connection, receives: 0, unread: Vec::new(), subsystem: None });
        slot
    }

    /// Accepts a queue pair of this many entries.
    pub(super) fn accept_pair(&mut self, entries: u32) -> u32 {
        let slot = self.accept();
        let limits = RdmaLimits { entries, transfer_max: 2 << 20, reads_max: 2, zeroes: 4096 };
        self.peer(slot).connection = Wire::Rdma(RdmaTarget::new(limits));
        slot
    }

    /// Takes a message.
    pub(super) fn on_capsule(&mut self, now: Instant, slot: u32, command: &[u8; COMMAND_BYTES]) {
        let mut events = Vec::new();
        self.peer(slot).receives -= 1;
        let pair = self.pair(slot);
        pair.on_capsule(command, COMMAND_BYTES as u32, &mut Heap, &mut events)
            .expect("our host keeps the rules");
        self.on_events(now, slot, events);
    }

    /// The data of a write was read from the host.
    pub(super) fn on_read(&mut self, now: Instant, slot: u32, tag: u16, data: Vec<u8>) {
        let mut events = Vec::new();
        self.pair(slot).on_read(tag, data, &mut events);
        self.on_events(now, slot, events);
    }

    /// Whether a receive is posted for one more message.
    pub(super) fn takes_message(&mut self, slot: u32) -> bool {
        if self.is_silent || !self.is_connected(slot) {
            return false;
        }
        while let Some(RdmaWork::Receive) = self.pair(slot).poll(0, &mut Vec::new()) {
            self.peer(slot).receives += 1;
        }
        self.peer(slot).receives > 0
    }

    /// The next work of a queue pair that is no receive.
    pub(super) fn poll_work(&mut self, slot: u32) -> Option<RdmaWork<Vec<u8>>> {
        self.takes_message(slot);
        if self.is_silent || !self.is_connected(slot) {
            return None;
        }
        self.pair(slot).poll(usize::MAX, &mut Vec::new())
    }

    fn pair(&mut self, slot: u32) -> &mut RdmaTarget<Vec<u8>> {
        match &mut self.peer(slot).connection {
            Wire::Rdma(pair) => pair,
            Wire::Tcp(_) => panic!("a socket has no messages"),
        }
    }

    fn on_events(&mut self, now: Instant, slot: u32, events: Vec<TargetEvent<Vec<u8>>>) {
        for event in events {
            if let TargetEvent::Command { sqe, data } = event {
                self.on_command(now, slot, sqe, data);
            }
        }
        self.poll(now);
    }

    pub(super) fn on_disconnect(&mut self, now: Instant, slot: u32) {
        if let Some(Peer { subsystem: Some(subsystem), .. }) = self.peers.remove(&slot) {
            self.subsystems[subsystem].on_disconnect(now, key(slot));
        }
        self.held.retain(|held| held.slot != slot);
    }

    /// The process dies: connections and IOs are gone, the disk stays.
    pub(super) fn crash(&mut self, now: Instant) {
        let slots: Vec<u32> = self.peers.keys().copied().collect();
        slots.into_iter().for_each(|slot| self.on_disconnect(now, slot));
    }

    pub(super) fn is_connected(&self, slot: u32) -> bool {
        self.peers.contains_key(&slot)
    }

    /// Takes received bytes. Returns false when the connection has ended.
    pub(super) fn on_bytes(&mut self, now: Instant, slot: u32, bytes: &[u8]) -> bool {
        let Some(peer) = self.peers.get_mut(&slot) else { return false };
        peer.unread.extend_from_slice(bytes);
        let mut events = Vec::new();
        let Wire::Tcp(connection) = &mut peer.connection else { panic!("a queue pair has no bytes") };
        let result = connection.on_bytes(&peer.unread, &mut Heap, &mut events);
        let taken = *result.as_ref().unwrap_or(&peer.unread.len());
        peer.unread.drain(..taken);
        let is_open = result.is_ok();
        self.on_events(now, slot, events);
        is_open
    }

    pub(super) fn poll(&mut self, now: Instant) {
        for index in 0..self.subsystems.len() {
            while let Some(output) = self.subsystems[index].poll(now) {
                match output {
                    Output::Complete { queue, cqe } => self.peer(queue.slot).connection.reply(cqe),
                    Output::Fence { queue, cqe, .. } => self.peer(queue.slot).connection.reply(cqe),
                    Output::Store { nsid, ticket, .. } => {
                        self.subsystems[index].on_stored(nsid, ticket, true)
                    }
                    Output::Forget { .. } => {
                        unreachable!("our host never resets a controller with outstanding event requests")
                    }
                    Output::CloseQueue { queue, .. } => self.on_disconnect(now, queue.slot),
                }
            }
        }
    }

    fn peer(&mut self, slot: u32) -> &mut Peer {
        self.peers.get_mut(&slot).expect("only open connections are answered")
    }

    fn on_command(&mut self, now: Instant, slot: u32, sqe: Sqe, data: Option<Vec<u8>>) {
        let data = data.map(|mut data| {
            data.truncate(sqe.sgl_length() as usize);
            data
        });
        let Some(subsystem) = self.peers[&slot].subsystem else {
            return self.on_connect(now, slot, &sqe, data);
        };
        match self.subsystems[subsystem].on_command(now, key(slot), &sqe, data.as_deref()) {
            Action::Reply { cqe, data: None } => self.peer(slot).connection.reply(cqe),
            Action::Reply { cqe, data: Some(data) } => {
                let length = sqe.sgl_length().min(self.reply_max);
                self.peer(slot).connection.reply_with_data(cqe, data, length);
            }
            Action::Credits { enabled, cqe } => {
                let credit = if enabled { self.credit } else { 0 };
                self.peer(slot).connection.reply(cqe.with_dw0(credit));
            }
            Action::GrantQueues { queues, cqe } => {
                let cqe = self.subsystems[subsystem].on_queues_granted(key(slot), queues, cqe);
                self.peer(slot).connection.reply(cqe);
            }
            Action::Authenticate(_) => {
                let cqe = Cqe::new(sqe.cid(), Status::INVALID_OPCODE);
                self.peer(slot).connection.reply(cqe);
            }
            Action::Fence { cqe, .. } => self.peer(slot).connection.reply(cqe),
            Action::Abort { cqe, .. } => self.peer(slot).connection.reply(cqe.abort_failed()),
            Action::Pending | Action::Storing => {}
            Action::Io(command) => {
                self.held.push_back(Held { slot, sqe, command, data });
                self.held_max = self.held_max.max(self.held.len());
                if !self.holds {
                    self.release(1);
                }
            }
        }
    }

    fn on_connect(&mut self, now: Instant, slot: u32, sqe: &Sqe, data: Option<Vec<u8>>) {
        let connect = match read_connect(sqe, data.as_deref()) {
            Ok(connect) => connect,
            Err(refusal) => return self.peer(slot).connection.reply(refusal),
        };
        let command = ConnectCommand::parse(sqe);
        if command.queue_id == 0 {
            self.keep_alive_timeout = Some(command.keep_alive_timeout);
        }
        let wanted = connect.subsystem_nqn();
        let found = self.subsystems.iter().position(|subsystem| Some(subsystem.nqn()) == wanted.as_ref());
        let Some(index) = found else { return self.peer(slot).connection.reply(unknown_subsystem(sqe)) };
        match self.subsystems[index].on_connect(now, key(slot), sqe, &connect) {
            Err(refusal) => self.peer(slot).connection.reply(refusal),
            Ok(connected) => {
                let credits = connected.credits;
                self.subsystems[index].set_local_address(key(slot), ([127, 0, 0, 1], 4420).into());
                let peer = self.peer(slot);
                peer.subsystem = Some(index);
                match &mut peer.connection {
                    Wire::Tcp(connection) => {
                        connection.set_queue(connected.entries, FlowControl::Enabled);
                        connection.set_success_without_response(!credits);
                    }
                    Wire::Rdma(pair) => pair.set_queue(connected.entries, FlowControl::Enabled),
                }
                peer.connection.reply(connected.cqe);
            }
        }
    }

    /// Carries out and answers up to `count` of the held IOs, oldest first.
    pub(super) fn release(&mut self, count: usize) {
        for Held { slot, sqe, command, data } in
            self.held.drain(..count.min(self.held.len())).collect::<Vec<_>>()
        {
            let start = command.lba.0 as usize * BLOCK;
            let range = start..start + command.blocks as usize * BLOCK;
            let mut status = Status::SUCCESS;
            let mut read = None;
            match (command.op, data) {
                (IoOp::Read, _) => read = Some(self.disk[range].to_vec()),
                (IoOp::Write, Some(data)) => self.disk[range].copy_from_slice(&data),
                (IoOp::WriteZeroes { .. }, _) => self.disk[range].fill(0),
                (IoOp::Compare, Some(data)) if self.disk[range.clone()] != data => {
                    status = Status::COMPARE_FAILURE
                }
                (IoOp::Deallocate(ranges), _) => ranges.iter().for_each(|range| {
                    let start = range.lba.0 as usize * BLOCK;
                    self.disk[start..start + range.blocks as usize * BLOCK].fill(0);
                }),
                _ => {}
            }
            let credits = self.subsystems[0].credits(key(slot));
            let tells = credits && matches!(sqe.opcode(), 1 | 2);
            let (credit, busy) = if tells { (self.credit, self.busy) } else { (0, 0) };
            let cqe = Cqe::new(sqe.cid(), status).with_dw0(credit).with_dw1(busy);
            let connection = &mut self.peer(slot).connection;
            match read {
                Some(data) => {
                    let length = data.len() as u32;
                    connection.reply_with_data(cqe, data, length);
                }
                None => connection.reply(cqe),
            }
        }
    }

    /// The bytes that a connection has to send.
    pub(super) fn transmit(&mut self, slot: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.is_silent {
            return bytes;
        }
        if let Some(Peer { connection: Wire::Tcp(connection), .. }) = self.peers.get_mut(&slot) {
            connection.poll_transmit(&mut bytes);
        }
        if self.corrupts_next && bytes.len() > BLOCK {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            self.corrupts_next = false;
        }
        bytes
    }
}

fn key(slot: u32) -> QueueKey {
    QueueKey { slot, generation: 0 }
}
