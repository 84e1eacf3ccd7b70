//! Sockets as the reactor wants them: made, tuned, named.

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::{self, IoSliceMut};
use std::mem;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::RawFd;
use std::ptr;

/// Connections that may wait to be accepted. A whole fleet of initiators may come back at the same moment; the kernel clamps
/// the number to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// A listener on `address` (port 0: the kernel chooses), ready for [`Reactor::listen`](crate::Reactor::listen). The address may
/// be one that a previous process has just left.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// A socket for `connect`.
pub(crate) fn unconnected(address: SocketAddr) -> io::Result<(Socket, SockAddr)> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_tcp_nodelay(true)?;
    Ok((socket, address.into()))
}

/// Prepares a connected socket. The reactor gathers the data of one batch by itself, so the kernel is not to wait for
/// more. `nonblocking` depends on the backend: io_uring waits inside the kernel and must be allowed to.
pub(crate) fn prepare(socket: &TcpStream, nonblocking: bool) -> io::Result<()> {
    socket.set_nonblocking(nonblocking)?;
    socket.set_nodelay(true)
}

/// Takes the data that has arrived into one place and then the other, without waiting. Zero is the end.
pub(crate) fn receive(fd: RawFd, places: [&mut [u8]; 2]) -> io::Result<usize> {
    let mut places = places.map(IoSliceMut::new);
    // SAFETY: all-zero is a valid msghdr: null pointers with zero lengths.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    // An IoSliceMut has the layout of an iovec.
    message.msg_iov = places.as_mut_ptr().cast();
    message.msg_iovlen = places.len() as _;
    // SAFETY: the message and the places, which are borrowed alone, stay as they are during the call; the kernel writes within the places.
    let count = unsafe { libc::recvmsg(fd, &mut message, libc::MSG_DONTWAIT) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Bytes that are waited for at most, so that copying them goes on while more arrive.
const LOW_WATER_MAX: usize = 16 << 10;

/// The bytes that must be there before a socket counts as readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LowWater(i32);

impl LowWater {
    /// As the kernel makes sockets.
    pub(crate) const ONE: LowWater = LowWater(1);

    /// Changes it if need be. An error means that it stays: then news come earlier than they need to.
    pub(crate) fn set(&mut self, fd: RawFd, count: usize) {
        let wanted = LowWater(count.clamp(1, LOW_WATER_MAX) as i32);
        if *self == wanted {
            return;
        }
        let length = mem::size_of::<i32>() as libc::socklen_t;
        // SAFETY: the option is an int, which lives during the call.
        let result = unsafe {
            libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, ptr::from_ref(&wanted.0).cast(), length)
        };
        if result == 0 {
            *self = wanted;
        }
    }
}

/// Ends the sending direction.
pub(crate) fn shutdown_write(fd: RawFd) {
    // SAFETY: no pointers. An error means that the connection is lost, which its receiving side reports.
    unsafe { libc::shutdown(fd, libc::SHUT_WR) };
}

/// Ends both directions, of a connection, an attempt at one, or a listener: whatever is tried on it from now on fails.
pub(crate) fn shutdown(fd: RawFd) {
    // SAFETY: no pointers. An error means that it is not connected, and then all attempts fail already.
    unsafe { libc::shutdown(fd, libc::SHUT_RDWR) };
}

/// The address of the other end of a freshly accepted connection, or `None` if it has vanished already.
pub(crate) fn peer_of(socket: &TcpStream) -> Option<SocketAddr> {
    socket.peer_addr().ok()
}

/// Whether an `accept` error concerns only the one connection that failed, so that the next can be accepted at once.
pub(crate) fn is_transient_accept_error(error: &io::Error) -> bool {
    // accept(2): Linux passes pending network errors of the new socket on; they are to be treated like EAGAIN.
    matches!(
        error.raw_os_error(),
        Some(
            libc::EAGAIN
                | libc::EINTR
                | libc::ECONNABORTED
                | libc::EPROTO
                | libc::EPERM
                | libc::ENETDOWN
                | libc::ENOPROTOOPT
                | libc::EHOSTDOWN
                | libc::ENONET
                | libc::EHOSTUNREACH
                | libc::EOPNOTSUPP
                | libc::ENETUNREACH
        )
    )
}

/// The error that is pending on a socket, if any: the outcome of a non-blocking connect.
pub(crate) fn pending_error(socket: &TcpStream) -> io::Result<()> {
    match socket.take_error()? {
        Some(error) => Err(error),
        None => Ok(()),
    }
}
