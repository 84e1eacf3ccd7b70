//! A target and a host in one process, in lockstep: IOs from bytes in to bytes out, on both sides.
//!
//! Both ends run on the epoll backend over loopback and never spin. The host submits a burst and sleeps until all of it has
//! ended; the target sleeps until the burst is there. A burst, and what answers it, is one segment, so each side does the same
//! turns of its loop whatever the machine does meanwhile. The device is a null device, so nothing else ends on its own time.
//! The host runs on the calling thread and the target on its own, which keeps their instructions separate.
//!
//! The connection is on the thread of its SSD, or on another one: then a burst and its answer cross the threads as one batch each.

use host::{
    Backend, ControllerId, ControllerOptions, Engine, Event, HostId, IoBuffer, Nqn, Operation, Request,
};
use sched::Scheduler;
use server::config::{BackendChoice, Config, DEFAULT_NQN, DeviceKind};
use server::{Server, Shutdown};
use std::net::Ipv4Addr;
use std::time::Duration;
use units::{Bytes, Lba, Nanos};

const BLOCK: usize = 4096;
const DEVICE: Bytes = Bytes::gib(1);
const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001";

/// Which thread of the target carries the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// That of the SSD.
    Ssd,
    /// One that has no SSD.
    Other,
}

impl Carrier {
    /// The number of threads, and of controllers that connect one after the other, for the last one's IO queue to be there: the first one's
    /// stays with the SSD.
    fn threads(self) -> u32 {
        match self {
            Carrier::Ssd => 1,
            Carrier::Other => 2,
        }
    }
}

/// `ios` of one block each, in bursts of `burst`.
pub(crate) fn run(operation: Operation, carrier: Carrier, burst: u32, ios: u32) {
    let mut config = Config::simple(DeviceKind::Null { size: DEVICE }, (Ipv4Addr::LOCALHOST, 0).into());
    config.backend = BackendChoice::Epoll;
    config.spin = Some(Nanos::ZERO);
    // On every machine the same.
    config.threads = Some(carrier.threads());
    // The cost of a decision is counted separately, in virtual time: here it would depend on the speed of the machine.
    config.devices[0].scheduler.policy = Scheduler::NONE;
    let server = Server::start(config).expect("a target on loopback starts");
    let mut host = Host::connect(&server, carrier);
    let mut buffers: Vec<IoBuffer> = (0..burst).map(|_| host.take_buffer()).collect();
    for first in (0..ios).step_by(burst as usize) {
        host.burst(operation, first, &mut buffers);
    }
    host.close();
    assert_eq!(server.shutdown(Duration::from_secs(60)), Shutdown::Complete);
}

struct Host {
    engine: Engine,
    /// Of these it uses the last.
    controllers: Vec<ControllerId>,
}

impl Host {
    fn connect(server: &server::ServerHandle, carrier: Carrier) -> Host {
        let engine = Engine::new(Backend::Epoll, Bytes::mib(1)).expect("epoll is always there");
        let subsystem = Nqn::new(DEFAULT_NQN).expect("the name is in order");
        let name = Nqn::new(HOST).expect("the name is in order");
        let options = ControllerOptions {
            keep_alive: Nanos::ZERO,
            connect_timeout: Nanos::secs(60),
            ..ControllerOptions::new(server.addresses()[0], subsystem, name, HostId([1; 16]))
        };
        let mut host = Host { engine, controllers: Vec::new() };
        for _ in 0..carrier.threads() {
            host.controllers.push(host.engine.connect(options.clone()));
            match host.next_event() {
                Event::Ready { .. } => {}
                other => panic!("the host does not get its controller: {other:?}"),
            }
        }
        host
    }

    fn controller(&self) -> ControllerId {
        *self.controllers.last().expect("one at least is connected")
    }

    fn take_buffer(&mut self) -> IoBuffer {
        self.engine.take_buffer(self.controller(), BLOCK).expect("memory is enough")
    }

    fn next_event(&mut self) -> Event {
        loop {
            if let Some(event) = self.engine.next_event() {
                return event;
            }
            self.engine.wait(None).expect("the reactor works");
        }
    }

    /// Submits an IO with each of `buffers`, from block `first` on; waits until all have ended.
    fn burst(&mut self, operation: Operation, first: u32, buffers: &mut Vec<IoBuffer>) {
        let wanted = buffers.len();
        let controller = self.controller();
        for (n, buffer) in buffers.drain(..).enumerate() {
            let tag = u64::from(first) + n as u64;
            let request = Request::new(tag, 1, operation, Lba(tag), 1).with_buffer(buffer);
            self.engine.submit(controller, request).expect("there is room for a burst");
        }
        while buffers.len() < wanted {
            match self.next_event() {
                Event::Completed { completion, .. } => {
                    assert_eq!(completion.result, Ok(()));
                    buffers.push(completion.buffer.expect("buffers come back"));
                }
                other => panic!("only IOs are under way: {other:?}"),
            }
        }
    }

    fn close(mut self) {
        for controller in std::mem::take(&mut self.controllers) {
            self.engine.close(controller);
            assert!(matches!(self.next_event(), Event::Closed { .. }), "the host takes leave");
        }
    }
}
