//! The floor with epoll: wait, receive all that has arrived, send all answers in one go.

use crate::RECEIVE;
use crate::messages::{Answers, GATHER, Messages, NO_PIECE};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Events taken at once.
const EVENTS: usize = 256;
/// The name of the listener among the events; connections have their index.
const LISTENER: u64 = u64::MAX;

struct Connection {
    socket: TcpStream,
    messages: Messages,
    /// Whether it waits for room to send rather than for bytes.
    is_full: bool,
}

/// Serves until an error.
pub(crate) fn serve(listener: &TcpListener, spin: Duration) -> io::Result<()> {
    // SAFETY: no memory is named; the descriptor is new and has no other owner.
    let epoll = unsafe { OwnedFd::from_raw_fd(checked(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
    control(&epoll, libc::EPOLL_CTL_ADD, listener, libc::EPOLLIN, LISTENER)?;
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut answers = Answers::default();
    let mut bytes = vec![0; RECEIVE];
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
    loop {
        let count = wait(&epoll, &mut events, spin)?;
        for event in &events[..count] {
            let name = event.u64;
            if name == LISTENER {
                let (socket, _) = listener.accept()?;
                socket.set_nodelay(true)?;
                socket.set_nonblocking(true)?;
                let index = connections.len() as u64;
                control(&epoll, libc::EPOLL_CTL_ADD, &socket, libc::EPOLLIN, index)?;
                connections.push(Some(Connection { socket, messages: Messages::new(), is_full: false }));
                continue;
            }
            let place = &mut connections[name as usize];
            let connection = place.as_mut().expect("a closed socket has left the epoll");
            match turn(connection, &mut bytes, &mut answers) {
                Ok(Turn::Full(is_full)) if is_full != connection.is_full => {
                    connection.is_full = is_full;
                    let interest = if is_full { libc::EPOLLOUT } else { libc::EPOLLIN };
                    control(&epoll, libc::EPOLL_CTL_MOD, &connection.socket, interest, name)?;
                }
                Ok(Turn::Full(_)) => {}
                Ok(Turn::Ended) | Err(_) => *place = None,
            }
        }
    }
}

enum Turn {
    /// All that could be done is done; whether there is no room to send the rest.
    Full(bool),
    Ended,
}

/// Receives once, unless there was no room to send before, and sends all that is queued.
fn turn(connection: &mut Connection, bytes: &mut [u8], answers: &mut Answers) -> io::Result<Turn> {
    let socket = connection.socket.as_raw_fd();
    if !connection.is_full {
        // SAFETY: the buffer is ours and as long as stated.
        match unsafe { libc::recv(socket, bytes.as_mut_ptr().cast(), bytes.len(), 0) } {
            0 => return Ok(Turn::Ended),
            count if count > 0 => connection.messages.on_bytes(&bytes[..count as usize], answers),
            _ => would_block()?,
        }
    }
    let mut pieces = [NO_PIECE; GATHER];
    while connection.messages.has_outgoing() {
        let count = connection.messages.gather(&mut pieces);
        // SAFETY: the first `count` pieces point to answers, which live as long as the process.
        let sent = unsafe { libc::writev(socket, pieces.as_ptr(), count as libc::c_int) };
        if sent < 0 {
            would_block()?;
            return Ok(Turn::Full(true));
        }
        connection.messages.advance(sent as usize);
    }
    Ok(Turn::Full(false))
}

/// Waits for events: busy-polls for `spin`, then sleeps.
fn wait(epoll: &OwnedFd, events: &mut [libc::epoll_event; EVENTS], spin: Duration) -> io::Result<usize> {
    let mut began = None;
    loop {
        let may_spin = spin > Duration::ZERO && began.is_none_or(|began: Instant| began.elapsed() < spin);
        let timeout = if may_spin { 0 } else { -1 };
        // SAFETY: the events are ours, and there are as many as stated.
        let count = unsafe {
            libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), EVENTS as libc::c_int, timeout)
        };
        match checked(count) {
            Ok(0) => _ = began.get_or_insert_with(Instant::now),
            Ok(count) => return Ok(count as usize),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn control(
    epoll: &OwnedFd,
    operation: libc::c_int,
    socket: &impl AsRawFd,
    interest: libc::c_int,
    name: u64,
) -> io::Result<()> {
    let mut event = libc::epoll_event { events: interest as u32, u64: name };
    // SAFETY: the event is read during the call only.
    checked(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), operation, socket.as_raw_fd(), &mut event) })?;
    Ok(())
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The last error, unless it only says that nothing can be done now.
fn would_block() -> io::Result<()> {
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        error => Err(error),
    }
}
