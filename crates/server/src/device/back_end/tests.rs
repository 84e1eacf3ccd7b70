use super::*;
use crate::Server;
use crate::config::{
    Config, DEFAULT_NQN, DeviceKind, EmulatedConfig, FaultConfig, FaultKind, FaultOp, FaultRelease,
};
use crate::device::DeviceOp;
use host::KeyFiles;
use reactor::{Backend, BufferPool, Clock};
use std::net::Ipv4Addr;

/// A read of the first block.
fn read(tag: u64, pool: &mut BufferPool) -> DeviceIo {
    let buffer = pool.take(4096).expect("there is memory");
    DeviceIo { tag, offset: 0, length: 4096, op: DeviceOp::Read(buffer) }
}

#[test]
fn after_a_failure_of_its_event_loop_every_io_ends_with_an_error() {
    // The first read hangs, so it is under way when the event loop fails.
    let ssd = DeviceKind::Emulated(EmulatedConfig::new(Bytes::mib(64)));
    let mut config = Config::simple(ssd, (Ipv4Addr::LOCALHOST, 0).into());
    let hang = FaultKind::Hang(FaultRelease::AtIo(1_000_000));
    config.devices[0].faults = vec![FaultConfig { op: FaultOp::Read, ..FaultConfig::new(hang) }];
    let behind = Server::start(config).expect("the other target starts");
    let config = BackEndConfig {
        address: behind.addresses()[0],
        subsystem: DEFAULT_NQN.to_owned(),
        nsid: 1,
        host: "nqn.2026-01.io.example:middle".to_owned(),
        timeout: BackEndConfig::TIMEOUT,
        digests: false,
        fenced: false,
        keys: KeyFiles::default(),
    };
    let open = OpenBackEnd::connect("far", &config).expect("the namespace is there");
    let mut reactor = Reactor::new(Backend::Auto).expect("an event loop");
    let mut device = open.start(&reactor);
    let mut pool = BufferPool::new(Bytes::mib(1));
    device.submit(Clock.now(), &mut reactor, read(1, &mut pool));
    let broken = io::Error::from_raw_os_error(libc::EBADF);
    device.link.send(ToWorker::BreakDown(broken)).unwrap_or_else(|_| panic!("the worker runs"));
    for tag in 1..4 {
        let mut done = Vec::new();
        while done.is_empty() {
            reactor.wait(None).expect("the pipeline's own event loop goes on");
            while reactor.next_event().is_some() {}
            device.poll(Clock.now(), &mut reactor);
            device.take_finished(&mut done);
        }
        let [DeviceDone { tag: ended, result: Err(error), buffer: Some(_), .. }] = &done[..] else {
            panic!("IO {tag}: {done:?}")
        };
        assert_eq!((*ended, error.raw_os_error()), (tag, Some(libc::ENODEV)));
        device.submit(Clock.now(), &mut reactor, read(tag + 1, &mut pool));
    }
}
