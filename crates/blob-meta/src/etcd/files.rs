//! The files with which an etcd cluster is used: the user's password, the CA of the servers, a certificate of the client.
//!
//! They are named by flags (`gimbal`) or options of a URI (RocksDB), and where those are absent by environment variables,
//! as for a target, which has neither.

use super::place::Place;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The ways to name each file, for messages.
pub(super) const PASSWORD: &str =
    "--etcd-password-file, in a gimbal:// URI etcd_password, or the variable GIMBAL_ETCD_PASSWORD_FILE";
pub(super) const CA: &str = "--etcd-ca-file, in a gimbal:// URI etcd_ca, or the variable GIMBAL_ETCD_CA_FILE";
pub(super) const CERT: &str = "--etcd-cert-file and --etcd-key-file, in a gimbal:// URI etcd_cert and etcd_key, or the variables GIMBAL_ETCD_CERT_FILE and \
     GIMBAL_ETCD_KEY_FILE";

/// Files for an etcd cluster, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdFiles {
    /// The password of the user, one line.
    pub password: Option<PathBuf>,
    /// Certificates (PEM) of the CAs that sign the servers' certificates; `None`: those of this system.
    pub ca: Option<PathBuf>,
    /// Certificate of this client with those between it and its CA (PEM), if the cluster asks for one.
    pub cert: Option<PathBuf>,
    /// Private key (PEM) of `cert`.
    pub key: Option<PathBuf>,
}

impl EtcdFiles {
    /// Takes files that are not named from the environment: `GIMBAL_ETCD_PASSWORD_FILE`, `GIMBAL_ETCD_CA_FILE`,
    /// `GIMBAL_ETCD_CERT_FILE`, `GIMBAL_ETCD_KEY_FILE`.
    #[must_use]
    pub fn or_environment(self) -> EtcdFiles {
        self.or_variables(|name| env::var_os(name))
    }

    fn or_variables(self, value: impl Fn(&str) -> Option<OsString>) -> EtcdFiles {
        let or = |file: Option<PathBuf>, name: &str| {
            file.or_else(|| value(name).filter(|value| !value.is_empty()).map(PathBuf::from))
        };
        EtcdFiles {
            password: or(self.password, "GIMBAL_ETCD_PASSWORD_FILE"),
            ca: or(self.ca, "GIMBAL_ETCD_CA_FILE"),
            cert: or(self.cert, "GIMBAL_ETCD_CERT_FILE"),
            key: or(self.key, "GIMBAL_ETCD_KEY_FILE"),
        }
    }

    /// A line for each file with a secret that others than its owner can read or change.
    pub fn warnings(&self) -> Vec<String> {
        let secrets = [&self.password, &self.key].into_iter().flatten();
        let problem = |file: &PathBuf| {
            let problem = files::open_to_others(file).ok().flatten()?;
            Some(format!("{}: {problem}", file.display()))
        };
        secrets.filter_map(problem).collect()
    }

    /// Checks that each file has a use in this place, and that none is missing.
    pub(super) fn fit(&self, place: &Place) -> Result<(), String> {
        match (&place.user, &self.password) {
            (Some(user), None) => {
                return Err(format!(
                    "user {user} of etcd needs a password: name a file with it ({PASSWORD})"
                ));
            }
            (None, Some(file)) => {
                return Err(format!(
                    "there is a file with a password ({}), but no user: write etcds://USER@HOST:PORT",
                    file.display()
                ));
            }
            _ => {}
        }
        if let Some(file) = [&self.ca, &self.cert, &self.key].into_iter().flatten().next()
            && !place.is_tls
        {
            return Err(format!(
                "{} is a file for TLS, but etcd:// is without TLS: write etcds://HOST:PORT",
                file.display()
            ));
        }
        if self.cert.is_some() != self.key.is_some() {
            return Err(format!("a certificate of this client and its key are given together: {CERT}"));
        }
        Ok(())
    }
}

