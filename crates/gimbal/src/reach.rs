//! The flags that name a running target, for commands that talk to its admin API.

use crate::output;
use admin::{Client, ClientError, Secured, default_socket};
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::process::ExitCode;

/// The exit codes of a command for which no target is named, and that reaches none.
const WRONG_USAGE: u8 = 2;
const UNREACHABLE: u8 = 3;

/// See the module.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Reach {
    /// The admin socket of the target [default: that of a target of the same user]
    #[arg(long, value_name = "PATH", global = true)]
    socket: Option<PathBuf>,
    /// A target at an address: https://HOST:PORT
    #[arg(long, value_name = "URL", global = true, conflicts_with = "socket", requires = "token_file")]
    url: Option<String>,
    /// The file with the token for --url
    #[arg(long, value_name = "FILE", global = true, requires = "url")]
    token_file: Option<PathBuf>,
    /// The CA of the target's certificate [default: those of this system]
    #[arg(long, value_name = "FILE", global = true, requires = "url")]
    ca: Option<PathBuf>,
}

impl Reach {
    /// Does something with the client of this target, and says so if no target is named or reached.
    pub(crate) fn with(&self, work: impl FnOnce(Client) -> Result<ExitCode>) -> Result<ExitCode> {
        let Some(client) = self.client()? else {
            output::note("gimbal: no admin socket is known for this user; give --socket PATH");
            return Ok(ExitCode::from(WRONG_USAGE));
        };
        match work(client) {
            Err(error) if error.is::<ClientError>() => {
                output::note(format_args!("gimbal: {error}"));
                Ok(ExitCode::from(UNREACHABLE))
            }
            other => other,
        }
    }

    /// The client; `None` if no target is named, and this user has no default.
    fn client(&self) -> Result<Option<Client>> {
        let (Some(url), Some(file)) = (&self.url, &self.token_file) else {
            let socket = self.socket.clone().or_else(|| default_socket(None));
            return Ok(socket.map(|socket| Client::new(&socket)));
        };
        let token = files::read_secret(file).with_context(|| format!("{} cannot be read", file.display()))?;
        let secured = Secured::new(url, token.trim(), self.ca.as_deref()).map_err(anyhow::Error::msg)?;
        Ok(Some(Client::at(secured)))
    }
}
