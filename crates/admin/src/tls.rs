//! TLS for the API at an address: the certificate of the target, and whom a client trusts.
//!
//! TLS is rustls', in version 1.2 or 1.3, with the cryptography of aws-lc, which the workspace has for its other TLS.
//!
//! Holds: `tests/ctl_remote.rs` of `gimbal`.

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::path::Path;
use std::sync::Arc;

/// The end of the target, with the chain and the key of these files.
///
/// # Errors
/// The problem of a file, with its name.
pub fn server_tls(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, String> {
    let chain = certificates(certificate)?;
    let failed = |why: String| format!("{}: {why}", key.display());
    let text = files::read_secret(key).map_err(|error| failed(format!("cannot be read: {error}")))?;
    let private = PrivateKeyDer::from_pem_slice(text.as_bytes())
        .map_err(|_| failed("there is no private key in it that is not encrypted (PEM)".to_owned()))?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| failed(format!("it is not the key of {}: {error}", certificate.display())))?;
    Ok(Arc::new(config))
}

/// The end of a client, which trusts the CAs of a file, or of this system.
pub(crate) fn client_tls(ca: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(file) => {
            for certificate in certificates(file)? {
                let added = roots.add(certificate);
                added.map_err(|error| {
                    format!("{}: a certificate that cannot be a CA's: {error}", file.display())
                })?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err("this system has no CA certificates; name a file with that of the target (--ca)"
                    .to_owned());
            }
        }
    }
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let failed = |why: String| format!("{}: {why}", file.display());
    let text = files::read_text(file).map_err(|error| failed(format!("cannot be read: {error}")))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let found = found.map_err(|error| failed(error.to_string()))?;
    if found.is_empty() {
        return Err(failed("there is no certificate in it (PEM, -----BEGIN CERTIFICATE-----)".to_owned()));
    }
    Ok(found)
}
