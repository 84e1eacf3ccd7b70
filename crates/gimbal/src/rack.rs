//! The arguments that all commands about a rack share: the place of its metadata store, and the files for it.

use crate::output;
use anyhow::{Result, anyhow};
use blob::store::Store;
use blob_meta::EtcdFiles;
use std::env;
use std::path::PathBuf;

/// The environment variable that names the store if no flag does.
const VARIABLE: &str = "GIMBAL_STORE";

/// The place of the metadata store.
#[derive(clap::Args)]
pub(crate) struct StoreArgs {
    /// The metadata store: etcd://HOST:PORT[,HOST:PORT...], with TLS and a user etcds://USER@HOST:PORT[,HOST:PORT...], or the
    /// path of a file for the processes of one machine. Default: the variable GIMBAL_STORE
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
    /// File with the password of etcd's user, one line. Default: the variable GIMBAL_ETCD_PASSWORD_FILE
    #[arg(long, value_name = "FILE")]
    etcd_password_file: Option<PathBuf>,
    /// File with the CA certificates (PEM) that sign those of etcd. Default: the variable GIMBAL_ETCD_CA_FILE, then the CAs of
    /// this system
    #[arg(long, value_name = "FILE")]
    etcd_ca_file: Option<PathBuf>,
    /// File with a certificate for this client (PEM), if etcd asks for one. Default: the variable GIMBAL_ETCD_CERT_FILE
    #[arg(long, value_name = "FILE")]
    etcd_cert_file: Option<PathBuf>,
    /// File with the key of that certificate (PEM). Default: the variable GIMBAL_ETCD_KEY_FILE
    #[arg(long, value_name = "FILE")]
    etcd_key_file: Option<PathBuf>,
}

impl StoreArgs {
    /// Opens the store. Warns of files with secrets that others can read.
    pub(crate) fn open(&self) -> Result<Box<dyn Store + Send>> {
        let text = self.store.clone().or_else(|| env::var(VARIABLE).ok().filter(|text| !text.is_empty()));
        let text = text.ok_or_else(|| anyhow!("no metadata store: give --store, or set {VARIABLE}"))?;
        let files = EtcdFiles {
            password: self.etcd_password_file.clone(),
            ca: self.etcd_ca_file.clone(),
            cert: self.etcd_cert_file.clone(),
            key: self.etcd_key_file.clone(),
        };
        let files = files.or_environment();
        let store = blob_meta::open(&text, &files).map_err(|reason| anyhow!(reason))?;
        files.warnings().iter().for_each(|warning| output::note(format_args!("warning: {warning}")));
        Ok(store)
    }
}
