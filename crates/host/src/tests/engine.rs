//! Tests an engine, over real sockets and on both backends.

use super::server::{Server, options};
use super::target::{BLOCK, NQN, TestTarget};
use crate::{
    Backend, ConnectRefusal, ControllerId, ControllerOptions, Engine, Event, Fault, HostId, Nqn, Operation,
    Request, TransportType, discover,
};
use std::net::TcpListener;
use units::{Bytes, Lba};

const BACKENDS: [Backend; 2] = [Backend::IoUring, Backend::Epoll];

fn next(engine: &mut Engine) -> Event {
    loop {
        if let Some(event) = engine.next_event() {
            return event;
        }
        engine.wait(None).expect("the reactor works");
    }
}

fn connect(engine: &mut Engine, options: ControllerOptions) -> ControllerId {
    let id = engine.connect(options);
    match next(engine) {
        Event::Ready { controller, first: true } if controller == id => id,
        other => panic!("{other:?}"),
    }
}

fn submit(engine: &mut Engine, controller: ControllerId, tag: u64, operation: Operation, blocks: u32) {
    let mut buffer = engine.take_buffer(controller, blocks as usize * BLOCK).expect("memory is enough");
    buffer.fill(tag as u8);
    let request = Request::new(tag, 1, operation, Lba(tag * u64::from(blocks)), blocks).with_buffer(buffer);
    engine.submit(controller, request).expect("the request is in order");
}

const WRITE: Operation = Operation::Write { durable: false };

#[test]
fn twenty_connections_on_one_thread_carry_the_right_data() {
    for backend in BACKENDS {
        let server = Server::start(TestTarget::new(|_| {}));
        let mut engine = Engine::new(backend, Bytes::mib(64)).expect("the backend is available");
        let options = ControllerOptions { io_queues: 4, ..options(&server, "nqn.test:host") };
        let ids: Vec<ControllerId> = (0..5).map(|_| connect(&mut engine, options.clone())).collect();
        for (pass, operation) in [WRITE, Operation::Read].into_iter().enumerate() {
            for tag in 0..200 {
                submit(&mut engine, ids[(tag as usize + pass) % ids.len()], tag, operation, 40);
            }
            let mut seen = [false; 200];
            while seen.contains(&false) {
                let Event::Completed { completion, .. } = next(&mut engine) else {
                    panic!("only IOs are outstanding")
                };
                assert_eq!(completion.result, Ok(()));
                assert!(
                    !std::mem::replace(&mut seen[completion.tag as usize], true),
                    "{} ended twice",
                    completion.tag
                );
                let buffer = completion.buffer.expect("buffers come back");
                assert!(
                    buffer.iter().all(|&byte| byte == completion.tag as u8),
                    "read {} is wrong",
                    completion.tag
                );
                engine.give_buffer(buffer);
            }
        }
        ids.into_iter().for_each(|id| engine.close(id));
        for _ in 0..5 {
            assert!(matches!(next(&mut engine), Event::Closed { .. }));
        }
    }
}

#[test]
fn no_io_is_lost_when_the_target_crashes_repeatedly() {
    for backend in BACKENDS {
        let server = Server::start(TestTarget::new(|_| {}));
        let mut engine = Engine::new(backend, Bytes::mib(64)).expect("the backend is available");
        let retry = crate::RetryPolicy::Again { times: u32::MAX };
        let options = ControllerOptions { io_queues: 4, retry, ..options(&server, "nqn.test:host") };
        let id = connect(&mut engine, options);
        const IOS: u64 = 400;
        let mut ends = vec![0; IOS as usize];
        let (mut submitted, mut ended) = (0, 0);
        while ended < IOS {
            while submitted < IOS && submitted - ended < 64 {
                submit(&mut engine, id, submitted, WRITE, 40);
                submitted += 1;
            }
            if let Event::Completed { completion, .. } = next(&mut engine) {
                assert_eq!(completion.result, Ok(()));
                ends[completion.tag as usize] += 1;
                ended += 1;
                if ended % 100 == 50 {
                    server.crash();
                }
            }
        }
        assert_eq!(ends, vec![1; IOS as usize]);
    }
}

#[test]
fn discovery_and_a_refused_connect_give_clear_results() {
    for backend in BACKENDS {
        let server = Server::start(TestTarget::new(|_| {}));
        let host = Nqn::new("nqn.test:host").expect("a name");
        let found = discover(
            backend,
            (TransportType::Tcp, server.address),
            (&host, HostId([1; 16])),
            crate::Keys::default(),
        )
        .expect("the target answers");
        assert_eq!(found.iter().map(|found| found.subsystem.as_str()).collect::<Vec<_>>(), [NQN]);
        let mut engine = Engine::new(backend, Bytes::mib(1)).expect("the backend is available");
        let nowhere = Nqn::new("nqn.test:nowhere").expect("a name");
        engine.connect(ControllerOptions { subsystem: nowhere, ..options(&server, "nqn.test:host") });
        let Event::GaveUp { error, .. } = next(&mut engine) else { panic!("there is no such subsystem") };
        assert!(matches!(error.fault, Fault::Refused(ConnectRefusal::UnknownSubsystem)), "{error}");
    }
}

#[test]
fn an_error_names_an_address_without_a_listener() {
    // A port that was free just now. If another program takes it in the meantime, it does not speak NVMe/TCP.
    let address = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
    for backend in BACKENDS {
        let host = Nqn::new("nqn.test:host").expect("a name");
        let error = discover(
            backend,
            (TransportType::Tcp, address),
            (&host, HostId([1; 16])),
            crate::Keys::default(),
        )
        .expect_err("nothing listens there");
        assert!(error.to_string().contains(&address.to_string()), "{error}");
    }
}
