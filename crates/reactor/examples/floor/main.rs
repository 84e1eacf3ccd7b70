//! The floor: the cost of a server that does nothing but move the bytes.
//!
//! ```text
//!   cargo run --release -p reactor --example floor -- epoll|io_uring [spin µs]
//! ```
//!
//! It prints `listening on ADDRESS`, then answers NVMe/TCP commands with bytes of the right sizes from memory that
//! never changes: no handshake, no queues, no commands understood beyond "read" and "write" (`messages`). One thread,
//! as few system calls per batch as the interface allows. `make bench` loads it and the target with the same client;
//! the difference between the two is the target's own cost, the rest is the kernel's TCP.
//!
//! It is an example of this crate, not part of the bench, because it talks to the kernel directly and only this crate
//! may: a floor on top of a wrapper would include the wrapper's cost.
#![allow(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

mod epoll;
mod messages;
mod ring;

use std::error::Error;
use std::io::Write;
use std::net::TcpListener;
use std::time::Duration;

/// Bytes asked of a socket at once.
const RECEIVE: usize = 256 * 1024;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let backend = arguments.next().ok_or("which one, epoll or io_uring?")?;
    let spin = Duration::from_micros(arguments.next().map_or(Ok(0), |text| text.parse())?);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("listening on {}", listener.local_addr()?);
    std::io::stdout().flush()?;
    match backend.as_str() {
        "epoll" => epoll::serve(&listener, spin)?,
        "io_uring" => ring::serve(&listener, spin)?,
        other => return Err(format!("`{other}` is neither epoll nor io_uring").into()),
    }
    Ok(())
}
