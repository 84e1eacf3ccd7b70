//! Where the admin API of the target is reached, and where its health can be read.

use super::Problem;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The word for no socket.
const NONE: &str = "none";

/// The Unix socket of the admin API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AdminSocket {
    /// `admin.sock` in the runtime directory of the user who runs the target.
    #[default]
    Default,
    /// This path.
    At(PathBuf),
    /// No admin API.
    None,
}

impl AdminSocket {
    /// The socket that a text means: a path, or `none`.
    pub fn named(text: &str) -> AdminSocket {
        if text == NONE { AdminSocket::None } else { AdminSocket::At(text.into()) }
    }

    /// The text of it; `None` is the default.
    pub(super) fn written(&self) -> Option<PathBuf> {
        match self {
            AdminSocket::Default => None,
            AdminSocket::At(path) => Some(path.clone()),
            AdminSocket::None => Some(NONE.into()),
        }
    }
}

/// The admin API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdminConfig {
    /// The Unix socket that it listens on.
    pub socket: AdminSocket,
    /// Its address for other machines; `None`: the socket only.
    pub listen: Option<SocketAddr>,
    /// The certificate of the target there, with those between it and its CA (PEM).
    pub certificate: Option<PathBuf>,
    /// The key of the certificate.
    pub key: Option<PathBuf>,
    /// The file with the token of those who may look.
    pub read_token: Option<PathBuf>,
    /// The file with the token of those who may do everything.
    pub admin_token: Option<PathBuf>,
}

impl AdminConfig {
    /// The files that it names, by field.
    pub(super) fn files(&self) -> [(&'static str, &Option<PathBuf>); 4] {
        [
            ("certificate", &self.certificate),
            ("key", &self.key),
            ("read_token", &self.read_token),
            ("admin_token", &self.admin_token),
        ]
    }
}

/// Every problem between the fields of `[admin]`.
pub(super) fn problems(admin: &AdminConfig) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut report = |field: &str, what: &str, advice: &str| {
        problems.push(Problem::new(format!("admin.{field}"), what, advice));
    };
    let Some(address) = admin.listen else {
        for (name, file) in admin.files() {
            if file.is_some() {
                report(
                    name,
                    "is not used without admin.listen",
                    "write listen = \"ADDRESS:PORT\", or leave it out",
                );
            }
        }
        return problems;
    };
    if admin.read_token.is_none() && admin.admin_token.is_none() {
        let advice = "write admin_token = \"FILE\", or read_token = \"FILE\"";
        report("listen", "everyone who reaches this address could use the admin API", advice);
    }
    match (&admin.certificate, &admin.key) {
        (Some(_), None) => report("certificate", "has no key", "write key = \"FILE\""),
        (None, Some(_)) => report("key", "has no certificate", "write certificate = \"FILE\""),
        (None, None) if !address.ip().is_loopback() => {
            let advice =
                "write certificate and key, or an address of this machine only such as \"127.0.0.1:4421\"";
            report("listen", "tokens would cross the network as they are", advice);
        }
        _ => {}
    }
    problems
}

/// The paths that can be read without permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsConfig {
    /// The address; `None`: nowhere but on the socket of the admin API.
    pub listen: Option<SocketAddr>,
    /// Pairs of device and tenant with series of their own in `/metrics`.
    pub pairs_max: u32,
}

impl Default for MetricsConfig {
    fn default() -> MetricsConfig {
        MetricsConfig { listen: None, pairs_max: 1000 }
    }
}

/// More pairs than a target knows tenants: 4,096 of each of 16 devices.
const PAIRS_MOST: u32 = 65_536;

/// The problem of `[metrics]`, if it has one.
pub(super) fn problem_of_metrics(metrics: &MetricsConfig) -> Option<Problem> {
    let what = format!("{} is more than {PAIRS_MOST}", metrics.pairs_max);
    (metrics.pairs_max > PAIRS_MOST).then(|| Problem::new("metrics.pairs_max", what, "write 1000"))
}
