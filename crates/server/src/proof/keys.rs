//! The keys of the hosts that a configuration names, read from their files.
//!
//! A ring is read whole and never changed: a reload reads a new one, and exchanges that have begun end with the keys that they have.
//!
//! Holds: a file that cannot be read, or has no key, is a problem with the field that names it (`every_problem_of_a_key_file_has_its_field`).

use crate::config::{Authentication, Config, DiscoveryAccess, HostConfig, Problem};
use auth::exchange::{ControllerKeys, Offer};
use auth::{DhKey, Hash, Secret};
use std::collections::HashMap;
use std::fmt;
use std::path::Path;

/// The keys of one host.
#[derive(Clone, Debug)]
struct HostKeys {
    /// The key, and the one that takes its place.
    own: Vec<DhKey>,
    /// The key by which controllers prove themselves to the host.
    controller: Option<DhKey>,
}

/// The keys by which a host is going to be checked.
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) of: ControllerKeys,
    /// Whether the host has no key, so that no response proves it.
    pub(crate) is_decoy: bool,
}

/// Whether a host has to prove who it is.
#[derive(Debug)]
pub(crate) enum Due {
    /// It comes in by its name.
    Nothing,
    /// It has to, with one of these keys.
    Proof(Keys),
}

/// See the module.
pub(crate) struct KeyRing {
    hosts: HashMap<String, HostKeys>,
    offer: Offer,
    /// The hosts that may ask discovery for records.
    discovery: DiscoveryAccess,
    /// The source of the keys by which unknown hosts are checked, known to no one.
    decoy: Secret,
}

