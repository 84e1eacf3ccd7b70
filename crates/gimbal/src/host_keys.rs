//! The flags that name the keys of this host, for commands that connect to targets.
//!
//! Elsewhere: keys are made by `gimbal key`.

use anyhow::Result;
use host::HostKeys;
use std::path::PathBuf;

/// Files with keys for DH-HMAC-CHAP.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct KeyFlags {
    /// File with the key of this host, for targets that ask for a proof of who it is
    #[arg(long, value_name = "FILE")]
    dhchap_key_file: Option<PathBuf>,
    /// File with the key of the controller: the target has to prove itself, too
    #[arg(long, value_name = "FILE", requires = "dhchap_key_file")]
    dhchap_ctrl_key_file: Option<PathBuf>,
}

impl KeyFlags {
    /// The keys in these files, if there are any.
    pub(crate) fn read(&self) -> Result<Option<HostKeys>> {
        let Some(file) = &self.dhchap_key_file else { return Ok(None) };
        Ok(Some(host::read_keys(file, self.dhchap_ctrl_key_file.as_deref())?))
    }
}