/// The password in a file.
///
/// # Errors
/// A description of the problem of the file, without a part of it.
pub(super) fn read_password(file: &Path) -> Result<Zeroizing<String>, String> {
    let failed = |why: String| format!("{}: the password of etcd's user: {why}", file.display());
    let text = files::read_secret(file).map_err(|error| failed(format!("cannot be read: {error}")))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.is_empty() || line.contains(['\n', '\r']) {
        return Err(failed("write it into the file as its only line".to_owned()));
    }
    Ok(Zeroizing::new(line.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    fn fit(text: &str, files: &EtcdFiles) -> Result<(), String> {
        files.fit(&Place::parse(text).expect("a cluster"))
    }

    #[test]
    fn each_file_has_a_use_and_none_is_missing() {
        let some = |name: &str| Some(PathBuf::from(name));
        let none = EtcdFiles::default();
        let password = EtcdFiles { password: some("p"), ..none.clone() };
        let ca = EtcdFiles { ca: some("ca.pem"), ..none.clone() };
        let cert = EtcdFiles { cert: some("cert.pem"), ..none.clone() };
        let both = EtcdFiles { key: some("key.pem"), ..cert.clone() };
        for (text, files) in [("etcd://h:1", &none), ("etcds://h:1", &none), ("etcds://h:1", &ca)] {
            assert_eq!(fit(text, files), Ok(()), "{text}");
        }
        assert_eq!((fit("etcds://u@h:1", &password), fit("etcds://h:1", &both)), (Ok(()), Ok(())));
        for (text, files, part) in [
            ("etcds://u@h:1", &none, "--etcd-password-file"),
            ("etcds://h:1", &password, "no user"),
            ("etcd://h:1", &ca, "ca.pem"),
            ("etcd://h:1", &both, "cert.pem"),
            ("etcds://h:1", &cert, "together"),
        ] {
            let error = fit(text, files).expect_err(text);
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_variable_names_a_file_that_is_not_named_otherwise() {
        let named = EtcdFiles { password: Some("flag".into()), ..EtcdFiles::default() };
        let files = named.clone().or_variables(|name| Some(name.into()));
        let EtcdFiles { password, ca, cert, key } = files;
        let found = [password, ca, cert, key].map(|file| file.expect("named"));
        let wanted = ["flag", "GIMBAL_ETCD_CA_FILE", "GIMBAL_ETCD_CERT_FILE", "GIMBAL_ETCD_KEY_FILE"];
        assert_eq!(found, wanted.map(PathBuf::from));
        assert_eq!(named.clone().or_variables(|_| Some(OsString::new())), named);
        assert_eq!(named.clone().or_variables(|_| None), named);
    }

    #[test]
    fn a_password_is_one_line_of_a_file_that_only_its_owner_reads() {
        let file = std::env::temp_dir().join(format!("gimbal-etcd-password-{}", std::process::id()));
        for (bytes, password) in [("se same\n", "se same"), ("sesame", "sesame"), ("sesame\r\n", "sesame")] {
            fs::write(&file, bytes).expect("the folder is writable");
            assert_eq!(read_password(&file).expect("a password").as_str(), password);
        }
        for bytes in ["", "\n", "sesame\nopen\n"] {
            fs::write(&file, bytes).expect("the folder is writable");
            let error = read_password(&file).expect_err("no password");
            assert!(error.contains("only line") && !error.contains("sesame"), "{error}");
        }
        let files =
            EtcdFiles { password: Some(file.clone()), ca: Some(file.clone()), ..EtcdFiles::default() };
        for (mode, warnings) in [(0o600, 0), (0o640, 1), (0o604, 1)] {
            fs::set_permissions(&file, Permissions::from_mode(mode)).expect("it is ours");
            assert_eq!(files.warnings().len(), warnings, "{mode:o}: {:?}", files.warnings());
        }
        fs::remove_file(&file).expect("it is there");
        assert!(read_password(&file).expect_err("it is gone").contains("cannot be read"));
    }
}
