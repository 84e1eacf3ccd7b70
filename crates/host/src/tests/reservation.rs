//! Tests reservation commands: two hosts of one target.

use super::server::{Server, options};
use super::target::{BLOCK, TestTarget};
use super::world::{Report, World, options as in_world};
use crate::fault::Fault;
use crate::{
    Backend, Client, ClientError, Controller, ControllerOptions, HostId, IoError, Operation, Refusal,
    Registered, ReportError, Request, Reservation, ReservationReport,
};
use nvme::spec::Status;
use nvme::spec::opcode::nvm;
use nvme::spec::reservation::ReservationType;
use units::{Bytes, Lba};

const LEFT: HostId = HostId([1; 16]);
const RIGHT: HostId = HostId([2; 16]);

/// A target that stores reservations.
fn target() -> TestTarget {
    TestTarget::new(|config| config.persistence = true)
}

/// A host of the target, with its own client.
fn host(server: &Server, name: &str, host_id: HostId) -> Controller {
    let client = Client::start(Backend::Auto, Bytes::mib(1)).expect("a backend is available");
    let options = ControllerOptions { host_id, ..options(server, name) };
    client.connect(options).wait().expect("the target accepts")
}

/// Changes the reservation with the current and the other key.
fn reserve(host: &Controller, change: Reservation, current: u64, other: u64) -> Result<(), ClientError> {
    let mut buffer = host.client().buffer(Reservation::KEYS).expect("there is memory");
    buffer.copy_from_slice(&Reservation::keys(current, other));
    let request = Request::new(0, 1, Operation::Reserve(change), Lba(0), 0).with_buffer(buffer);
    host.submit(request).wait().result
}

/// Reads a report into a buffer of that length, which has other bytes before.
fn report_of(host: &Controller, length: usize) -> Result<Vec<u8>, ClientError> {
    let mut buffer = host.client().buffer(length).expect("there is memory");
    buffer.fill(0xff);
    let request = Request::new(0, 1, Operation::ReportReservations, Lba(0), 0).with_buffer(buffer);
    let outcome = host.submit(request).wait();
    outcome.result.map(|()| outcome.buffer.expect("a report returns its buffer").to_vec())
}

/// The type of the reservation, and the registered hosts.
fn report(host: &Controller) -> (Option<ReservationType>, Vec<Registered>) {
    let bytes = report_of(host, ReservationReport::length(8)).expect("there is a report");
    let report = ReservationReport::parse(&bytes).expect("it is whole");
    assert!(report.persists);
    (report.kind, report.registered)
}

const CONFLICT: Result<(), ClientError> =
    Err(ClientError::Failed(IoError::Status(Status::RESERVATION_CONFLICT)));

#[test]
fn two_hosts_take_a_namespace_from_each_other() {
    use Reservation::{Acquire, PreemptAndAbort, Register, Replace};
    let server = Server::start(target());
    let (left, right) = (host(&server, "nqn.test:left", LEFT), host(&server, "nqn.test:right", RIGHT));
    let write = |host: &Controller| host.write_blocking(1, Lba(0), &[1; BLOCK]);
    let of = |host, key, holds| Registered { host, key, holds };
    assert_eq!(reserve(&left, Register, 0, 7), Ok(()));
    assert_eq!(reserve(&left, Register, 0, 8), CONFLICT, "it has another key");
    assert_eq!(reserve(&left, Acquire, 9, 0), CONFLICT, "that is not its key");
    assert_eq!(report(&left), (None, vec![of(LEFT, 7, false)]));
    assert_eq!((write(&left), write(&right)), (Ok(()), Ok(())));
    assert_eq!(reserve(&left, Acquire, 7, 0), Ok(()));
    assert_eq!(report(&right), (Some(Reservation::TYPE), vec![of(LEFT, 7, true)]));
    assert_eq!((write(&left), write(&right)), (Ok(()), CONFLICT));

    assert_eq!(reserve(&right, Replace, 7, 10), CONFLICT, "it is not registered");
    assert_eq!(reserve(&right, Register, 0, 10), Ok(()));
    assert_eq!(write(&right), Ok(()), "registrants may write");
    assert_eq!(reserve(&right, Acquire, 10, 0), CONFLICT, "another holds it");
    assert_eq!(reserve(&right, Replace, 10, 11), Ok(()));
    assert_eq!(reserve(&right, Replace, 10, 11), CONFLICT, "it has another key now");
    assert_eq!(reserve(&right, PreemptAndAbort, 11, 99), CONFLICT, "nobody has that key");
    assert_eq!(reserve(&right, PreemptAndAbort, 11, 7), Ok(()));
    assert_eq!(report(&right), (Some(Reservation::TYPE), vec![of(RIGHT, 11, true)]));
    assert_eq!((write(&left), write(&right)), (CONFLICT, Ok(())));
}

