//! The arguments that all commands about a rack share: the place of its metadata store.

use anyhow::{Result, anyhow};
use blob::store::Store;
use blob_meta::EtcdFiles;
use std::env;

/// The environment variable that names the store if no flag does.
const VARIABLE: &str = "GIMBAL_STORE";

/// The place of the metadata store.
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
        blob_meta::open(&text, &EtcdFiles::default().or_environment()).map_err(|reason| anyhow!(reason))
    }
}
