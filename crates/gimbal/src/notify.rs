//! Reports the state of the target to a service manager by systemd's notification protocol: a line or two to a datagram socket.
//!
//! With `Type=notify` or `Type=notify-reload` systemd knows when hosts may connect, when a reload begins and ends, when the target
//! stops, and that it is alive (`watchdog`). Without `NOTIFY_SOCKET` in the environment there is no service manager.
//!
//! Holds: `tests/service.rs`.

use reactor::Clock;
use std::env;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use tracing::warn;

/// The state to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Hosts may connect. Also sent after a reload, successful or not.
    Ready,
    /// A reload of the configuration has begun.
    Reloading,
    /// The target is stopping.
    Stopping,
    /// No thread hangs.
    Alive,
}

impl State {
    fn message(self) -> String {
        match self {
            State::Ready => "READY=1\n".to_owned(),
            // systemd uses the time to match READY with this reload.
            State::Reloading => format!("RELOADING=1\nMONOTONIC_USEC={}\n", Clock.now().0 / 1000),
            State::Stopping => "STOPPING=1\n".to_owned(),
            State::Alive => "WATCHDOG=1\n".to_owned(),
        }
    }
}

/// Notifies the service manager, if there is one. If that fails, the target continues.
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
        warn!(socket = ?name, %error, "cannot notify the service manager of the state {state:?}");
    }
}
