//! `gimbal-csi`: the driver as a process, one for the controller and one on each node.

use admin::{Client, Secured};
use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use csi::{Controller, ControllerService, Identity, IdentityService, Node, NodeService, Target};
use std::fs;
use std::io::IsTerminal;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tracing_subscriber::EnvFilter;

/// The requests of one connection that are answered at the same time.
const REQUESTS: usize = 64;

/// A driver of the Container Storage Interface: volumes are namespaces in directories of a target
#[derive(Parser)]
#[command(name = "gimbal-csi", version)]
struct Arguments {
    /// The socket for Kubernetes: unix:///PATH
    #[arg(
        long,
        env = "CSI_ENDPOINT",
        value_name = "URL",
        global = true,
        default_value = "unix:///csi/csi.sock"
    )]
    endpoint: String,
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// Volumes and snapshots of a target
    Controller(ControllerArguments),
    /// Volumes on this machine
    Node(NodeArguments),
}

#[derive(clap::Args)]
struct ControllerArguments {
    /// The admin socket of the target
    #[arg(long, value_name = "PATH", required_unless_present = "url")]
    socket: Option<PathBuf>,
    /// The target at an address: https://HOST:PORT
    #[arg(long, value_name = "URL", conflicts_with = "socket", requires = "token_file")]
    url: Option<String>,
    /// The file with the token for --url
    #[arg(long, value_name = "FILE", requires = "url")]
    token_file: Option<PathBuf>,
    /// The CA of the target's certificate [default: those of this system]
    #[arg(long, value_name = "FILE", requires = "url")]
    ca: Option<PathBuf>,
    /// An address at which nodes reach the target; may be repeated
    #[arg(long = "portal", value_name = "ADDRESS:PORT", required = true)]
    portals: Vec<String>,
    /// The directory with the keys of nodes, on the machine of the target
    #[arg(long, value_name = "DIRECTORY")]
    keys: Option<PathBuf>,
}

#[derive(clap::Args)]
struct NodeArguments {
    /// The directory of nvme-cli, with hostnqn
    #[arg(long, value_name = "DIRECTORY", default_value = "/etc/nvme")]
    nvme_config: PathBuf,
    /// The directory with the names of devices by their identifiers
    #[arg(long, value_name = "DIRECTORY", default_value = "/dev/disk/by-id")]
    by_id: PathBuf,
}

#[tokio::main]
async fn main() -> Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    let Arguments { endpoint, part } = Arguments::parse();
    let path = endpoint.strip_prefix("unix://").map(PathBuf::from).filter(|path| path.is_absolute());
    let path = path.with_context(|| format!("--endpoint {endpoint:?} is not unix:///PATH"))?;
    let mut server = Server::builder().concurrency_limit_per_connection(REQUESTS);
    let router = match part {
        Part::Controller(arguments) => {
            let client = arguments.client()?;
            for portal in &arguments.portals {
                let port = portal.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
                if port.is_none() || portal.contains(',') {
                    bail!("--portal {portal:?} is not ADDRESS:PORT");
                }
            }
            let ControllerArguments { portals, keys, .. } = arguments;
            let controller = Controller::new(Target::new(client.clone()), portals, keys);
            let identity = Identity::new(Some(Target::new(client)));
            server.add_service(IdentityService::new(identity)).add_service(ControllerService::new(controller))
        }
        Part::Node(NodeArguments { nvme_config, by_id }) => server
            .add_service(IdentityService::new(Identity::new(None)))
            .add_service(NodeService::new(Node::new(nvme_config, by_id))),
    };
    let listener = listen(&path)?;
    tracing::info!(socket = %path.display(), "ready");
    let mut terminate = signal(SignalKind::terminate()).context("signals cannot be received")?;
    let stop = async move { _ = terminate.recv().await };
    router.serve_with_incoming_shutdown(UnixListenerStream::new(listener), stop).await?;
    Ok(())
}

impl ControllerArguments {
    fn client(&self) -> Result<Client> {
        let (Some(url), Some(file)) = (&self.url, &self.token_file) else {
            let socket = self.socket.as_deref().context("--socket or --url is missing")?;
            return Ok(Client::new(socket));
        };
        let token = files::read_secret(file).with_context(|| format!("{} cannot be read", file.display()))?;
        Ok(Client::at(Secured::new(url, token.trim(), self.ca.as_deref()).map_err(anyhow::Error::msg)?))
    }
}

/// Listens at a path. The socket of a driver that was killed is replaced.
fn listen(path: &Path) -> Result<UnixListener> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket {
        if UnixStream::connect(path).is_ok() {
            bail!("another driver answers at {}", path.display());
        }
        fs::remove_file(path).with_context(|| format!("{} cannot be replaced", path.display()))?;
    }
    UnixListener::bind(path).with_context(|| format!("cannot listen at {}", path.display()))
}
