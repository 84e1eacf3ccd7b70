//! TLS to an etcd cluster: whom to trust, and what an error of a connection means.
//!
//! TLS is rustls', in version 1.2 or 1.3, with the cryptography of aws-lc, which the workspace has for its other TLS. The
//! server's certificate must be valid, for the host in the store's name, and signed by a CA of the given file, or of this
//! system if there is none.
//!
//! Holds: `tests/etcd_tls.rs`.

use super::files::{self, EtcdFiles};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, RootCertStore};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use ureq::Error;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, TlsProvider, parse_pem};

/// The advice where a server does not speak TLS.
const NO_TLS: &str = "give etcd a certificate (--cert-file, --key-file), or write etcd://";

/// The configuration of TLS with these files.
///
/// # Errors
/// A description of the problem of a file, or of this system's certificates.
pub(super) fn config(files: &EtcdFiles) -> Result<TlsConfig, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let roots = match &files.ca {
        Some(file) => roots_of(file)?,
        None => system_roots()?,
    };
    let client = match (&files.cert, &files.key) {
        (Some(cert), Some(key)) => Some(client_cert(cert, key, &provider)?),
        _ => None,
    };
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(provider)
        .root_certs(RootCerts::from(roots))
        .client_cert(client)
        .build())
}

fn certificates(file: &Path) -> Result<Vec<Certificate<'static>>, String> {
    let failed = |why: String| format!("{}: {why}", file.display());
    let text = ::files::read_text(file).map_err(|error| failed(format!("cannot be read: {error}")))?;
    let mut found = Vec::new();
    for item in parse_pem(text.as_bytes()) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| failed(error.to_string()))? {
            found.push(certificate);
        }
    }
    if found.is_empty() {
        return Err(failed("there is no certificate in it (PEM, -----BEGIN CERTIFICATE-----)".to_owned()));
    }
    Ok(found)
}

/// The CAs of a file. Each has to be usable: one that TLS leaves out would be missed only when a server is refused.
fn roots_of(file: &Path) -> Result<Vec<Certificate<'static>>, String> {
    let roots = certificates(file)?;
    let mut store = RootCertStore::empty();
    for root in &roots {
        let added = store.add(CertificateDer::from(root.der()));
        added.map_err(|error| format!("{}: a certificate that cannot be a CA's: {error}", file.display()))?;
    }
    Ok(roots)
}

fn system_roots() -> Result<Vec<Certificate<'static>>, String> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let why: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        return Err(format!(
            "this system has no CA certificates (Debian: ca-certificates) {}; name a file with those of etcd ({})",
            why.join("; "),
            files::CA
        ));
    }
    Ok(found.certs.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect())
}

fn client_cert(cert: &Path, key: &Path, provider: &CryptoProvider) -> Result<ClientCert, String> {
    let chain = certificates(cert)?;
    let failed = |why: String| format!("{}: {why}", key.display());
    let text = ::files::read_secret(key).map_err(|error| failed(format!("cannot be read: {error}")))?;
    let found = PrivateKey::from_pem(text.as_bytes());
    let found =
        found.map_err(|_| failed("there is no private key in it that is not encrypted (PEM)".to_owned()))?;
    let der = PrivateKeyDer::try_from(found.der()).map_err(|why| failed(why.to_owned()))?;
    let owned =
        chain.iter().map(|certificate| CertificateDer::from(certificate.der()).into_owned()).collect();
    CertifiedKey::from_der(owned, der.clone_key(), provider)
        .map_err(|error| failed(format!("it is not the key of {}: {error}", cert.display())))?;
    Ok(ClientCert::new_with_certs(&chain, found))
}

/// The meaning of an error of a connection, with the advice.
pub(super) fn explain(error: &Error, is_tls: bool, files: &EtcdFiles) -> String {
    if !is_tls {
        return if is_cut(error) || matches!(error, Error::Protocol(_)) {
            format!("{error}; {}", plain_to_tls())
        } else {
            error.to_string()
        };
    }
    match of_rustls(error) {
        Some(error) => explain_tls(error, files),
        None if is_cut(error) => format!(
            // A refused certificate ends here, too, if this end wrote before it read the alert.
            "{error}: it closed the connection; if it does not speak TLS, {NO_TLS}; if it asks for a certificate of the client, \
             name one that a CA in its --trusted-ca-file has signed ({})",
            files::CERT
        ),
        None => error.to_string(),
    }
}

/// The advice where plain text was spoken to a server of TLS.
pub(super) fn plain_to_tls() -> &'static str {
    "if this etcd expects TLS, write etcds:// instead of etcd://"
}

/// Whether the server ended the connection without a response.
fn is_cut(error: &Error) -> bool {
    let kinds = [
        ErrorKind::UnexpectedEof,
        ErrorKind::ConnectionReset,
        ErrorKind::ConnectionAborted,
        ErrorKind::BrokenPipe,
    ];
    matches!(error, Error::Io(error) if kinds.contains(&error.kind()))
}

fn of_rustls(error: &Error) -> Option<&rustls::Error> {
    match error {
        Error::Rustls(error) => Some(error),
        Error::Io(error) => error.get_ref()?.downcast_ref(),
        _ => None,
    }
}

fn explain_tls(error: &rustls::Error, files: &EtcdFiles) -> String {
    use rustls::AlertDescription as Alert;
    use rustls::Error as Tls;
    match error {
        Tls::InvalidCertificate(problem) => explain_certificate(problem, files),
        Tls::InvalidMessage(_) => format!("it does not speak TLS ({error}): {NO_TLS}"),
        Tls::AlertReceived(
            Alert::CertificateRequired | Alert::BadCertificate | Alert::UnknownCA | Alert::HandshakeFailure,
        ) => format!(
            "it refuses this client ({error}): its --trusted-ca-file has to contain the CA of the client's certificate ({})",
            files::CERT
        ),
        Tls::AlertReceived(Alert::ProtocolVersion) | Tls::PeerIncompatible(_) => {
            format!(
                "it has no version of TLS from 1.2, or no cipher suite, in common with this client ({error})"
            )
        }
        error => format!("TLS: {error}"),
    }
}

fn explain_certificate(problem: &CertificateError, files: &EtcdFiles) -> String {
    let trusted = match &files.ca {
        Some(file) => format!("the CAs in {}", file.display()),
        None => "the CAs of this system".to_owned(),
    };
    match problem {
        // The latter comes from a CA with the right name and another key: an older one, or a forged one.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => format!(
            "{trusted} have not signed its certificate: give the file with the certificate of its CA ({})",
            files::CA
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => format!(
            "its certificate is for another name ({problem}): use a name that it contains, or issue one with this name \
             (subjectAltName; IP: for an address)"
        ),
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => {
            format!(
                "its certificate is not valid now ({problem}): issue another one, or set this machine's clock"
            )
        }
        problem => format!("its certificate is refused: {problem}"),
    }
}

#[cfg(test)]
mod tests {
    use rustls::ProtocolVersion;

    /// `ureq` offers all versions of rustls.
    #[test]
    fn tls_is_spoken_in_version_1_2_or_1_3() {
        let all: Vec<ProtocolVersion> = rustls::ALL_VERSIONS.iter().map(|version| version.version).collect();
        assert_eq!(all, [ProtocolVersion::TLSv1_3, ProtocolVersion::TLSv1_2]);
    }
}
