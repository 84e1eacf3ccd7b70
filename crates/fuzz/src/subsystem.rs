//! A subsystem that gets commands of every opcode from several hosts, on queues that are created and deleted,
//! while namespaces change and IOs complete late.
//!
//! Holds: every command is answered once: at once, when its IO ends, when its reservations are stored, or by
//!        an event it requested; an IO lies within its namespace and moves as many bytes as its descriptor says; no
//!        answer carries more data than the command has room for; a preempted host is fenced, not the host that
//!        preempts; controllers, event requests and outputs are bounded; reservations are consistent, and their
//!        stored form can be restored; after `poll` the next timeout is in the future.

use crate::SUBSYSTEM;
use crate::command::{any_command, connect, connect_data, data, data_length, descriptor, fused_pair, host};
use crate::input::Input;
use nvme::spec::connect::CNTLID_DYNAMIC;
use nvme::spec::opcode::{admin, fabrics};
use nvme::spec::property::{Configuration, offset};
use nvme::spec::{AnaState, AuthenticationCommand, Cqe, Direction, Nqn, Sqe, Status};
use nvme::subsystem::{
    Action, BlockSize, FusedAction, HostAccess, IoCommand, IoOp, Limits, NamespaceInfo, Output, QueueKey,
    Subsystem, SubsystemConfig,
};
use std::collections::BTreeSet;
use units::{Instant, Nanos};

const HOSTS: u32 = 4;
const CONNECTIONS_MAX: usize = 16;
const LENGTH_MAX: u32 = 16384;
const CONTROLLERS_MAX: u16 = 6;
const CONTROLLERS_PER_HOST_MAX: u16 = 3;
const EVENT_REQUESTS_MAX: u8 = 3;
const NAMESPACES_MAX: u32 = 8;

/// The target.
pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut world = World::new(&mut input);
    while !input.is_empty() {
        world.step(&mut input);
        world.drain_outputs();
        world.check();
    }
    world.end();
}

/// A connection whose Connect succeeded.
#[derive(Debug)]
struct Connection {
    key: QueueKey,
    /// 0 for the admin queue.
    queue_id: u16,
    host: u32,
    /// Event requests that are outstanding.
    waiting: BTreeSet<u16>,
    /// Commands that wait until their reservations are stored.
    storing: BTreeSet<u16>,
    /// Outstanding IOs.
    ios: Vec<(u16, IoCommand)>,
    /// The subsystem has asked to close it.
    closing: bool,
}

struct World {
    subsystem: Subsystem,
    now: Instant,
    connections: Vec<Connection>,
    generation: u32,
    next_cid: u16,
    is_discovery: bool,
    /// Reservations that are being stored.
    to_store: Vec<(u32, u64)>,
}

impl World {
    fn new(input: &mut Input<'_>) -> World {
        let is_discovery = input.one_in(16);
        let mut config = if is_discovery {
            SubsystemConfig::discovery("fuzz-d")
        } else {
            let read_only = NamespaceInfo { read_only: true, ..NamespaceInfo::new(BlockSize::B4096, 10) };
            SubsystemConfig::io(Nqn::new(SUBSYSTEM).expect("a valid NQN"), "fuzz")
                .with_namespace(1, NamespaceInfo::new(BlockSize::B512, 131_072))
                .with_namespace(2, NamespaceInfo::new(BlockSize::B4096, 16384))
                .with_namespace(4, read_only)
        };
        config.limits = Limits {
            controllers_max: CONTROLLERS_MAX,
            controllers_per_host_max: CONTROLLERS_PER_HOST_MAX,
            event_requests_max: EVENT_REQUESTS_MAX,
            registrants_max: 2,
            error_log_entries: 4,
            io_queues_max: 3,
            queue_entries_max: 128,
            namespaces_max: NAMESPACES_MAX,
            registrants_per_host_max: 1,
            ..Limits::default()
        };
        config.persistence = input.flag();
        let subsystem = Subsystem::new(config).expect("a valid configuration");
        let mut world = World {
            subsystem,
            now: Instant(1_000_000_000),
            connections: Vec::new(),
            generation: 0,
            next_cid: 0,
            is_discovery,
            to_store: Vec::new(),
        };
        for host in 0..=input.below(HOSTS) {
            world.bring_up(host);
        }
        world
    }

