//! The text that names an etcd cluster: `etcd[s]://[USER@]HOST:PORT[,HOST:PORT...]`.
//!
//! A password never stands in the text, as such texts are in logs, lists of processes and shell histories. No error
//! repeats a text that could contain one.
//!
//! Holds: a user is sent over TLS or to a loopback address only (`a_user_without_tls_stays_on_this_machine`).

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

const FORM: &str = "an etcd cluster is written as etcd://HOST:PORT[,HOST:PORT...], with TLS as etcds://HOST:PORT, with a user as \
                    etcds://USER@HOST:PORT[,HOST:PORT...]";

/// An etcd cluster, and the user as whom it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) is_tls: bool,
    pub(super) user: Option<String>,
    pub(super) endpoints: Vec<Endpoint>,
}

/// A member of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// A name or an IPv4 address; an IPv6 address in brackets.
    pub(super) host: String,
    port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Endpoint {
    fn parse(text: &str) -> Option<Endpoint> {
        let (host, port) = text.rsplit_once(':')?;
        let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let is_host = match bracketed {
            Some(address) => address.parse::<Ipv6Addr>().is_ok(),
            None => !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)),
        };
        let port = port.parse().ok().filter(|port| *port != 0)?;
        is_host.then(|| Endpoint { host: host.to_owned(), port })
    }

    /// Whether nothing that is sent there leaves this machine. A name is none, even `localhost`: a resolver decides
    /// where it leads.
    fn is_loopback(&self) -> bool {
        let address = self.host.trim_matches(['[', ']']).parse::<IpAddr>();
        address.is_ok_and(|address| address.is_loopback())
    }
}

impl Place {
    /// Whether the text names an etcd cluster at all.
    pub(super) fn is_meant(text: &str) -> bool {
        text.starts_with("etcd://") || text.starts_with("etcds://")
    }

    /// Takes a text apart.
    ///
    /// # Errors
    /// A description of the problem of the text, without the text.
    pub(super) fn parse(text: &str) -> Result<Place, String> {
        let (is_tls, rest) = match (text.strip_prefix("etcd://"), text.strip_prefix("etcds://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err(FORM.to_owned()),
        };
        let (user, endpoints) = match rest.rsplit_once('@') {
            Some((user, endpoints)) => (Some(parse_user(user)?), endpoints),
            None => (None, rest),
        };
        let endpoints: Option<Vec<Endpoint>> =
            endpoints.split(',').map(|text| Endpoint::parse(text.trim())).collect();
        let endpoints = endpoints.ok_or(FORM)?;
        if let Some(user) = &user
            && !is_tls
            && let Some(endpoint) = endpoints.iter().find(|endpoint| !endpoint.is_loopback())
        {
            return Err(format!(
                "the password of user {user} would travel to {endpoint} in the clear: write etcds:// (TLS); without TLS, a user \
                 is possible at an address of this machine only, such as 127.0.0.1"
            ));
        }
        Ok(Place { is_tls, user, endpoints })
    }

    /// The beginning of every URL.
    pub(super) fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }
}

fn parse_user(text: &str) -> Result<String, String> {
    if text.contains(':') {
        return Err(format!(
            "the name of an etcd store contains no password: write etcds://USER@HOST:PORT, and give a file with the password ({}); \
             if this password has been in logs or a shell's history, change it",
            super::files::PASSWORD
        ));
    }
    if text.is_empty()
        || text.contains([',', '/', '@'])
        || text.chars().any(|c| c.is_whitespace() || c.is_control())
    {
        return Err(format!("the user of etcd stands once, before the first host: {FORM}"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_says_where_and_as_whom() {
        let place = Place::parse("etcds://db@etcd-1.example:2379, [2001:db8::1]:2379").expect("a cluster");
        assert_eq!((place.is_tls, place.scheme(), place.user.as_deref()), (true, "https", Some("db")));
        let endpoints: Vec<String> = place.endpoints.iter().map(Endpoint::to_string).collect();
        assert_eq!(endpoints, ["etcd-1.example:2379", "[2001:db8::1]:2379"]);
        let place = Place::parse("etcd://192.0.2.1:2379").expect("a cluster");
        assert_eq!((place.is_tls, place.scheme(), place.user), (false, "http", None));
    }

    #[test]
    fn endpoints_are_checked_before_they_are_used() {
        for bad in [
            "",
            "host",
            "http://host:1",
            "host:1/x",
            "host:0",
            "host:65536",
            ":1",
            "h:1,",
            "h:1#@h:2",
            "[::1:1",
            "h o:1",
        ] {
            for scheme in ["etcd", "etcds"] {
                let text = format!("{scheme}://{bad}");
                assert!(Place::parse(&text).is_err(), "{text:?}");
            }
        }
        for bad in ["@h:1", "a@h:1,a@h:2", "a b@h:1", "a,b@h:1"] {
            assert!(Place::parse(&format!("etcds://{bad}")).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_user_without_tls_stays_on_this_machine() {
        for near in ["127.0.0.1:1", "127.9.9.9:1,127.0.0.1:2", "[::1]:1"] {
            assert!(Place::parse(&format!("etcd://db@{near}")).is_ok(), "{near}");
        }
        for far in [
            "192.0.2.1:1",
            "127.0.0.1:1,192.0.2.1:1",
            "localhost:1",
            "127.example:1",
            "[2001:db8::1]:1",
            "0.0.0.0:1",
        ] {
            let error = Place::parse(&format!("etcd://db@{far}")).expect_err(far);
            assert!(error.contains("in the clear") && error.contains("etcds://"), "{error}");
            assert!(Place::parse(&format!("etcds://db@{far}")).is_ok(), "{far}");
        }
    }

    #[test]
    fn a_password_in_the_text_is_refused_and_not_repeated() {
        for bad in
            ["db:sesame@127.0.0.1:1", "db:se@same@127.0.0.1:1", "db:@h:1", "db:sesame@h", "h:1,db:sesame@h:2"]
        {
            let error = Place::parse(&format!("etcds://{bad}")).expect_err(bad);
            assert!(!error.contains("same") && error.contains("password"), "{error}");
        }
    }
}
