//! Finds peers that vanish without closing the connection: their machine lost power, or a firewall dropped the connection.
//!
//! A host may use NVMe keep-alive. TCP keep-alive finds the hosts that do not. The TCP user time-out also limits how long the kernel
//! keeps unsent data of a closed connection: without it, megabytes per connection for minutes.

use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::TcpStream;
use std::time::Duration;
use units::Nanos;

/// TCP keep-alive: the first probe after this silence, then one per interval, and the connection ends after this many without an answer.
const PROBE_AFTER: Duration = Duration::from_secs(60);
const PROBE_INTERVAL: Duration = Duration::from_secs(10);
const PROBES: u32 = 3;

/// Enables TCP keep-alive on `socket`. Unacknowledged data ends the connection after `stall_timeout`.
pub(super) fn watch_peer(socket: &TcpStream, stall_timeout: Nanos) -> io::Result<()> {
    let socket = SockRef::from(socket);
    let probing =
        TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_INTERVAL).with_retries(PROBES);
    socket.set_tcp_keepalive(&probing)?;
    socket.set_tcp_user_timeout(Some(Duration::from_nanos(stall_timeout.get())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn a_silent_peer_is_probed_and_an_unresponsive_one_is_dropped() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let _peer = TcpStream::connect(listener.local_addr().expect("an address")).expect("it listens");
        let (accepted, _) = listener.accept().expect("the peer connects");
        watch_peer(&accepted, Nanos::secs(7)).expect("socket options");
        let socket = SockRef::from(&accepted);
        assert!(socket.keepalive().expect("readable"));
        assert_eq!(socket.tcp_keepalive_time().expect("readable"), PROBE_AFTER);
        assert_eq!(socket.tcp_keepalive_interval().expect("readable"), PROBE_INTERVAL);
        assert_eq!(socket.tcp_keepalive_retries().expect("readable"), PROBES);
        assert_eq!(socket.tcp_user_timeout().expect("readable"), Some(Duration::from_secs(7)));
    }
}
