//! The NVMe status of each failure, and where failures are counted.

use crate::bed::*;
use crate::common::{BLOCK as BLOCK_BYTES, rw};
use crate::common::{Client, HOST, Options, backends, pattern};
use nvme::spec::log::{ERROR_INFORMATION, ErrorEntry, HEALTH, HealthPage};
use nvme::spec::opcode::{admin, nvm};
use nvme::spec::{Sqe, Status};
use nvme::tcp::Transfer;
use server::config::{FaultConfig, FaultError, FaultKind};
use zerocopy::FromBytes;

fn log<T: FromBytes>(client: &mut Client, page: u8) -> T {
    let length = size_of::<T>();
    let dwords = [u32::from(page) | ((length / 4 - 1) as u32) << 16, 0, 0, 0, 0, 0];
    let sqe = Sqe::new(admin::GET_LOG_PAGE).with_nsid(u32::MAX).with_cdw10_15(dwords);
    let (cqe, data) = client.admin.command(sqe, Transfer::FromController(vec![0; length], length as u32));
    assert!(cqe.status().is_success(), "{:?}", cqe.status());
    T::read_from_bytes(&data.expect("a log page")).expect("as long as asked")
}

/// Every IO command on a device that fails all of them with one error, and the expected status.
fn statuses(client: &mut Client) -> Vec<(&'static str, Status)> {
    let data = pattern(1, BLOCK_BYTES);
    let fua = rw(nvm::WRITE, 1, 0, 1).with_cdw10_15([0, 0, 1 << 30, 0, 0, 0]);
    let transfer = Transfer::ToController(data.clone(), BLOCK_BYTES as u32);
    vec![
        ("read", client.read(1, 0, 1).expect_err("it fails")),
        ("compare", client.compare(1, 0, &data)),
        ("verify", client.simple(nvm::VERIFY, 1, 0, 1)),
        ("write", client.write(1, 0, &data)),
        ("forced write", client.io.command(fua, transfer).0.status()),
        ("write zeroes", client.simple(nvm::WRITE_ZEROES, 1, 0, 1)),
        ("deallocate", client.deallocate(1, &[(0, 1)])),
        ("flush", client.flush(1)),
    ]
}

#[test]
fn every_failure_has_its_status() {
    let gone = Status::INTERNAL_ERROR.do_not_retry();
    let (unread, fault) = (Status::media(0x81), Status::media(0x80));
    let full = Status::generic(0x81).do_not_retry();
    let rows = [
        (FaultKind::Error(FaultError::Medium), [unread, unread, unread, fault, fault, fault, fault, fault]),
        (FaultKind::Error(FaultError::NoSpace), [full; 8]),
        (FaultKind::Gone, [gone; 8]),
    ];
    for (kind, wanted) in rows {
        let server = serve(backends().next().expect("one"), vec![FaultConfig::new(kind)]);
        let options = Options { subsystem: BAD.to_owned(), ..Options::default() };
        let mut client = Client::with(server.addresses()[0], &options);
        let told = statuses(&mut client);
        for ((command, status), wanted) in told.iter().zip(wanted) {
            assert_eq!(*status, wanted, "{command} after {kind:?}");
        }
        assert_eq!(errors_of(&server, HOST), told.len() as u64);
        assert!(is_at_rest(&server));
    }
}

#[test]
fn failures_are_in_the_health_page_and_in_the_error_log_of_the_affected_host() {
    let server =
        serve(backends().next().expect("one"), vec![fault_at(FaultKind::Error(FaultError::Medium), 40, 2)]);
    let with = |host| {
        let options = Options { subsystem: BAD.to_owned(), host, ..Options::default() };
        Client::with(server.addresses()[0], &options)
    };
    let (mut unlucky, mut lucky) = (with(HOST), with(OTHER_HOST));
    assert_eq!(unlucky.read(1, 41, 1), Err(Status::UNRECOVERED_READ_ERROR));
    assert_eq!(unlucky.write(1, 40, &pattern(1, BLOCK_BYTES)), Status::WRITE_FAULT);
    assert!(lucky.read(1, 42, 1).is_ok());
    let health: HealthPage = log(&mut unlucky, HEALTH);
    assert_eq!((health.media_errors.get(), health.error_log_entries.get()), (2, 2));
    let newest: [ErrorEntry; 2] = log(&mut unlucky, ERROR_INFORMATION);
    let entry = |entry: &ErrorEntry| {
        (entry.error_count.get(), Status::from_wire(entry.status.get()), entry.lba.get(), entry.nsid.get())
    };
    assert_eq!(entry(&newest[0]), (2, Status::WRITE_FAULT, 40, 1));
    assert_eq!(entry(&newest[1]), (1, Status::UNRECOVERED_READ_ERROR, 41, 1));
    let health: HealthPage = log(&mut lucky, HEALTH);
    assert_eq!((health.media_errors.get(), health.error_log_entries.get()), (0, 0));
}
