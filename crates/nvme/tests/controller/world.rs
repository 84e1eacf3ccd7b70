//! A subsystem and hosts that send it commands, without a transport.

use nvme::spec::connect::{CNTLID_DYNAMIC, ConnectCommand, ConnectData};
use nvme::spec::feature::QueueCounts;
use nvme::spec::identify::{IDENTIFY_SIZE, IdentifyCommand};
use nvme::spec::log::LogRequest;
use nvme::spec::opcode::{admin, fabrics};
use nvme::spec::property::{Configuration, PropertySize, offset};
use nvme::spec::{Cqe, Direction, HostId, Nqn, Sgl, Sqe, Status};
use nvme::subsystem::{
    Action, BlockSize, Connected, NamespaceInfo, Output, QueueKey, Subsystem, SubsystemConfig,
};
use units::{Instant, Nanos};

pub(crate) const NQN: &str = "nqn.2024-01.test:a";
/// Blocks of namespace 1: 64 MiB of 512-byte blocks, as in the captures.
pub(crate) const BLOCKS: u64 = 131_072;

#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) nqn: Nqn,
    pub(crate) id: HostId,
}

/// Host number `n`.
pub(crate) fn host(n: u8) -> Host {
    let nqn = Nqn::new(&format!("nqn.2014-08.org.test:h{n}")).expect("a good name");
    Host { nqn, id: HostId([n + 1; 16]) }
}

pub(crate) fn config() -> SubsystemConfig {
    SubsystemConfig::io(Nqn::new(NQN).expect("a good name"), "gimbal-1")
        .with_namespace(1, NamespaceInfo::new(BlockSize::B512, BLOCKS))
}

pub(crate) struct World {
    pub(crate) subsystem: Subsystem,
    pub(crate) now: Instant,
    slots: u32,
    cid: u16,
}

/// An enabled controller of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remote {
    pub(crate) id: u16,
    pub(crate) admin: QueueKey,
    pub(crate) io: QueueKey,
}

impl World {
    pub(crate) fn new(config: SubsystemConfig) -> World {
        let subsystem = Subsystem::new(config).expect("a good configuration");
        World { subsystem, now: Instant(1_000_000_000), slots: 0, cid: 0 }
    }

    pub(crate) fn io() -> World {
        World::new(config())
    }

    pub(crate) fn advance(&mut self, millis: u64) {
        self.now += Nanos::millis(millis);
    }

    pub(crate) fn next_key(&mut self) -> QueueKey {
        self.slots += 1;
        QueueKey { slot: self.slots, generation: 7 }
    }

    /// A Connect to any subsystem NQN, with any parameters.
    pub(crate) fn connect_with(
        &mut self,
        host: &Host,
        subsystem: &str,
        controller_id: u16,
        command: ConnectCommand,
    ) -> Result<(QueueKey, Connected), Cqe> {
        let name = Nqn::new(subsystem).expect("a good name");
        let data = ConnectData::new(host.id, &host.nqn, &name, controller_id);
        let key = self.next_key();
        let connected =
            self.subsystem.on_connect(self.now, key, &command.to_sqe().with_cid(0x101a), &data)?;
        Ok((key, connected))
    }

    pub(crate) fn connect(&mut self, host: &Host, queue_id: u16, controller_id: u16) -> QueueKey {
        let subsystem = self.subsystem.nqn().as_str().to_owned();
        let command = connect_command(queue_id);
        self.connect_with(host, &subsystem, controller_id, command).expect("a good Connect").0
    }

    /// An admin queue of a controller that is not enabled.
    pub(crate) fn admin(&mut self, host: &Host) -> QueueKey {
        self.connect(host, 0, CNTLID_DYNAMIC)
    }

    /// An enabled controller with one IO queue.
    pub(crate) fn remote(&mut self, host: &Host) -> Remote {
        let subsystem = self.subsystem.nqn().as_str().to_owned();
        let (admin, connected) =
            self.connect_with(host, &subsystem, CNTLID_DYNAMIC, connect_command(0)).expect("a good Connect");
        let id = connected.controller_id;
        self.configure(admin, Configuration::host(true).enabled().0);
        Remote { id, admin, io: self.connect(host, 1, id) }
    }

    pub(crate) fn configure(&mut self, admin: QueueKey, cc: u32) {
        let (cqe, _) = self.ask(admin, property_set(offset::CC, cc), 0);
        assert_eq!(cqe.status(), Status::SUCCESS);
    }

    pub(crate) fn property(&mut self, admin: QueueKey, property: u32) -> Result<u64, Status> {
        let size = if property == offset::CAP { PropertySize::Eight } else { PropertySize::Four };
        let dwords = [size.to_attributes(), property, 0, 0, 0, 0];
        let (cqe, _) = self.ask(admin, Sqe::fabrics(fabrics::PROPERTY_GET).with_cdw10_15(dwords), 0);
        if cqe.status().is_success() { Ok(cqe.result()) } else { Err(cqe.status()) }
    }

    /// Sends a command unchanged. If it has data to the controller, `data` goes with it.
    pub(crate) fn raw(&mut self, key: QueueKey, sqe: &Sqe, data: &[u8]) -> Action {
        let sends = sqe.direction() == Direction::ToController && sqe.sgl_length() != 0;
        self.subsystem.on_command(self.now, key, sqe, sends.then_some(data))
    }