#[test]
fn buffers_of_another_length_are_refused() {
    let server = Server::start(target());
    let (left, right) = (host(&server, "nqn.test:left", LEFT), host(&server, "nqn.test:right", RIGHT));
    for host in [&left, &right] {
        assert_eq!(reserve(host, Reservation::Register, 0, 1), Ok(()));
    }
    let parsed = |length| ReservationReport::parse(&report_of(&left, length).expect("there is a report"));
    let longer = ReportError::Longer { registrants: 2 };
    assert_eq!(parsed(ReservationReport::length(0)), Err(longer));
    assert_eq!(parsed(ReservationReport::length(2) - 4), Err(longer));
    assert_eq!(parsed(ReservationReport::length(2)).map(|report| report.registered.len()), Ok(2));
    let needed = ReservationReport::length(0);
    for length in [60, 130] {
        let refused = report_of(&left, length).expect_err("no report has that length");
        assert_eq!(refused, ClientError::Refused(Refusal::BufferLength { needed }), "{length}");
    }
    let short = left.client().buffer(8).expect("there is memory");
    let request = Request::new(0, 1, Operation::Reserve(Reservation::Acquire), Lba(0), 0).with_buffer(short);
    let refused = left.submit(request).wait().result;
    assert_eq!(refused, Err(ClientError::Refused(Refusal::BufferLength { needed: Reservation::KEYS })));

    let mut unknown = report_of(&left, ReservationReport::length(2)).expect("there is a report");
    unknown[4] = 77;
    assert_eq!(ReservationReport::parse(&unknown), Err(ReportError::Kind(77)));
    assert_eq!(ReservationReport::parse(&[0; 10]), Err(ReportError::Longer { registrants: 0 }));
    // It is no longer than what was received.
    let whole = report_of(&left, 4096).expect("there is a report");
    assert!(whole[ReservationReport::length(2)..].iter().all(|&byte| byte == 0));
}

#[test]
fn a_namespace_that_cannot_be_reserved_says_so() {
    let reservable = |reservable| {
        let server = Server::start(TestTarget::new(|config| {
            config.namespaces.values_mut().for_each(|info| info.reservable = reservable);
        }));
        let left = host(&server, "nqn.test:left", LEFT);
        let capabilities = left.namespaces()[0].reservation_capabilities;
        (capabilities, report_of(&left, ReservationReport::length(0)).is_ok())
    };
    assert_eq!((reservable(true), reservable(false)), ((0xfe, true), (0, false)));
}

/// Registers the host of a world in namespace 1.
fn register(world: &mut World, tag: u64) {
    let mut buffer = world.pool.take(Reservation::KEYS).expect("the pool is large");
    buffer.copy_from_slice(&Reservation::keys(0, 5));
    let request =
        Request::new(tag, 1, Operation::Reserve(Reservation::Register), Lba(0), 0).with_buffer(buffer);
    world.session.submit(world.now, request).expect("the request is in order");
    world.pump();
}

#[test]
fn a_change_of_the_reservation_is_sent_once_and_a_report_again() {
    let mut world = World::ready(target(), in_world());
    world.target.is_silent = true;
    register(&mut world, 1);
    let buffer = world.buffer(1, 0);
    let request = Request::new(2, 1, Operation::ReportReservations, Lba(0), 0).with_buffer(buffer);
    world.session.submit(world.now, request).expect("the request is in order");
    world.pump();
    assert!(world.ended.is_empty());
    world.target.crash(world.now);
    world.target.is_silent = false;
    world.pump();
    assert_eq!(world.tags_once(), [1]);
    assert_eq!(world.ended[0].result, Err(IoError::ConnectionLost));
    world.pass(units::Nanos::secs(1));
    assert_eq!(world.tags_once(), [1, 2]);
    let buffer = world.ended[1].buffer.as_ref().expect("a report returns its buffer");
    let report = ReservationReport::parse(buffer).expect("it is whole");
    assert_eq!(report.registered.len(), 1, "the one that was not answered was done: {report:?}");
}

#[test]
fn a_report_that_is_cut_is_a_fault_of_the_connection() {
    // Within the number of registrants, within the header, and within the one registrant.
    for (reply_max, expected) in [(4, 64), (32, 128), (100, 128)] {
        let mut world = World::ready(target(), in_world());
        register(&mut world, 1);
        assert_eq!(world.ended.pop().map(|completion| completion.result), Some(Ok(())));
        world.target.reply_max = reply_max;
        let buffer = world.buffer(1, 0xff);
        let request = Request::new(2, 1, Operation::ReportReservations, Lba(0), 0).with_buffer(buffer);
        world.session.submit(world.now, request).expect("the request is in order");
        world.pump();
        assert_eq!(world.ended[0].result, Err(IoError::ConnectionLost));
        let fault = world.reports.iter().find_map(|report| match report {
            Report::Down(Fault::ShortRead { received, expected }) => Some((*received, *expected)),
            _ => None,
        });
        assert_eq!(fault, Some((reply_max, expected)));
    }
}

#[test]
fn commands_are_those_that_linux_sends() {
    let sqe = |change| Request::new(0, 3, Operation::Reserve(change), Lba(9), 0).to_sqe();
    let register = sqe(Reservation::Register);
    assert_eq!((register.opcode(), register.nsid()), (nvm::RESERVATION_REGISTER, 3));
    assert_eq!((register.cdw10(), register.cdw11()), (3 << 30, 0));
    let preempt = sqe(Reservation::PreemptAndAbort);
    assert_eq!((preempt.opcode(), preempt.cdw10()), (nvm::RESERVATION_ACQUIRE, 3 << 8 | 2));
    assert_eq!(Reservation::keys(1, 2), [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
}