    /// An enabled controller of `host` with an IO queue, if the limits allow it.
    fn bring_up(&mut self, host: u32) {
        let command = |queue_id| nvme::spec::ConnectCommand {
            record_format: 0,
            queue_id,
            sqsize: 31,
            attributes: 0,
            keep_alive_timeout: 5000,
        };
        let Some(controller) = self.connect(host, &command(0).to_sqe(), None) else { return };
        let admin = self.connections.len() - 1;
        let enable = Configuration::host(false).enabled();
        let set = Sqe::fabrics(fabrics::PROPERTY_SET).with_cdw10_15([0, offset::CC, enable.0, 0, 0, 0]);
        self.command(admin, set, None);
        if !self.is_discovery {
            self.connect(host, &command(1).to_sqe(), Some(controller));
        }
    }

    fn connect(&mut self, host: u32, sqe: &Sqe, controller: Option<u16>) -> Option<u16> {
        let slots: BTreeSet<u32> = self.connections.iter().map(|connection| connection.key.slot).collect();
        let slot = (0..).find(|slot| !slots.contains(slot)).expect("there are more slots than connections");
        self.generation += 1;
        let key = QueueKey { slot, generation: self.generation };
        let name = self.subsystem.nqn().as_str().to_owned();
        let data = connect_data(host, &name, controller);
        match self.subsystem.on_connect(self.now, key, sqe, &data) {
            Ok(connected) => {
                assert_eq!(connected.cqe.cid(), sqe.cid());
                assert!(connected.cqe.status().is_success());
                assert_eq!(connected.host_nqn, self::host(host).0);
                assert!((2..=128).contains(&connected.entries));
                let queue_id = connected.queue_id;
                let (waiting, storing, ios) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
                let closing = false;
                self.connections.push(Connection { key, queue_id, host, waiting, storing, ios, closing });
                Some(connected.controller_id)
            }
            Err(refusal) => {
                assert_eq!(refusal.cid(), sqe.cid());
                assert!(!refusal.status().is_success());
                None
            }
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.below(32) {
            0 if self.connections.len() < CONNECTIONS_MAX => {
                let controllers: Vec<u16> = self.subsystem.controllers().map(|(id, _)| id).collect();
                let controller = match controllers.len() {
                    0 => None,
                    count if input.flag() => Some(controllers[input.below(count as u32) as usize]),
                    _ => input.one_in(4).then(|| input.half()),
                };
                let sqe = connect(input).to_sqe().with_cid(input.half());
                self.connect(input.below(HOSTS), &sqe, controller);
            }
            1 if self.connections.len() < CONNECTIONS_MAX => self.bring_up(input.below(HOSTS)),
            2 => self.disconnect(input),
            3..=6 => self.complete_io(input),
            7 => self.now += Nanos::millis(input.pick(&[0, 1, 1000, 5000, 100_000])),
            8 => self.reconfigure(input),
            9 | 10 if !self.to_store.is_empty() => {
                let index = input.below(self.to_store.len() as u32) as usize;
                let (nsid, ticket) = self.to_store.swap_remove(index);
                self.subsystem.on_stored(nsid, ticket, !input.one_in(4));
            }
            11 | 12 => self.fused(input),
            _ => {
                if self.connections.is_empty() {
                    return;
                }
                let index = input.below(self.connections.len() as u32) as usize;
                let sqe = any_command(input);
                let block_size = if sqe.nsid() == 1 { 512 } else { 4096 };
                let length = data_length(input, &sqe, block_size, LENGTH_MAX);
                let sqe = sqe.with_sgl(descriptor(input, length, is_short(length)));
                let sends = sqe.direction() == Direction::ToController || input.one_in(16);
                let data = (sends && length > 0).then(|| data(input, &sqe, length));
                self.command(index, sqe, data.as_deref());
            }
        }
    }

    fn command(&mut self, index: usize, sqe: Sqe, data: Option<&[u8]>) {
        self.next_cid = self.next_cid.wrapping_add(1);
        let sqe = sqe.with_cid(self.next_cid);
        let key = self.connections[index].key;
        let action = self.subsystem.on_command(self.now, key, &sqe, data);
        let connection = &mut self.connections[index];
        match action {
            Action::Reply { cqe, data } => {
                self.check_reply(index, &sqe, cqe, data.as_deref());
            }
            Action::Credits { cqe, .. } => assert_eq!(cqe.cid(), sqe.cid()),
            Action::GrantQueues { queues, cqe } => {
                assert_eq!((cqe.cid(), connection.queue_id), (sqe.cid(), 0));
                assert!(queues > 0);
                self.subsystem.on_queues_granted(key, queues, cqe);
            }
            Action::Authenticate(command) => {
                assert!(sqe.is_fabrics());
                let (AuthenticationCommand::Send { length } | AuthenticationCommand::Receive { length }) =
                    command;
                assert_eq!(length, sqe.sgl_length());
            }
            Action::Fence { nsid, queues, cqe } => {
                assert_eq!((cqe.cid(), nsid), (sqe.cid(), sqe.nsid()));
                assert!(!queues.is_empty());
                let unique: BTreeSet<QueueKey> = queues.iter().copied().collect();
                assert_eq!(unique.len(), queues.len(), "{queues:?}");
                let own = self::host(connection.host).1;
                for queue in queues {
                    let fenced = self.connections.iter().find(|other| other.key == queue);
                    let fenced = fenced.expect("a fenced queue exists");
                    assert_ne!(self::host(fenced.host).1, own, "the preempting host is fenced");
                    assert_ne!(fenced.queue_id, 0);
                }
            }
            Action::Abort { queue, cqe, .. } => {
                assert_eq!((cqe.cid(), sqe.opcode(), connection.queue_id), (sqe.cid(), admin::ABORT, 0));
                let host = connection.host;
                let named = self.connections.iter().find(|other| other.key == queue);
                let named = named.expect("an Abort names a queue that exists");
                assert_eq!((named.host, named.queue_id != 0), (host, true), "another host's IO is aborted");
            }
            Action::Pending => {
                assert_eq!((sqe.opcode(), connection.queue_id), (admin::ASYNC_EVENT_REQUEST, 0));
                assert!(connection.waiting.insert(sqe.cid()));
                assert!(connection.waiting.len() <= usize::from(EVENT_REQUESTS_MAX));
            }
            Action::Storing => {
                assert!(connection.storing.insert(sqe.cid()));
            }
            Action::Io(command) => {
                assert_ne!(connection.queue_id, 0, "an IO on an admin queue");
                check_io(&self.subsystem, &sqe, &command, data);
                connection.ios.push((sqe.cid(), command));
            }
        }
    }

    /// Two commands that the transport has paired as fused.
    fn fused(&mut self, input: &mut Input<'_>) {
        if self.connections.is_empty() {
            return;
        }
        let index = input.below(self.connections.len() as u32) as usize;
        let (sqes, data): (Vec<Sqe>, Vec<Option<Vec<u8>>>) = fused_pair(input)
            .into_iter()
            .map(|sqe| {
                self.next_cid = self.next_cid.wrapping_add(1);
                let block_size = if sqe.nsid() == 1 { 512 } else { 4096 };
                let length = data_length(input, &sqe, block_size, LENGTH_MAX);
                let sqe = sqe.with_cid(self.next_cid).with_sgl(descriptor(input, length, is_short(length)));
                (sqe, (length > 0 && !input.one_in(16)).then(|| data(input, &sqe, length)))
            })
            .unzip();
        let connection = &mut self.connections[index];
        let pair = [&sqes[0], &sqes[1]];
        match self.subsystem.on_fused_commands(connection.key, pair, [data[0].as_deref(), data[1].as_deref()])
        {
            FusedAction::Reply(cqes) => {
                assert_eq!(cqes.map(|cqe| cqe.cid()), pair.map(|sqe| sqe.cid()));
                assert!(cqes.iter().all(|cqe| !cqe.status().is_success()), "{cqes:?}");
            }
            FusedAction::Io(command) => {
                assert_ne!(connection.queue_id, 0, "an IO on an admin queue");
                for (sqe, data) in pair.into_iter().zip(&data) {
                    check_io(&self.subsystem, sqe, &command, data.as_deref());
                }
                assert_eq!((command.op.clone(), command.blocks), (IoOp::CompareAndWrite, 1));
                let statuses = input.pick(&[
                    [Status::SUCCESS; 2],
                    [Status::SUCCESS, Status::WRITE_FAULT],
                    [Status::COMPARE_FAILURE, Status::FAILED_FUSED],
                ]);
                self.subsystem.on_fused_completed(
                    connection.key,
                    pair.map(|sqe| sqe.cid()),
                    &command,
                    statuses,
                );
            }
        }
    }

    fn check_reply(&mut self, index: usize, sqe: &Sqe, cqe: Cqe, data: Option<&[u8]>) {
        let connection = &mut self.connections[index];
        if cqe.cid() != sqe.cid() {
            // An event may complete an earlier request than the one just received.
            assert_eq!(sqe.opcode(), admin::ASYNC_EVENT_REQUEST);
            assert!(connection.waiting.remove(&cqe.cid()), "{cqe:?} completes no outstanding request");
            connection.waiting.insert(sqe.cid());
        }
        if let Some(data) = data {
            assert!(cqe.status().is_success(), "{cqe:?} with data");
            assert_eq!(sqe.direction(), Direction::FromController);
            assert!(data.len() <= sqe.sgl_length() as usize, "{} bytes for {sqe:?}", data.len());
        }
    }

    fn complete_io(&mut self, input: &mut Input<'_>) {
        let busy: Vec<usize> =
            (0..self.connections.len()).filter(|at| !self.connections[*at].ios.is_empty()).collect();
        if busy.is_empty() {
            return;
        }
        let connection = &mut self.connections[busy[input.below(busy.len() as u32) as usize]];
        let (cid, command) = connection.ios.swap_remove(input.below(connection.ios.len() as u32) as usize);
        let status =
            input.pick(&[Status::SUCCESS, Status::SUCCESS, Status::WRITE_FAULT, Status::COMPARE_FAILURE]);
        self.subsystem.on_io_completed(connection.key, cid, &command, status);
    }

    fn disconnect(&mut self, input: &mut Input<'_>) {
        if self.connections.is_empty() {
            return;
        }
        let closing =
            self.connections.iter().position(|connection| connection.closing && connection.ios.is_empty());
        let any = input.below(self.connections.len() as u32) as usize;
        let mut connection = self.connections.swap_remove(closing.unwrap_or(any));
        for (cid, command) in connection.ios.drain(..) {
            self.subsystem.on_io_completed(connection.key, cid, &command, Status::ABORT_REQUESTED);
        }
        self.subsystem.on_disconnect(self.now, connection.key);
        // A second call changes nothing.
        self.subsystem.on_disconnect(self.now, connection.key);
    }

    /// Changes the namespaces or the allowed hosts. The subsystem may refuse the change.
    fn reconfigure(&mut self, input: &mut Input<'_>) {
        let nsid = input.below(9);
        match input.below(6) {
            0 => {
                let blocks = input.pick(&[0, 1, 131_072, u64::MAX]);
                let _ = self.subsystem.add_namespace(nsid, NamespaceInfo::new(BlockSize::B4096, blocks));
            }
            1 => {
                let _ = self.subsystem.remove_namespace(nsid);
            }
            2 => {
                let _ = self.subsystem.resize_namespace(nsid, input.pick(&[0, 1, 100, 131_072]));
            }
            3 => {
                let state =
                    input.pick(&[AnaState::Optimized, AnaState::NonOptimized, AnaState::Inaccessible]);
                let group = input.below(4);
                let _ = self.subsystem.set_ana_state(group, state);
                let _ = self.subsystem.set_ana_group(nsid, group);
                self.subsystem.withhold_namespaces(nsid == 8);
            }
            4 => {
                let allowed = (0..input.below(HOSTS + 1)).map(|number| host(number).0).collect();
                self.subsystem.set_hosts(HostAccess::Only(allowed));
            }
            _ => self.subsystem.set_hosts(HostAccess::Any),
        }
    }

    fn drain_outputs(&mut self) {
        let storing: usize = self.connections.iter().map(|connection| connection.storing.len()).sum();
        let events = self.connections.len() * (usize::from(EVENT_REQUESTS_MAX) + 1);
        // Each waiting command is answered once and stores at most one copy of each namespace's reservations.
        let most = events + storing + NAMESPACES_MAX as usize;
        let mut count = 0;
        while let Some(output) = self.subsystem.poll(self.now) {
            count += 1;
            assert!(count <= most, "{count} outputs for {} connections", self.connections.len());
            match output {
                Output::Complete { queue, cqe } => {
                    // The queue may have been deleted after the completion was queued.
                    if let Some(connection) = self.connections.iter_mut().find(|other| other.key == queue)
                        && !connection.storing.remove(&cqe.cid())
                    {
                        assert_eq!(connection.queue_id, 0);
                        assert!(
                            connection.waiting.remove(&cqe.cid()),
                            "{cqe:?} completes no outstanding request"
                        );
                    }
                }
                Output::Fence { queue, nsid, queues, cqe } => {
                    assert!(!queues.is_empty() && nsid != 0);
                    if let Some(connection) = self.connections.iter_mut().find(|other| other.key == queue) {
                        assert!(connection.storing.remove(&cqe.cid()), "{cqe:?} completes no stored command");
                    }
                }
                Output::Store { nsid, ticket, saved } => {
                    let restored = saved.map(nvme::subsystem::Reservations::restore);
                    assert!(
                        restored.is_none_or(|restored| restored.is_ok()),
                        "what is stored can be restored"
                    );
                    self.to_store.push((nsid, ticket));
                }
                Output::Forget { queue, cid } => {
                    if let Some(connection) = self.connections.iter_mut().find(|other| other.key == queue) {
                        assert!(
                            connection.waiting.remove(&cid),
                            "{cid:#x} is forgotten, but was not outstanding"
                        );
                    }
                }
                Output::CloseQueue { queue, .. } => {
                    if let Some(connection) = self.connections.iter_mut().find(|other| other.key == queue) {
                        assert!(
                            !std::mem::replace(&mut connection.closing, true),
                            "{queue:?} is closed twice"
                        );
                    }
                }
            }
        }
        if let Some(at) = self.subsystem.next_timeout() {
            assert!(at > self.now, "the timeout at {at:?} does not go away, now {:?}", self.now);
        }
    }

    fn check(&self) {
        let controllers: Vec<(u16, Nqn)> =
            self.subsystem.controllers().map(|(id, host)| (id, host.clone())).collect();
        assert!(controllers.len() <= usize::from(CONTROLLERS_MAX));
        let ids: BTreeSet<u16> = controllers.iter().map(|(id, _)| *id).collect();
        assert!(
            ids.len() == controllers.len() && !ids.contains(&0) && !ids.contains(&CNTLID_DYNAMIC),
            "{ids:?}"
        );
        for number in 0..HOSTS {
            let (name, _) = host(number);
            let count = controllers.iter().filter(|(_, host)| *host == name).count();
            assert!(count <= usize::from(CONTROLLERS_PER_HOST_MAX));
        }
        for (nsid, ..) in self.subsystem.namespaces() {
            self.subsystem.reservations(nsid).expect("just listed").check();
        }
    }

    /// All hosts disconnect: nothing may be left.
    fn end(mut self) {
        for connection in std::mem::take(&mut self.connections) {
            self.subsystem.on_disconnect(self.now, connection.key);
        }
        while self.subsystem.poll(self.now).is_some() {}
        assert_eq!(self.subsystem.controllers().count(), 0);
        assert_eq!(self.subsystem.next_timeout().filter(|at| *at <= self.now), None);
    }
}

/// Whether data of this length travels in the capsule.
fn is_short(length: u32) -> bool {
    length <= 4096
}

fn check_io(subsystem: &Subsystem, sqe: &Sqe, command: &IoCommand, data: Option<&[u8]>) {
    let namespace = subsystem.namespaces().find(|(nsid, ..)| *nsid == command.nsid);
    let (_, info, _) = namespace.expect("an IO names a namespace that exists");
    let inside = |lba: u64, blocks: u32| lba.checked_add(blocks.into()).is_some_and(|end| end <= info.blocks);
    let bytes = u64::from(command.blocks) * u64::from(info.block_size.bytes());
    match &command.op {
        IoOp::Flush => assert_eq!((command.lba.0, command.blocks), (0, 0)),
        IoOp::Deallocate(ranges) => {
            assert!((1..=256).contains(&ranges.len()));
            for range in ranges {
                assert!(
                    range.blocks > 0 && inside(range.lba.0, range.blocks),
                    "{range:?} of {}",
                    info.blocks
                );
            }
        }
        IoOp::Copy(ranges) => {
            assert!(
                (1..=128).contains(&ranges.len()) && inside(command.lba.0, command.blocks),
                "{command:?}"
            );
            let end = command.lba.0 + u64::from(command.blocks);
            for range in ranges {
                let (lba, count) = (range.lba.0, u64::from(range.blocks));
                assert!(count > 0 && inside(lba, range.blocks), "{range:?} of {}", info.blocks);
                assert!(lba + count <= command.lba.0 || end <= lba, "{range:?} overlaps the destination");
            }
            assert_eq!(ranges.iter().map(|range| range.blocks).sum::<u32>(), command.blocks);
            assert!(bytes <= subsystem.limits().transfer_max.get(), "{command:?}");
        }
        op => {
            assert!(command.blocks > 0 && inside(command.lba.0, command.blocks), "{command:?}");
            if matches!(op, IoOp::Read | IoOp::Write | IoOp::Compare | IoOp::CompareAndWrite) {
                assert_eq!(bytes, u64::from(sqe.sgl_length()), "{command:?}");
            }
            if matches!(op, IoOp::Write | IoOp::Compare | IoOp::CompareAndWrite) {
                assert!(data.is_some_and(|data| data.len() as u64 >= bytes), "{command:?} without its data");
            }
            if !matches!(op, IoOp::WriteZeroes { .. }) {
                assert!(bytes <= subsystem.limits().transfer_max.get(), "{command:?}");
            }
        }
    }
    let writes = !matches!(command.op, IoOp::Read | IoOp::Compare | IoOp::Verify | IoOp::Flush);
    assert!(!(writes && info.read_only), "{command:?} on a read-only namespace");
}
