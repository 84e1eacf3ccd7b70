//! Sockets as the reactor wants them: made, tuned, named.

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::RawFd;

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

/// Prepares a connected socket. The reactor gathers what belongs together into one batch by itself, so the kernel is not to
/// wait for more. `nonblocking` is what the backend needs: io_uring waits inside the kernel and must be allowed to.
pub(crate) fn prepare(socket: &TcpStream, nonblocking: bool) -> io::Result<()> {
    socket.set_nonblocking(nonblocking)?;
    socket.set_nodelay(true)
}

/// Ends the sending direction.
pub(crate) fn shutdown_write(fd: RawFd) {
    // SAFETY: no pointers. An error means that the connection is gone, which its receiving side reports.
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

/// The error that is pending on a socket, if any: how a non-blocking connect tells its outcome.
pub(crate) fn pending_error(socket: &TcpStream) -> io::Result<()> {
    match socket.take_error()? {
        Some(error) => Err(error),
        None => Ok(()),
    }
}
