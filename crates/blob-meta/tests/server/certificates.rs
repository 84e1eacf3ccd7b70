//! A CA and certificates, made by `openssl`.

use super::Scratch;
use std::path::PathBuf;
use std::process::Command;

const CONFIG: &str = "
[req]
distinguished_name = name
[name]
[ca]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
[leaf]
basicConstraints = critical, CA:FALSE
extendedKeyUsage = serverAuth, clientAuth
subjectAltName = ${ENV::ALTERNATIVE}
";

/// A certificate and its key, by their files.
#[derive(Clone)]
pub(crate) struct Certificate {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

/// A CA with a folder of its own.
pub(crate) struct Authority {
    folder: Scratch,
    own: Certificate,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Authority {
        let folder = Scratch::new(name);
        let own = Certificate { cert: folder.path().join("ca.pem"), key: folder.path().join("ca.key") };
        let authority = Authority { folder, own };
        authority.folder.write("config", CONFIG);
        authority.make(&authority.own, "ca", "DNS:none", &[]);
        authority
    }

    /// The file with the certificate of the CA.
    pub(crate) fn file(&self) -> PathBuf {
        self.own.cert.clone()
    }

    /// A certificate for a name, `IP:ADDRESS` or `DNS:NAME`.
    pub(crate) fn issue(&self, name: &str) -> Certificate {
        let file = |kind: &str| self.folder.path().join(format!("{}.{kind}", name.replace(':', "-")));
        let made = Certificate { cert: file("pem"), key: file("key") };
        let (cert, key) = (self.own.cert.display().to_string(), self.own.key.display().to_string());
        self.make(&made, "leaf", name, &["-CA", &cert, "-CAkey", &key]);
        made
    }

    fn make(&self, made: &Certificate, extensions: &str, name: &str, more: &[&str]) {
        let output = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
            .args(["-days", "2", "-subj", &format!("/O={extensions} of a test"), "-extensions", extensions])
            .args(more)
            .arg("-config")
            .arg(self.folder.path().join("config"))
            .arg("-keyout")
            .arg(&made.key)
            .arg("-out")
            .arg(&made.cert)
            .env("ALTERNATIVE", name)
            .output()
            .expect("openssl is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
