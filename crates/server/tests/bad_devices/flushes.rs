//! After a failed flush, no later flush succeeds.

use crate::bed::*;
use crate::common::{Client, HOST, Options, backends, pattern, rw};
use nvme::spec::Status;
use nvme::spec::opcode::nvm;
use nvme::tcp::Transfer;
use server::config::{DeviceKind, FaultConfig, FaultError, FaultKind, FaultOp};
use server::{DeviceError, Server, StartError};
use std::path::PathBuf;

fn durable_write(client: &mut Client, lba: u64) -> Status {
    let data = pattern(lba, BLOCK as usize);
    let sqe = rw(nvm::WRITE, 1, lba, 1).with_cdw10_15([lba as u32, 0, 1 << 30, 0, 0, 0]);
    client.io.command(sqe, Transfer::ToController(data, BLOCK as u32)).0.status()
}

fn one_failed_flush() -> FaultConfig {
    let medium = FaultKind::Error(FaultError::Medium);
    FaultConfig { op: FaultOp::Flush, skip: 1, count: Some(1), ..FaultConfig::new(medium) }
}

#[test]
fn after_a_failed_flush_all_flushes_fail_until_the_device_is_opened_again() {
    for backend in backends() {
        let server = serve(backend, vec![one_failed_flush()]);
        let [mut first, mut second] = [HOST, OTHER_HOST].map(|host| {
            Client::with(
                server.addresses()[0],
                &Options { host, subsystem: BAD.to_owned(), ..Options::default() },
            )
        });
        assert_eq!((first.flush(1), durable_write(&mut second, 3)), (Status::SUCCESS, Status::SUCCESS));
        assert_eq!(second.write(1, 7, &pattern(7, BLOCK as usize)), Status::SUCCESS);
        assert!(!server.stats().ssds.iter().any(|ssd| ssd.flush_failed));
        assert_eq!(first.flush(1), Status::WRITE_FAULT, "this one is told what the device said");
        assert_eq!(
            server.stats().ssds.iter().filter(|ssd| ssd.flush_failed).count(),
            1,
            "operators are told, too"
        );
        for _ in 0..3 {
            assert_eq!(second.flush(1), Status::WRITE_FAULT, "whose write may be lost");
            assert_eq!(first.flush(1), Status::WRITE_FAULT);
        }
        let before = second.read(1, 3, 1).expect("readable");
        assert_eq!(durable_write(&mut second, 4), Status::WRITE_FAULT);
        assert_eq!(second.read(1, 4, 1).expect("readable"), vec![0; BLOCK as usize], "it was not begun");
        assert_eq!(second.read(1, 3, 1).expect("readable"), before);
        // Other IOs continue.
        assert_eq!(second.write(1, 5, &pattern(5, BLOCK as usize)), Status::SUCCESS);
        assert_eq!(second.read(1, 5, 1).expect("readable"), pattern(5, BLOCK as usize));
        assert!(is_at_rest(&server));
        // After the device is opened again, flushes succeed.
        let server = serve(backend, Vec::new());
        let options = Options { subsystem: BAD.to_owned(), ..Options::default() };
        assert_eq!(Client::with(server.addresses()[0], &options).flush(1), Status::SUCCESS);
        assert!(!server.stats().ssds.iter().any(|ssd| ssd.flush_failed));
    }
}

/// The proc file system has files but no direct IO.
#[test]
fn the_page_cache_is_used_only_on_request() {
    let path = PathBuf::from("/proc/self/comm");
    let kind = |direct| DeviceKind::File { path: path.clone(), size: None, create: false, direct };
    let backend = backends().next().expect("one");
    let refusal = |direct| match Server::start(config(backend, kind(direct), Vec::new())) {
        Err(StartError::Device { error, .. }) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it has no size"),
    };
    let refused = refusal(true);
    assert!(matches!(&refused, DeviceError::NoDirectIo(named) if *named == path), "{refused:?}");
    assert!(refused.to_string().contains("direct = false"), "{refused}");
    assert!(!matches!(refusal(false), DeviceError::NoDirectIo(_)), "opened, and then found too small");
}
