//! Telling a service manager how we are: systemd's notification protocol, a line or two to a datagram socket.
//!
//! With `Type=notify-reload` systemd knows when hosts may connect, when a reload has begun and is over, and that we end; it
//! sends SIGHUP itself on `systemctl reload`. Without `NOTIFY_SOCKET` in the environment nobody wants to know.

use reactor::Clock;
use std::env;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use tracing::warn;

/// What there is to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Hosts may connect; also after a reload, whatever came of it.
    Ready,
    /// The configuration is being read again.
    Reloading,
    /// The end has begun.
    Stopping,
}

impl State {
    fn message(self) -> String {
        match self {
            State::Ready => "READY=1\n".to_owned(),
            // The time tells this reload's READY from an earlier one's.
            State::Reloading => format!("RELOADING=1\nMONOTONIC_USEC={}\n", Clock.now().0 / 1000),
            State::Stopping => "STOPPING=1\n".to_owned(),
        }
    }
}

/// Tells the service manager, if there is one. That it cannot be told is no reason to end.
pub(crate) fn notify(state: State) {
    let Some(name) = env::var_os("NOTIFY_SOCKET") else { return };
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&name),
    };
    let sent = address.and_then(|address| {
        UnixDatagram::unbound()?.send_to_addr(state.message().as_bytes(), &address).map(drop)
    });
    if let Err(error) = sent {
        warn!(socket = ?name, %error, "the service manager cannot be told: {state:?}");
    }
}
