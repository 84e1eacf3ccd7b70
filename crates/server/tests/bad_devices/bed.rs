//! The targets and hosts of these tests.

use crate::common::{HOST, any_port, fast_ssd, settled, simple, start, subsystem};
use host::{
    Backend, Client, ClientError, Controller, ControllerOptions, HostId, IoError, Nqn, Operation, Outcome,
    Pending, Request, RetryPolicy,
};
use nvme::spec::Status;
use server::config::{
    BackendChoice, Config, DeviceConfig, DeviceKind, FaultConfig, FaultKind, Limits, NamespaceConfig,
};
use server::{ServerHandle, SsdStats};
use std::net::SocketAddr;
use units::{Bytes, Lba, Nanos};

/// The subsystem on the faulty SSD.
pub(crate) const BAD: &str = "nqn.2025-01.io.example:bad";
/// The subsystem on the good SSD.
pub(crate) const GOOD: &str = "nqn.2025-01.io.example:good";
/// A subsystem on the good SSD's thread: namespace 1 is on the good SSD, namespace 2 on the faulty one.
pub(crate) const BOTH: &str = "nqn.2025-01.io.example:both";
/// A second host.
pub(crate) const OTHER_HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000002";
/// The block size of every namespace here.
pub(crate) const BLOCK: u64 = 4096;
/// Blocks of a namespace.
pub(crate) const BLOCKS: u64 = 16_384;

/// Two SSDs, the first with `faults`. Subsystems on the first, on the second, and on both.
pub(crate) fn config(backend: BackendChoice, kind: DeviceKind, faults: Vec<FaultConfig>) -> Config {
    let device = |name: &str, kind, faults| DeviceConfig { faults, ..DeviceConfig::new(name, kind) };
    let size = Bytes(BLOCKS * BLOCK);
    let at = |nsid, device, place: u64| NamespaceConfig {
        offset: Bytes(place * size.get()),
        size: Some(size),
        ..NamespaceConfig::whole(nsid, device)
    };
    Config {
        backend,
        devices: vec![device("bad", kind, faults), device("good", fast_ssd(), Vec::new())],
        subsystems: vec![
            subsystem(BAD, vec![at(1, "bad", 0)]),
            subsystem(GOOD, vec![at(1, "good", 0)]),
            subsystem(BOTH, vec![at(1, "good", 1), at(2, "bad", 1)]),
        ],
        limits: Limits { hang_after: Nanos::millis(20), ..Limits::default() },
        ..simple(DeviceKind::Null { size: Bytes::gib(1) }, any_port())
    }
}

/// A target with two fast SSDs, the first with `faults`.
pub(crate) fn serve(backend: BackendChoice, faults: Vec<FaultConfig>) -> ServerHandle {
    start(config(backend, fast_ssd(), faults))
}

/// A fault of blocks of the first namespace on the SSD.
pub(crate) fn fault_at(kind: FaultKind, lba: u64, blocks: u64) -> FaultConfig {
    FaultConfig { offset: Bytes(lba * BLOCK), size: Some(Bytes(blocks * BLOCK)), ..FaultConfig::new(kind) }
}

/// The statistics of the faulty SSD.
pub(crate) fn bad(server: &ServerHandle) -> SsdStats {
    server.stats().ssds.into_iter().find(|ssd| ssd.device == "bad").expect("its pipeline lives")
}

/// The errors of the faulty SSD for `host`.
pub(crate) fn errors_of(server: &ServerHandle, host: &str) -> u64 {
    bad(server)
        .tenants
        .iter()
        .find(|tenant| tenant.tenant.host() == Some(host))
        .map_or(0, |tenant| tenant.counters.errors)
}

/// Whether no IO is outstanding on any SSD and no memory is in use.
pub(crate) fn is_at_rest(server: &ServerHandle) -> bool {
    let is_idle = |ssd: &SsdStats| {
        let books = ssd.tenants.iter().filter_map(|tenant| tenant.view);
        let slots: u32 = books.map(|view| view.slots_busy).sum();
        (ssd.queued, ssd.in_flight, ssd.hung, ssd.memory, slots) == (0, 0, 0, Bytes::ZERO, 0)
    };
    settled(server).ssds.iter().all(is_idle)
}

/// A host's thread. It does not retry IOs: tests need the first answer.
pub(crate) fn client() -> Client {
    Client::start(Backend::Epoll, Bytes::mib(64)).expect("epoll is everywhere")
}

/// A controller of `subsystem`, for the first or second host.
pub(crate) fn connect(client: &Client, address: SocketAddr, subsystem: &str, host: &str) -> Controller {
    let name = |text: &str| Nqn::new(text).expect("a name");
    let id = HostId([if host == HOST { 1 } else { 2 }; 16]);
    let options = ControllerOptions::new(address, name(subsystem), name(host), id);
    let options = ControllerOptions { retry: RetryPolicy::Never, ..options };
    client.connect(options).wait().expect("the target lets it in")
}

/// Submits an IO of `blocks` blocks. All bytes that it writes or compares are `fill`.
pub(crate) fn submit(
    controller: &Controller,
    nsid: u32,
    operation: Operation,
    lba: u64,
    blocks: u64,
    fill: u8,
) -> Pending<Outcome> {
    let mut request = Request::new(0, nsid, operation, Lba(lba), blocks as u32);
    if operation.has_buffer() {
        let length = (blocks * BLOCK) as usize;
        let mut buffer = controller.client().buffer(length).expect("the client has memory to spare");
        buffer.fill(fill);
        request = request.with_buffer(buffer);
    }
    controller.submit(request)
}

/// The status of the answer.
pub(crate) fn status(outcome: &Outcome) -> Status {
    match outcome.result {
        Ok(()) => Status::SUCCESS,
        Err(ClientError::Failed(IoError::Status(status))) => status,
        Err(error) => panic!("the target did not answer: {error}"),
    }
}

/// Submits an IO and waits for its result.
pub(crate) fn run(controller: &Controller, nsid: u32, operation: Operation, lba: u64, blocks: u64) -> Status {
    status(&submit(controller, nsid, operation, lba, blocks, 0x5a).wait())
}
