//! Peers that vanish without a word: their machine lost power, a firewall forgot them.
//!
//! A host may ask for a keep-alive of its own; one that does not is found out by TCP. And what a connection that is closed leaves
//! unread is given up: the system would keep megabytes for each, for minutes.

use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::TcpStream;
use std::time::Duration;
use units::Nanos;

/// How long a peer may be silent before the system asks whether it is still there, and how often and how fast it asks again.
const PROBE_AFTER: Duration = Duration::from_secs(60);
const PROBE_INTERVAL: Duration = Duration::from_secs(10);
const PROBES: u32 = 3;

/// Lets the system look after the peer of `socket`, and wait for its acknowledgement for `stall_timeout` at most.
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
    fn a_silent_peer_is_asked_and_an_unresponsive_one_is_given_up() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let _peer = TcpStream::connect(listener.local_addr().expect("an address")).expect("it listens");
        let (accepted, _) = listener.accept().expect("one has come");
        watch_peer(&accepted, Nanos::secs(7)).expect("socket options");
        let socket = SockRef::from(&accepted);
        assert!(socket.keepalive().expect("readable"));
        assert_eq!(socket.tcp_keepalive_time().expect("readable"), PROBE_AFTER);
        assert_eq!(socket.tcp_keepalive_interval().expect("readable"), PROBE_INTERVAL);
        assert_eq!(socket.tcp_keepalive_retries().expect("readable"), PROBES);
        assert_eq!(socket.tcp_user_timeout().expect("readable"), Some(Duration::from_secs(7)));
    }
}
