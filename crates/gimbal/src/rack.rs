//! What all commands about a rack share: where its metadata store is, and who we are for its targets.

use anyhow::{Result, anyhow};
use blob::store::Store;
use host::{HostId, Nqn};
use std::env;

/// The variable that names the store when no flag does.
const VARIABLE: &str = "GIMBAL_STORE";

/// Where the metadata store is.
#[derive(clap::Args)]
pub(crate) struct StoreArgs {
    /// The metadata store: etcd://HOST:PORT[,HOST:PORT...], or the path of a file for the processes of one machine.
    /// Default: the variable GIMBAL_STORE
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
}

impl StoreArgs {
    /// Opens the store.
    pub(crate) fn open(&self) -> Result<Box<dyn Store + Send>> {
        let text = self.store.clone().or_else(|| env::var(VARIABLE).ok().filter(|text| !text.is_empty()));
        let text = text.ok_or_else(|| anyhow!("no metadata store: give --store, or set {VARIABLE}"))?;
        blob_meta::open(&text).map_err(|reason| anyhow!(reason))
    }
}

/// Our NQN and identifier: the same for all commands on this machine, so that they are one tenant.
pub(crate) fn identity() -> Result<(Nqn, HostId)> {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String = machine
        .trim()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .collect();
    let host = Nqn::new(&format!("nqn.2025-01.io.gimbal:volume:{name}"))?;
    let id = loadgen::host_id(&host);
    Ok((host, id))
}
