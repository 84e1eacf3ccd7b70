//! Where the admin API of the target is reached, and where its health can be read.

use std::net::SocketAddr;
use std::path::PathBuf;

/// The word for no socket.
const NONE: &str = "none";

/// The Unix socket of the admin API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AdminSocket {
    /// `admin.sock` in the runtime directory of the user who runs the target.
    #[default]
    Default,
    /// This path.
    At(PathBuf),
    /// No admin API.
    None,
}

impl AdminSocket {
    /// The socket that a text means: a path, or `none`.
    pub fn named(text: &str) -> AdminSocket {
        if text == NONE { AdminSocket::None } else { AdminSocket::At(text.into()) }
    }

    /// The text of it; `None` is the default.
    pub(super) fn written(&self) -> Option<PathBuf> {
        match self {
            AdminSocket::Default => None,
            AdminSocket::At(path) => Some(path.clone()),
            AdminSocket::None => Some(NONE.into()),
        }
    }
}

/// The admin API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdminConfig {
    /// The Unix socket that it listens on.
    pub socket: AdminSocket,
}

/// What can be read without permission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricsConfig {
    /// Its address; `None`: nowhere but on the socket of the admin API.
    pub listen: Option<SocketAddr>,
}
