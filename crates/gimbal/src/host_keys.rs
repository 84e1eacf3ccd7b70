//! The flags that name the keys of this host, for commands that connect to targets.
//!
//! Elsewhere: keys are made by `gimbal key`.

use anyhow::Result;
use host::{KeyFiles, Keys};
use std::path::PathBuf;

/// Files with keys for DH-HMAC-CHAP and TLS.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct KeyFlags {
    /// File with the key of this host, for targets that ask for a proof of who it is
    #[arg(long, value_name = "FILE")]
    dhchap_key_file: Option<PathBuf>,
    /// File with the key of the controller: the target has to prove itself, too
    #[arg(long, value_name = "FILE", requires = "dhchap_key_file")]
    dhchap_ctrl_key_file: Option<PathBuf>,
    /// File with the key for TLS: connections are encrypted, and both ends prove who they are
    #[arg(long, value_name = "FILE")]
    tls_key_file: Option<PathBuf>,
    /// Derive pre-shared keys as libnvme before 1.16 does, for targets that know no others
    #[arg(long, requires = "tls_key_file")]
    tls_compat: bool,
    /// Make the key for TLS by DH-HMAC-CHAP: no other key is needed
    #[arg(long, requires = "dhchap_key_file", conflicts_with = "tls_key_file")]
    concat: bool,
}

impl KeyFlags {
    /// The keys in these files.
    pub(crate) fn read(&self) -> Result<Keys> {
        let files = KeyFiles {
            dhchap: self.dhchap_key_file.clone(),
            dhchap_ctrl: self.dhchap_ctrl_key_file.clone(),
            tls: self.tls_key_file.clone(),
            tls_compat: self.tls_compat,
            concat: self.concat,
        };
        Ok(files.read()?)
    }
}