    /// Sends a command that transfers `length` bytes in either direction.
    pub(crate) fn send(&mut self, key: QueueKey, sqe: Sqe, length: usize, data: &[u8]) -> Action {
        self.cid = self.cid.wrapping_add(1);
        let sqe = sqe.with_cid(self.cid).with_sgl(Sgl::Transport { length: length as u32 });
        self.raw(key, &sqe, data)
    }

    /// Sends a command that must be answered at once.
    pub(crate) fn ask(&mut self, key: QueueKey, sqe: Sqe, length: usize) -> (Cqe, Vec<u8>) {
        let action = self.send(key, sqe, length, &[]);
        let (cqe, mut data) = self.answer(action);
        // A reply need not contain the zeroes at its end; the transport adds them.
        if !data.is_empty() || cqe.status().is_success() {
            data.resize(length, 0);
        }
        (cqe, data)
    }

    /// Sends a command with data that must be answered at once. Returns its status.
    pub(crate) fn tell(&mut self, key: QueueKey, sqe: Sqe, data: &[u8]) -> Status {
        let action = self.send(key, sqe, data.len(), data);
        self.answer(action).0.status()
    }

    fn answer(&mut self, action: Action) -> (Cqe, Vec<u8>) {
        match action {
            Action::Reply { cqe, data } => {
                assert_eq!(cqe.cid(), self.cid, "the answer belongs to another command");
                (cqe, data.unwrap_or_default())
            }
            Action::Credits { cqe, .. } | Action::Fence { cqe, .. } => (cqe, Vec::new()),
            // There is room for as many queues as the subsystem allows.
            Action::GrantQueues { queues, cqe } => {
                (cqe.with_dw0(QueueCounts::both(queues).to_wire()), Vec::new())
            }
            other => panic!("expected an answer, got {other:?}"),
        }
    }

    pub(crate) fn identify(&mut self, admin: QueueKey, cns: u8, nsid: u32) -> Result<Vec<u8>, Status> {
        let command = IdentifyCommand { cns, controller_id: 0, command_set: 0 };
        let (cqe, data) = self.ask(admin, command.to_sqe(nsid), IDENTIFY_SIZE);
        if cqe.status().is_success() { Ok(data) } else { Err(cqe.status()) }
    }

    pub(crate) fn log(&mut self, admin: QueueKey, request: LogRequest, nsid: u32) -> Result<Vec<u8>, Status> {
        let (cqe, data) = self.ask(admin, request.to_sqe(nsid), request.length as usize);
        if cqe.status().is_success() { Ok(data) } else { Err(cqe.status()) }
    }

    pub(crate) fn get_feature(
        &mut self,
        admin: QueueKey,
        cdw10: u32,
        nsid: u32,
        length: usize,
    ) -> (Cqe, Vec<u8>) {
        let sqe = Sqe::new(admin::GET_FEATURES).with_nsid(nsid).with_cdw10_15([cdw10, 0, 0, 0, 0, 0]);
        self.ask(admin, sqe, length)
    }

    pub(crate) fn set_feature(&mut self, admin: QueueKey, id: u8, value: u32) -> Cqe {
        let sqe = Sqe::new(admin::SET_FEATURES).with_cdw10_15([u32::from(id), value, 0, 0, 0, 0]);
        self.ask(admin, sqe, 0).0
    }

    /// Sends an Asynchronous Event Request. Returns its completion, if it completes at once.
    pub(crate) fn request_event(&mut self, admin: QueueKey) -> Option<Cqe> {
        match self.send(admin, Sqe::new(admin::ASYNC_EVENT_REQUEST), 0, &[]) {
            Action::Pending => None,
            Action::Reply { cqe, data: None } => Some(cqe),
            other => panic!("an event request was answered with {other:?}"),
        }
    }

    pub(crate) fn outputs(&mut self) -> Vec<Output> {
        core::iter::from_fn(|| self.subsystem.poll(self.now)).collect()
    }

    /// Dword 0 of the event requests that completed.
    pub(crate) fn events(&mut self) -> Vec<u32> {
        let dword = |output| match output {
            Output::Complete { cqe, .. } => cqe.dw0(),
            other => panic!("expected an event, got {other:?}"),
        };
        self.outputs().into_iter().map(dword).collect()
    }
}

pub(crate) fn connect_command(queue_id: u16) -> ConnectCommand {
    let (sqsize, keep_alive_timeout) = if queue_id == 0 { (31, 5000) } else { (127, 0) };
    ConnectCommand { record_format: 0, queue_id, sqsize, attributes: 0, keep_alive_timeout }
}

pub(crate) fn property_set(property: u32, value: u32) -> Sqe {
    Sqe::fabrics(fabrics::PROPERTY_SET).with_cdw10_15([0, property, value, 0, 0, 0])
}

/// An IO command on `blocks` blocks from `lba` of namespace 1.
pub(crate) fn io_command(opcode: u8, lba: u64, blocks: u32) -> Sqe {
    let dwords = [lba as u32, (lba >> 32) as u32, blocks - 1, 0, 0, 0];
    Sqe::new(opcode).with_nsid(1).with_cdw10_15(dwords)
}