impl KeyRing {
    /// Reads the keys that `config` names.
    ///
    /// # Errors
    /// Every problem, with fields but without lines.
    pub(crate) fn read(config: &Config) -> Result<KeyRing, Vec<Problem>> {
        let (mut hosts, mut problems) = (HashMap::new(), Vec::new());
        for (index, host) in config.hosts.iter().enumerate() {
            match read_host(host) {
                Ok(keys) => {
                    hosts.insert(host.nqn.clone(), keys);
                }
                Err(found) => {
                    problems.extend(found.into_iter().map(|(name, what, advice)| {
                        Problem::new(format!("host[{index}].{name}"), what, advice)
                    }))
                }
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let mut bytes = vec![0; Hash::Sha256.length()];
        getrandom::fill(&mut bytes).map_err(|error| {
            vec![Problem::new("host", format!("the system gives no random bytes: {error}"), "")]
        })?;
        let security = &config.security;
        let offer = Offer { hashes: security.dhchap_hash.clone(), groups: security.dhchap_group.clone() };
        Ok(KeyRing { hosts, offer, discovery: security.discovery, decoy: Secret::new(bytes) })
    }

    /// The hashes and groups that exchanges may use.
    pub(crate) fn offer(&self) -> &Offer {
        &self.offer
    }

    /// Whether a host has to prove who it is to ask discovery for records.
    pub(crate) fn due_for_discovery(&self, host: &str) -> Due {
        match self.discovery {
            DiscoveryAccess::Open => Due::Nothing,
            DiscoveryAccess::Hosts => self.due(Authentication::Required, host, true),
        }
    }

    /// Whether `host` has to prove who it is where `authentication` is asked for. `is_allowed`: whether it may connect at all.
    pub(crate) fn due(&self, authentication: Authentication, host: &str, is_allowed: bool) -> Due {
        let known = self.keys_of(host).filter(|_| is_allowed);
        match (authentication, known) {
            (Authentication::Off, _) | (Authentication::Optional, None) => Due::Nothing,
            (_, Some(keys)) => Due::Proof(keys),
            (Authentication::Required, None) => Due::Proof(self.decoy(host)),
        }
    }

    /// The keys of a host, if it has any.
    pub(crate) fn keys_of(&self, host: &str) -> Option<Keys> {
        let HostKeys { own, controller } = self.hosts.get(host)?;
        Some(Keys {
            of: ControllerKeys { host: own.clone(), controller: controller.clone() },
            is_decoy: false,
        })
    }

    /// A key for a host that has none: the same one each time, so that the host is answered like any other, and known to nobody.
    fn decoy(&self, host: &str) -> Keys {
        let secret = Hash::Sha256.hmac(self.decoy.expose(), &[host.as_bytes()]);
        let key = DhKey::new(Some(Hash::Sha256), Secret::new(secret.to_vec()));
        let host = vec![key.expect("the length is the one of the hash")];
        Keys { of: ControllerKeys { host, controller: None }, is_decoy: true }
    }

    /// The fingerprints of the keys of a host, for the list of changes.
    pub(crate) fn fingerprints(&self, host: &str) -> Option<String> {
        let HostKeys { own, controller } = self.hosts.get(host)?;
        let all = own.iter().chain(controller).map(|key| key.secret.fingerprint());
        Some(all.collect::<Vec<_>>().join(" "))
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing").field("hosts", &self.hosts.len()).finish_non_exhaustive()
    }
}

/// A problem of a key: the field, the problem and the advice.
type Found = (&'static str, String, String);

fn read_host(host: &HostConfig) -> Result<HostKeys, Vec<Found>> {
    let (mut own, mut controller, mut problems) = (Vec::new(), None, Vec::new());
    for (name, file) in host.keys() {
        match read_key(file) {
            Ok(key) => {
                let mut others = own.iter().chain(&controller);
                if others.any(|other: &DhKey| other.secret.expose() == key.secret.expose()) {
                    let what = format!("{} is the same key as another one of this host", file.display());
                    problems.push((name, what, "make a new one: gimbal key gen FILE".to_owned()));
                } else if name == "dhchap_ctrl_key" {
                    controller = Some(key);
                } else {
                    own.push(key);
                }
            }
            Err(what) => {
                let advice = format!("look at it with gimbal key check {}", file.display());
                problems.push((name, format!("{}: {what}", file.display()), advice));
            }
        }
    }
    if problems.is_empty() { Ok(HostKeys { own, controller }) } else { Err(problems) }
}

/// The key in a file. No error has a part of the file in it.
fn read_key(file: &Path) -> Result<DhKey, String> {
    let text = files::read_secret(file).map_err(|error| format!("cannot be read: {error}"))?;
    DhKey::parse(&text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{DEFAULT_LISTEN, DeviceKind};
    use std::fs;
    use std::path::PathBuf;
    use units::Bytes;

    const HOST: &str = "nqn.2025-01.io.example:host";

    fn with(keys: [Option<PathBuf>; 3]) -> Config {
        let mut config = Config::simple(DeviceKind::Null { size: Bytes::gib(1) }, DEFAULT_LISTEN);
        let [dhchap_key, dhchap_key_next, dhchap_ctrl_key] = keys;
        config.hosts =
            vec![HostConfig { nqn: HOST.to_owned(), dhchap_key, dhchap_key_next, dhchap_ctrl_key }];
        config
    }

    #[test]
    fn every_problem_of_a_key_file_has_its_field() {
        let folder = std::env::temp_dir().join(format!("gimbal-keys-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let file = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).expect("a file");
            Some(path)
        };
        let key = |seed| DhKey::new(None, Secret::new(vec![seed; 32])).expect("32 bytes").to_text();
        let good = file("good", &key(1));
        let problems = |keys| {
            let problems = KeyRing::read(&with(keys)).err().unwrap_or_default();
            problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(problems([good.clone(), None, None]), "");
        let wrong = key(1).replace("DHHC-1:00:", "DHHC-1:01:").replace("AQEB", "AQEC");
        for (path, expected) in [
            (Some(folder.join("none")), "No such file"),
            (Some(folder.clone()), "it is a folder"),
            (file("binary", "\u{1}"), "binary: "),
            (file("sum", &wrong), "sum: "),
            (good.clone(), "is the same key as another one"),
        ] {
            let found = problems([good.clone(), path.clone(), path]);
            for field in ["host[0].dhchap_key_next: ", "host[0].dhchap_ctrl_key: "] {
                let line = found.lines().find(|line| line.starts_with(field));
                assert!(line.is_some_and(|line| line.contains(expected)), "{field} {expected}: {found}");
            }
            assert!(!found.contains("AQEB"), "a part of a key is in it: {found}");
        }
        fs::remove_dir_all(&folder).expect("it is there");
    }

    #[test]
    fn a_proof_is_due_by_the_rules() {
        let ring = KeyRing {
            hosts: [(HOST.to_owned(), HostKeys { own: Vec::new(), controller: None })].into(),
            offer: Offer { hashes: Vec::new(), groups: Vec::new() },
            discovery: DiscoveryAccess::Open,
            decoy: Secret::new(vec![1; 32]),
        };
        let due = |authentication, host, is_allowed| match ring.due(authentication, host, is_allowed) {
            Due::Nothing => None,
            Due::Proof(keys) => Some(keys.is_decoy),
        };
        use Authentication::{Off, Optional, Required};
        for (authentication, known, not_allowed, unknown) in [
            (Off, None, None, None),
            (Optional, Some(false), None, None),
            (Required, Some(false), Some(true), Some(true)),
        ] {
            assert_eq!(due(authentication, HOST, true), known);
            assert_eq!(due(authentication, HOST, false), not_allowed);
            assert_eq!(due(authentication, "nqn.2025-01.io.example:other", true), unknown);
        }
        let key = |host| ring.decoy(host).of.host[0].secret.expose().to_vec();
        assert_eq!(key("a"), key("a"));
        assert_ne!(key("a"), key("b"));
    }
}
