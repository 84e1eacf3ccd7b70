//! A relay between clients and a target that notes each command on its way. It knows of NVMe/TCP what it needs for that, and
//! nothing of our own code (NVMe/TCP transport specification 1.0, 3.6.1 and 3.6.2.6).

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

/// PDU type of a command capsule.
const COMMAND: u8 = 4;
/// Length of the common header, and of a command.
const HEADER: usize = 8;
const SQE: usize = 64;
/// Opcodes.
const WRITE: u8 = 1;
const READ: u8 = 2;
const FABRICS: u8 = 0x7f;

/// A read or a write as it was on the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    pub(crate) is_write: bool,
    pub(crate) blocks: u32,
    pub(crate) is_durable: bool,
    /// The access latency (NVM command set specification, figure of command Dword 13): 0 none, 1 idle, 2 normal, 3 low.
    pub(crate) latency: u8,
}

#[derive(Default)]
struct Shared {
    target: OnceLock<SocketAddr>,
    seen: Mutex<Vec<Command>>,
}

pub(crate) struct Tap {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Tap {
    /// Listens. Connections wait until `relay_to`.
    pub(crate) fn new() -> Tap {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let (address, shared) = (listener.local_addr().expect("bound"), Arc::new(Shared::default()));
        let ours = Arc::clone(&shared);
        // It ends with the test's process.
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.expect("a connection");
                let target = TcpStream::connect(ours.target.wait()).expect("the target listens");
                for end in [&client, &target] {
                    end.set_nodelay(true).expect("a TCP socket");
                }
                let answers = (target.try_clone(), client.try_clone());
                let (Ok(mut from), Ok(mut to)) = answers else { panic!("out of descriptors") };
                thread::spawn(move || {
                    // One of both ends has closed it.
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
                let ours = Arc::clone(&ours);
                thread::spawn(move || {
                    let mut to = target;
                    let _ = relay_commands(client, &mut to, &ours);
                    let _ = to.shutdown(Shutdown::Both);
                });
            }
        });
        Tap { address, shared }
    }

    pub(crate) fn relay_to(&self, target: SocketAddr) {
        self.shared.target.set(target).expect("once");
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What has passed since the last time.
    pub(crate) fn take(&self) -> Vec<Command> {
        std::mem::take(&mut *self.shared.seen.lock().expect("no panic"))
    }
}

/// Passes on what a client sends, PDU by PDU, and notes the commands of its IO queues.
fn relay_commands(mut client: TcpStream, target: &mut TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut is_admin = true;
    loop {
        let mut pdu = vec![0; HEADER];
        client.read_exact(&mut pdu)?;
        let length = u32::from_le_bytes(pdu[4..8].try_into().expect("four bytes")) as usize;
        pdu.resize(length, 0);
        client.read_exact(&mut pdu[HEADER..])?;
        if pdu[0] == COMMAND {
            let sqe = &pdu[HEADER..HEADER + SQE];
            let word = |at: usize| u32::from_le_bytes(sqe[at..at + 4].try_into().expect("four bytes"));
            match sqe[0] {
                // A connect says which queue this is.
                FABRICS if sqe[4] == 1 => is_admin = word(40) >> 16 == 0,
                READ | WRITE if !is_admin => {
                    let command = Command {
                        is_write: sqe[0] == WRITE,
                        blocks: (word(48) & 0xffff) + 1,
                        is_durable: word(48) >> 30 & 1 == 1,
                        latency: (word(52) >> 4 & 3) as u8,
                    };
                    shared.seen.lock().expect("no panic").push(command);
                }
                _ => {}
            }
        }
        target.write_all(&pdu)?;
    }
}
