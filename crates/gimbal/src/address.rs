//! `HOST:PORT` as people type it.

use anyhow::{Context, Result};
use std::net::{SocketAddr, ToSocketAddrs};

/// The address that `text` names. `origin` says in errors where the user wrote it.
pub(crate) fn resolve(text: &str, origin: &str) -> Result<SocketAddr> {
    let mut addresses = text.to_socket_addrs().with_context(|| match text.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => {
            format!("cannot resolve the host `{host}` of {origin}")
        }
        _ => format!("{origin} {text} is not an address; write HOST:PORT"),
    })?;
    addresses.next().with_context(|| format!("the host of {origin} {text} has no IP address"))
}
