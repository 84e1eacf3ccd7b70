//! A test target behind a listening socket.

use super::target::{NQN, TestTarget};
use crate::{Backoff, ControllerOptions, HostId, Nqn};
use reactor::Clock;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use units::Nanos;

struct Shared {
    target: TestTarget,
    sockets: BTreeMap<u32, TcpStream>,
}

/// A test target behind a listening socket, with one blocking thread per connection.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
}

impl Server {
    pub(super) fn start(target: TestTarget) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Mutex::new(Shared { target, sockets: BTreeMap::new() }));
        let server = Server { address, shared };
        let acceptor = server.clone();
        thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let server = acceptor.clone();
                thread::spawn(move || server.serve(socket));
            }
        });
        server
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut socket: TcpStream) {
        let slot = {
            let mut shared = self.lock();
            let slot = shared.target.accept();
            shared.sockets.insert(slot, socket.try_clone().expect("descriptors are left"));
            slot
        };
        let mut bytes = vec![0; 64 << 10];
        while let Ok(count @ 1..) = socket.read(&mut bytes) {
            let mut shared = self.lock();
            let is_open = shared.target.on_bytes(Clock.now(), slot, &bytes[..count]);
            shared.send_all();
            if !is_open || !shared.target.is_connected(slot) {
                break;
            }
        }
        let _ = socket.shutdown(Shutdown::Both);
        let mut shared = self.lock();
        shared.target.on_disconnect(Clock.now(), slot);
        shared.sockets.remove(&slot);
    }

    /// Stops carrying out IOs.
    pub(super) fn hold(&self) {
        self.lock().target.holds = true;
    }

    /// Breaks every connection.
    pub(super) fn crash(&self) {
        let mut shared = self.lock();
        shared.target.crash(Clock.now());
        for socket in std::mem::take(&mut shared.sockets).into_values() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    fn send_all(&mut self) {
        for (&slot, socket) in &mut self.sockets {
            let bytes = self.target.transmit(slot);
            // The client may already be gone.
            let _ = socket.write_all(&bytes);
        }
    }
}

/// A controller of the server's subsystem.
pub(super) fn options(server: &Server, host: &str) -> ControllerOptions {
    let name = |text: &str| Nqn::new(text).expect("a name");
    let options = ControllerOptions::new(server.address, name(NQN), name(host), HostId([1; 16]));
    ControllerOptions { backoff: Backoff { first: Nanos::millis(1), ..Backoff::default() }, ..options }
}
