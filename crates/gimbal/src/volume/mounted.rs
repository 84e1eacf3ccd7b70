//! Commands that mount a volume for a while.

use crate::host_keys::KeyFlags;
use crate::rack::StoreArgs;
use anyhow::{Context, Result, bail};
use blob::{Outcome, Report, Request, Settings};
use blob_client::{Mount, Options, identity, unique_name};
use host::Backend;
use units::{Bytes, Nanos};

/// The settings with which a command mounts a volume.
pub(super) fn settings(name: &str) -> Settings {
    Settings::new(name, &unique_name())
}

/// Mounts a volume.
pub(super) fn open(store: &StoreArgs, keys: &KeyFlags, settings: Settings) -> Result<Mount> {
    let (host, host_id) = identity();
    let name = settings.name.clone();
    let options = Options {
        settings,
        host,
        host_id,
        keys: keys.read()?,
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
    keys: &KeyFlags,
    settings: Settings,
    request: Request,
) -> Result<Report> {
    let name = settings.name.clone();
    let mount = open(store, keys, settings)?;
    let outcome = mount.call(request);
    mount.unmount().with_context(|| format!("volume {name} was not unmounted in order"))?;
    match outcome {
        Outcome::Report(report) => Ok(report),
        Outcome::Failed(fault) => bail!("volume {name}: {fault}"),
        other => bail!("volume {name}: unexpected {other:?}"),
    }
}
