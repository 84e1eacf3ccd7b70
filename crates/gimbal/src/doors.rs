//! Where the admin API of `gimbal serve` is reached: the sockets that the configuration names.

use admin::{Doors, Guarded, Listener, default_socket, server_tls};
use anyhow::{Context, Error};
use server::AdminTokens;
use server::config::{AdminConfig, AdminSocket, Config, ConfigError};
use std::net::{SocketAddr, TcpListener};
use tracing::{info, warn};

/// Opens them; `None` if there is none.
pub(crate) fn open(config: &Config) -> anyhow::Result<Option<Doors>> {
    let doors =
        Doors { socket: socket(config)?, guarded: guarded(&config.admin)?, open: open_to_all(config)? };
    let is_reached = doors.socket.is_some() || doors.guarded.is_some() || doors.open.is_some();
    Ok(is_reached.then_some(doors))
}

/// A socket that was asked for is there, or the target does not start. The default one may be that of another target, or in a folder that this
/// user cannot write: then there is none, and the log says so.
fn socket(config: &Config) -> anyhow::Result<Option<Listener>> {
    let path = match &config.admin.socket {
        AdminSocket::None => return Ok(None),
        AdminSocket::At(path) => return Ok(Some(Listener::bind(path)?)),
        AdminSocket::Default => default_socket(config.state_dir.as_deref()),
    };
    let Some(path) = path else {
        warn!("there is no admin socket, as no folder is known for it; give --admin-socket");
        return Ok(None);
    };
    match Listener::bind(&path) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) => {
            warn!("there is no admin socket: {error}");
            Ok(None)
        }
    }
}

/// The address at which a token is needed.
fn guarded(config: &AdminConfig) -> anyhow::Result<Option<Guarded>> {
    let Some(address) = config.listen else { return Ok(None) };
    let tokens = AdminTokens::load(config)
        .map_err(|problems| Error::new(ConfigError::Wrong { file: None, problems }))?;
    let tls = match (&config.certificate, &config.key) {
        (Some(certificate), Some(key)) => Some(server_tls(certificate, key).map_err(Error::msg)?),
        _ => None,
    };
    let (listener, address) = listen(address, "admin.listen")?;
    info!(%address, tls = tls.is_some(), "the admin API can be reached with a token");
    Ok(Some(Guarded { listener, tls, tokens }))
}

/// The address at which everyone can read metrics, statistics and health.
fn open_to_all(config: &Config) -> anyhow::Result<Option<TcpListener>> {
    let Some(address) = config.metrics.listen else { return Ok(None) };
    let (listener, address) = listen(address, "metrics.listen")?;
    info!(%address, "metrics, statistics and health can be read without permission");
    Ok(Some(listener))
}

fn listen(address: SocketAddr, field: &str) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let failed = || format!("cannot listen on {address} ({field}); choose another address");
    let listener = TcpListener::bind(address).with_context(failed)?;
    let address = listener.local_addr().with_context(failed)?;
    Ok((listener, address))
}
