//! A way between two ends of TCP connections that can be cut, and mended.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// See the module. While it is cut, bytes and new connections wait. Afterwards they go on: nothing is lost, as in a network that comes back.
pub(crate) struct Link {
    address: SocketAddr,
    gate: Arc<Gate>,
}

struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Link {
    /// The way to this address.
    pub(crate) fn to(far: SocketAddr) -> Link {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let gate = Arc::new(Gate { is_open: Mutex::new(true), opened: Condvar::new() });
        let of_all = Arc::clone(&gate);
        thread::spawn(move || {
            for near in listener.incoming() {
                let near = near.expect("a connection");
                of_all.pass();
                // If nobody listens there, the connection ends at once.
                if let Ok(far) = TcpStream::connect(far) {
                    carry(&near, &far, &of_all);
                    carry(&far, &near, &of_all);
                }
            }
        });
        Link { address, gate }
    }

    /// The address at this end.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts it: nothing comes through any more.
    pub(crate) fn cut(&self) {
        *self.gate.is_open.lock().expect("nobody panics with it") = false;
    }

    /// Lets everything go on that has waited.
    pub(crate) fn mend(&self) {
        *self.gate.is_open.lock().expect("nobody panics with it") = true;
        self.gate.opened.notify_all();
    }
}

impl Gate {
    /// Returns when the way is there.
    fn pass(&self) {
        let is_open = self.is_open.lock().expect("nobody panics with it");
        drop(self.opened.wait_while(is_open, |is_open| !*is_open));
    }
}

/// Carries the bytes of one direction, and their end.
fn carry(from: &TcpStream, to: &TcpStream, gate: &Arc<Gate>) {
    let copy = |of: &TcpStream| of.try_clone().expect("a copy");
    let (mut from, mut to, gate) = (copy(from), copy(to), Arc::clone(gate));
    to.set_nodelay(true).expect("a socket option");
    thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        loop {
            let length = from.read(&mut bytes).unwrap_or(0);
            gate.pass();
            if length == 0 || to.write_all(&bytes[..length]).is_err() {
                break;
            }
        }
        // Either end may be gone.
        let _ = to.shutdown(Shutdown::Write);
        let _ = from.shutdown(Shutdown::Read);
    });
}
