//! The keys by which a host proves who it is, and their files.

use auth::exchange::HostKeys;
use auth::hello::Psk;
use auth::psk::Derivation;
use auth::{DhKey, KeyError, TlsKey};
use std::path::{Path, PathBuf};

/// The key for TLS, and how pre-shared keys are made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// The key.
    pub key: TlsKey,
    /// The derivation: the standard one, or the one of libnvme before 1.16.
    pub derivation: Derivation,
}

impl TlsOptions {
    /// The pre-shared keys of a host for a controller.
    pub(crate) fn psks(&self, host: &str, controller: &str) -> Vec<Psk> {
        Psk::of_host(&self.key, (host, controller), self.derivation)
    }
}

/// The keys of a host. Without any, a target that asks for a proof is not used.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    /// For DH-HMAC-CHAP: those of this host and of the controller. With the second one, the controller has to prove itself, too.
    pub dhchap: Option<HostKeys>,
    /// For TLS: every connection uses it, and both ends prove themselves.
    pub tls: Option<TlsOptions>,
    /// Whether the key for TLS is made by DH-HMAC-CHAP (concatenation), if there is none: every connection uses it, but the first one, and
    /// those to discovery.
    pub concat: bool,
}

impl Keys {
    /// Whether a key for TLS is to be made.
    pub(crate) fn concatenates(&self) -> bool {
        self.concat && self.tls.is_none()
    }
}

/// A file that has no such key. No part of its contents is in the message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}; look at it with gimbal key check", .file.display())]
pub struct KeyFileError {
    file: PathBuf,
    why: String,
}

/// The files with the keys of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyFiles {
    /// The host's key for DH-HMAC-CHAP.
    pub dhchap: Option<PathBuf>,
    /// The one of the controller; only with the former.
    pub dhchap_ctrl: Option<PathBuf>,
    /// The key for TLS.
    pub tls: Option<PathBuf>,
    /// Whether its pre-shared keys are derived as libnvme before 1.16 does.
    pub tls_compat: bool,
    /// Whether the key for TLS is made by DH-HMAC-CHAP.
    pub concat: bool,
}

impl KeyFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be read, or has no such key.
    pub fn read(&self) -> Result<Keys, KeyFileError> {
        let dhchap = match &self.dhchap {
            None => None,
            Some(own) => {
                let controller =
                    self.dhchap_ctrl.as_deref().map(|file| read(file, DhKey::parse)).transpose()?;
                Some(HostKeys { host: read(own, DhKey::parse)?, controller })
            }
        };
        let derivation = if self.tls_compat { Derivation::OldLibnvme } else { Derivation::Standard };
        let tls = self.tls.as_deref().map(|file| read(file, TlsKey::parse)).transpose()?;
        let tls = tls.map(|key| TlsOptions { key, derivation });
        Ok(Keys { dhchap, tls, concat: self.concat })
    }
}

fn read<K>(file: &Path, parse: impl Fn(&str) -> Result<K, KeyError>) -> Result<K, KeyFileError> {
    let failed = |why: String| KeyFileError { file: file.to_owned(), why };
    let text = files::read_secret(file).map_err(|error| failed(format!("cannot be read: {error}")))?;
    parse(&text).map_err(|error| failed(error.to_string()))
}
