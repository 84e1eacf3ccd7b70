//! Commands that mount a volume for a while.

use crate::host_keys::KeyFlags;
use crate::rack::StoreArgs;
use crate::transport_flag::TransportFlag;
use anyhow::{Context, Result, bail};
use blob::{Outcome, Report, Request, Settings};
use blob_client::{Mount, Options, identity, unique_name};
use host::Backend;
use units::{Bytes, Nanos};

/// The settings with which a command mounts a volume.
pub(super) fn settings(name: &str) -> Settings {
    Settings::new(name, &unique_name())
}

/// The flags by which a command reaches the targets of a volume.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct Access {
    #[command(flatten)]
    keys: KeyFlags,
    #[command(flatten)]
    transport: TransportFlag,
}

/// Mounts a volume.
pub(super) fn open(store: &StoreArgs, access: &Access, settings: Settings) -> Result<Mount> {
    let (host, host_id) = identity();
    let name = settings.name.clone();
    let options = Options {
        settings,
        host,
        host_id,
        transport: access.transport.get(),
        keys: access.keys.read()?,
        backend: Backend::Auto,
        memory: Bytes::mib(64),
        io_timeout: Nanos::secs(10),
        spin: None,
    };
    Mount::open(options, store.open()?).with_context(|| format!("volume {name} cannot be mounted"))
}

/// Mounts a volume, carries out a request that ends with a report, and unmounts.
pub(super) fn with(
    store: &StoreArgs,
    access: &Access,
    settings: Settings,
    request: Request,
) -> Result<Report> {
    let name = settings.name.clone();
    let mount = open(store, access, settings)?;
    let outcome = mount.call(request);
    mount.unmount().with_context(|| format!("volume {name} was not unmounted in order"))?;
    match outcome {
        Outcome::Report(report) => Ok(report),
        Outcome::Failed(fault) => bail!("volume {name}: {fault}"),
        other => bail!("volume {name}: unexpected {other:?}"),
    }
}
