//! Tests a client, over real sockets and on both backends.

use super::server::{Server, options};
use super::target::{BLOCK, BLOCKS, TestTarget};
use crate::{
    Backend, Client, ClientError, ConnectFailure, ControllerOptions, IoError, Nqn, Operation, Refusal,
    Request,
};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use units::{Bytes, Lba};

const BACKENDS: [Backend; 2] = [Backend::IoUring, Backend::Epoll];

/// A minimal executor: one future, one thread.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn threads_share_a_controller_blocking_and_awaiting() {
    for backend in BACKENDS {
        let server = Server::start(TestTarget::new(|_| {}));
        let client = Client::start(backend, Bytes::mib(16)).expect("the backend is available");
        let controller =
            client.connect(options(&server, "nqn.test:host")).wait().expect("the target accepts");
        assert_eq!(controller.namespaces()[0].blocks, BLOCKS);
        thread::scope(|scope| {
            for thread in 0..4u64 {
                let controller = controller.clone();
                scope.spawn(move || {
                    for round in 0..50 {
                        let (lba, byte) = (Lba(thread * 1000 + round * 8), (thread * 50 + round) as u8);
                        controller.write_blocking(1, lba, &vec![byte; 8 * BLOCK]).expect("the target writes");
                        let read = match round % 2 {
                            0 => controller.read_blocking(1, lba, 8),
                            _ => block_on(controller.read(1, lba, 8)),
                        };
                        assert!(read.expect("the target reads").iter().all(|&found| found == byte));
                    }
                });
            }
        });
        assert_eq!(controller.flush(1).wait().result, Ok(()));
        let view = controller.view();
        assert!(view.is_ready && view.credit.is_some() && view.read_latency.is_some(), "{view:?}");
        controller.close().wait();
        let refused = controller.flush(1).wait().result;
        assert_eq!(refused, Err(ClientError::Refused(Refusal::Gone)));
    }
}

#[test]
fn ios_submitted_during_a_crash_are_done_afterwards() {
    for backend in BACKENDS {
        let server = Server::start(TestTarget::new(|_| {}));
        let client = Client::start(backend, Bytes::mib(16)).expect("the backend is available");
        let controller =
            client.connect(options(&server, "nqn.test:host")).wait().expect("the target accepts");
        for round in 0..10 {
            let pending: Vec<_> = (0..20)
                .map(|io| {
                    let buffer = client.buffer(BLOCK).expect("memory is enough");
                    controller.write(1, Lba(round * 20 + io), buffer)
                })
                .collect();
            server.crash();
            assert!(pending.into_iter().all(|pending| pending.wait().result.is_ok()));
        }
    }
}

#[test]
fn wrong_requests_are_refused_with_the_reason() {
    let server = Server::start(TestTarget::new(|_| {}));
    let client = Client::start(Backend::Auto, Bytes::mib(1)).expect("a backend is available");
    let subsystem = Nqn::new("nqn.test:nowhere").expect("a name");
    let nowhere = client.connect(ControllerOptions { subsystem, ..options(&server, "nqn.test:host") }).wait();
    let Err(ConnectFailure::Controller(error)) = nowhere else { panic!("there is no such subsystem") };
    assert!(error.to_string().contains("no subsystem with this NQN"), "{error}");
    let controller = client.connect(options(&server, "nqn.test:host")).wait().expect("the target accepts");
    let refusal = |result: Result<_, ClientError>| match result {
        Err(ClientError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    };
    let beyond = controller.read_blocking(1, Lba(BLOCKS), 1).map(drop);
    assert_eq!(refusal(beyond), Refusal::OutOfRange);
    let absent = controller.read_blocking(7, Lba(0), 1).map(drop);
    assert_eq!(refusal(absent), Refusal::NoSuchNamespace);
    assert_eq!(refusal(controller.write_blocking(1, Lba(0), &[0; 100])), Refusal::OutOfRange);
    let hoarded = client.buffer(1 << 20).expect("all memory is free");
    assert!(matches!(controller.read_blocking(1, Lba(0), 1), Err(ClientError::NoMemory)));
    drop(hoarded);
    let buffer = client.buffer(BLOCK).expect("the memory is free again");
    let compare = Request::new(0, 1, Operation::Compare, Lba(0), 1).with_buffer(buffer);
    let mut pending = controller.submit(compare);
    let waker = Waker::noop();
    while Pin::new(&mut pending).poll(&mut Context::from_waker(waker)).is_pending() {
        thread::yield_now();
    }
}

#[test]
fn dropping_the_last_handle_ends_the_thread() {
    let server = Server::start(TestTarget::new(|target| target.volatile_write_cache = false));
    server.hold();
    let client = Client::start(Backend::Auto, Bytes::mib(1)).expect("a backend is available");
    let controller = client.connect(options(&server, "nqn.test:host")).wait().expect("the target accepts");
    let flush = controller.flush(1);
    drop((client, controller));
    assert_eq!(flush.wait().result, Err(ClientError::Failed(IoError::ControllerGone)));
}
