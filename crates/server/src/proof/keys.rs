//! The keys of the hosts that a configuration names, read from their files.
//!
//! A ring is read whole and never changed: a reload reads a new one, and exchanges that have begun end with the keys that they have.
//!
//! Holds: a file that cannot be read, or has no key, is a problem with the field that names it (`every_problem_of_a_key_file_has_its_field`).

use super::uses::{Counted, KeyUse, Uses};
use crate::config::{
    Authentication, Config, DH_FIELDS, Demand, DiscoveryAccess, HostConfig, Problem, TLS_FIELD, Tls,
};
use auth::exchange::{ControllerKeys, Offer};
use auth::psk::Kind;
use auth::{Concatenation, DhKey, Generated, Hash, KeyError, Secret, TlsKey, hello};
use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use units::Instant;

/// The keys of one host.
#[derive(Clone, Debug, Default)]
struct HostKeys {
    /// The key for DH-HMAC-CHAP, and the one that takes its place.
    own: Vec<Counted<DhKey>>,
    /// The key by which controllers prove themselves to the host.
    controller: Option<DhKey>,
    /// Those for TLS.
    tls: Vec<Counted<TlsKey>>,
}

/// The hash and the length of a key.
type Shape = (Option<Hash>, usize);

/// The keys by which a host is going to be checked.
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) of: ControllerKeys,
    /// The counts of the keys of the host. Empty if it has no key, so that no response proves it.
    pub(crate) uses: Vec<Arc<Uses>>,
    /// Whether the host may make a key for TLS.
    pub(crate) concatenation: Concatenation,
}

/// A queue that a host wants to use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    pub(crate) is_admin: bool,
    /// The kind of key by which TLS has proved the host.
    pub(crate) secured: Option<Kind>,
}

/// Whether a host has to prove who it is.
#[derive(Debug)]
pub(crate) enum Due {
    /// It comes in by its name.
    Nothing,
    /// It has to, with one of these keys.
    Proof(Keys),
    /// It has to connect with TLS.
    Tls,
}

/// See the module.
pub(crate) struct KeyRing {
    hosts: HashMap<String, HostKeys>,
    offer: Offer,
    /// Whether hosts may make keys for TLS.
    concatenates: bool,
    /// The hosts that may ask discovery for records, and the proofs that it asks for if not all may.
    discovery: (DiscoveryAccess, Demand),
    /// The source of the keys by which unknown hosts are checked, known to no one.
    decoy: Secret,
    /// The shapes of the keys of each host for DH-HMAC-CHAP, and for TLS: a decoy has those of one of them, so that its answer takes as long.
    shapes: [Vec<Vec<Shape>>; 2],
}

impl KeyRing {
    /// Reads the keys that `config` names, at `now`.
    ///
    /// # Errors
    /// Every problem, with fields but without lines.
    pub(crate) fn read(now: Instant, config: &Config) -> Result<KeyRing, Vec<Problem>> {
        let (mut hosts, mut problems) = (HashMap::new(), Vec::new());
        for (index, host) in config.hosts.iter().enumerate() {
            match read_host(now, host) {
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
        let discovery = (security.discovery, security.demand_of_discovery());
        let (concatenates, decoy) = (security.concat, Secret::new(bytes));
        let shapes = shapes_of(&hosts);
        Ok(KeyRing { hosts, offer, concatenates, discovery, decoy, shapes })
    }

    /// The same ring, with the counts of the keys that `former` had, too.
    pub(crate) fn after(mut self, former: &KeyRing) -> KeyRing {
        for (host, keys) in &mut self.hosts {
            let Some(old) = former.hosts.get(host) else { continue };
            keys.own.iter_mut().for_each(|key| key.continue_from(&old.own));
            keys.tls.iter_mut().for_each(|key| key.continue_from(&old.tls));
        }
        self
    }

    /// The uses of the keys of a host, in the order of its fields; `None` if it has no `[[host]]`.
    pub(crate) fn uses(&self, now: Instant, host: &str) -> Option<Vec<KeyUse>> {
        let HostKeys { own, tls, .. } = self.hosts.get(host)?;
        let own = DH_FIELDS.into_iter().zip(own);
        let own = own.map(|(field, key)| key.uses.seen(now, field, key.key.secret.fingerprint()));
        let tls = tls.iter().map(|key| key.uses.seen(now, TLS_FIELD, key.key.secret.fingerprint()));
        Some(own.chain(tls).collect())
    }

    /// The counts of a key of `tls_key` of a host.
    pub(crate) fn tls_uses(&self, host: &str, index: usize) -> Option<Arc<Uses>> {
        Some(Arc::clone(&self.hosts.get(host)?.tls.get(index)?.uses))
    }

    /// The hashes and groups that exchanges may use.
    pub(crate) fn offer(&self) -> &Offer {
        &self.offer
    }

    /// Whether discovery can be asked with TLS.
    pub(crate) fn discovery_has_tls(&self) -> bool {
        self.discovery.1.tls != Tls::Off
    }

    /// The proof that is due of `host` before it asks discovery.
    pub(crate) fn due_for_discovery(&self, host: &str, queue: Queue) -> Due {
        match self.discovery {
            (DiscoveryAccess::Open, _) => Due::Nothing,
            (DiscoveryAccess::Hosts, demand) => self.due(demand, host, true, queue),
        }
    }

    /// The proof that is due of `host` where `demand` is asked for. `is_allowed`: whether it may connect at all. A key for TLS that
    /// DH-HMAC-CHAP has made proves the host by both.
    pub(crate) fn due(&self, demand: Demand, host: &str, is_allowed: bool, queue: Queue) -> Due {
        let Demand { authentication, tls } = demand;
        let is_secured = queue.secured.is_some();
        let asks_all = match authentication {
            Authentication::Off | Authentication::Optional => false,
            Authentication::Required => !is_secured,
            Authentication::Always => queue.secured != Some(Kind::Generated),
        };
        if is_secured && !asks_all {
            return Due::Nothing;
        }
        let concatenation = match authentication {
            Authentication::Off => Concatenation::Refused,
            _ if tls == Tls::Off => Concatenation::Refused,
            _ => self.concatenation(queue, tls == Tls::Required),
        };
        let needs_tls = !is_secured && tls == Tls::Required;
        if needs_tls && concatenation == Concatenation::Refused {
            return Due::Tls;
        }
        let is_known = is_allowed && authentication != Authentication::Off;
        let known = self.keys_of(host, concatenation).filter(|_| is_known);
        let has_tls_key = || self.hosts.get(host).is_some_and(|keys| !keys.tls.is_empty());
        match known {
            Some(keys) => Due::Proof(keys),
            None if asks_all => Due::Proof(Keys { concatenation, ..self.decoy(host) }),
            None if needs_tls => Due::Tls,
            None if is_allowed && tls != Tls::Off && has_tls_key() => Due::Tls,
            None => Due::Nothing,
        }
    }

    /// Whether a host may make a key for TLS on a queue that TLS may secure. `is_due`: whether it has to, if it has not.
    pub(crate) fn concatenation(&self, queue: Queue, is_due: bool) -> Concatenation {
        match queue {
            Queue { is_admin, .. } if !is_admin || !self.concatenates => Concatenation::Refused,
            Queue { secured: Some(_), .. } => Concatenation::Another,
            Queue { secured: None, .. } => Concatenation::New { is_due },
        }
    }

    /// Whether a key for TLS may be used that `host` has made with this key of its own.
    pub(crate) fn is_origin(&self, host: &str, key: &DhKey) -> bool {
        self.concatenates
            && self.hosts.get(host).is_some_and(|keys| keys.own.iter().any(|own| own.key == *key))
    }

    /// The keys of a host for DH-HMAC-CHAP, if it has any.
    pub(crate) fn keys_of(&self, host: &str, concatenation: Concatenation) -> Option<Keys> {
        let HostKeys { own, controller, .. } = self.hosts.get(host)?;
        let host = own.iter().map(|own| own.key.clone()).collect();
        let of = ControllerKeys { host, controller: controller.clone() };
        let uses = own.iter().map(|own| Arc::clone(&own.uses)).collect();
        (!own.is_empty()).then_some(Keys { of, uses, concatenation })
    }

    /// The keys of a host for TLS, with those that it has made. `is_allowed`: whether it may connect with TLS at all. A host without any has
    /// a key that is known to nobody, so that its answer takes as long.
    pub(crate) fn tls_keys(&self, host: &str, is_allowed: bool, generated: Vec<Generated>) -> hello::Keys {
        let generated = if is_allowed { generated } else { Vec::new() };
        let known = self.hosts.get(host).map(|keys| &keys.tls[..]).filter(|_| is_allowed).unwrap_or_default();
        if !known.is_empty() {
            let configured = known.iter().map(|key| key.key.clone()).collect();
            return hello::Keys { configured, are_known: true, generated };
        }
        let secrets = self.decoy_secrets(TLS, host).into_iter();
        let configured = secrets.map(|(hash, secret)| TlsKey::new(hash, secret).expect(FITS)).collect();
        hello::Keys { configured, are_known: false, generated }
    }

    /// Keys for a host that has none: the same ones each time, so that the host is answered like any other, and known to nobody.
    fn decoy(&self, host: &str) -> Keys {
        let secrets = self.decoy_secrets(DH, host).into_iter();
        let host = secrets.map(|(hash, secret)| DhKey::new(hash, secret).expect(FITS)).collect();
        let of = ControllerKeys { host, controller: None };
        Keys { of, uses: Vec::new(), concatenation: Concatenation::Refused }
    }

    /// Secrets with the shapes of the keys of some host, which are the same ones for this name each time.
    fn decoy_secrets(&self, kind: usize, host: &str) -> Vec<(Option<Hash>, Secret)> {
        let draw = |number: u8| {
            Hash::Sha512.hmac(self.decoy.expose(), &[&[kind as u8, number], host.as_bytes()]).to_vec()
        };
        let shapes = &self.shapes[kind];
        let default = vec![(Some(Hash::Sha256), Hash::Sha256.length())];
        let number = draw(0).iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
        let chosen = match shapes.len() {
            0 => &default,
            count => &shapes[(number % count as u64) as usize],
        };
        let secret = |(number, &(hash, length)): (u8, &Shape)| {
            let mut bytes = draw(number);
            bytes.truncate(length);
            (hash, Secret::new(bytes))
        };
        (1..).zip(chosen).map(secret).collect()
    }

    /// The fingerprints of the keys of a host, for the list of changes.
    pub(crate) fn fingerprints(&self, host: &str) -> Option<String> {
        let all = self.hosts.get(host)?.secrets().map(Secret::fingerprint);
        Some(all.collect::<Vec<_>>().join(" "))
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing").field("hosts", &self.hosts.len()).finish_non_exhaustive()
    }
}

/// The kinds of keys, as indices of `shapes`.
const DH: usize = 0;
const TLS: usize = 1;
/// Why a decoy is a valid key.
const FITS: &str = "its shape is the one of a key";

/// The shapes of the keys of all hosts, by kind. In the order of the names, so that a name has the same decoy in each process with the same secret.
fn shapes_of(hosts: &HashMap<String, HostKeys>) -> [Vec<Vec<Shape>>; 2] {
    let mut names: Vec<&String> = hosts.keys().collect();
    names.sort_unstable();
    let all = |shapes: &dyn Fn(&HostKeys) -> Vec<Shape>| {
        let of = names.iter().map(|name| shapes(&hosts[*name]));
        of.filter(|shapes| !shapes.is_empty()).collect()
    };
    let dh = |keys: &HostKeys| keys.own.iter().map(|own| shape(own.key.hash, &own.key.secret)).collect();
    let tls = |keys: &HostKeys| keys.tls.iter().map(|tls| shape(tls.key.hash, &tls.key.secret)).collect();
    [all(&dh), all(&tls)]
}

fn shape(hash: Option<Hash>, secret: &Secret) -> Shape {
    (hash, secret.expose().len())
}

/// A problem of a key: the field, the problem and the advice.
type Found = (&'static str, String, String);

impl HostKeys {
    fn secrets(&self) -> impl Iterator<Item = &Secret> {
        let own = self.own.iter().map(|own| &own.key.secret);
        let dh = own.chain(self.controller.iter().map(|key| &key.secret));
        dh.chain(self.tls.iter().map(|tls| &tls.key.secret))
    }
}

fn read_host(now: Instant, host: &HostConfig) -> Result<HostKeys, Vec<Found>> {
    let (mut keys, mut problems) = (HostKeys::default(), Vec::new());
    for (name, file) in host.keys() {
        let read = match name {
            TLS_FIELD => read_key(file, TlsKey::parse)
                .map(|key| HostKeys { tls: vec![Counted::new(now, key)], ..HostKeys::default() }),
            "dhchap_ctrl_key" => read_key(file, DhKey::parse)
                .map(|key| HostKeys { controller: Some(key), ..HostKeys::default() }),
            _ => read_key(file, DhKey::parse)
                .map(|key| HostKeys { own: vec![Counted::new(now, key)], ..HostKeys::default() }),
        };
        match read {
            Ok(one) => {
                let mut others = keys.secrets();
                if one.secrets().any(|new| others.any(|other| other.expose() == new.expose())) {
                    let what = format!("{} is the same key as another one of this host", file.display());
                    problems.push((name, what, "make a new one: gimbal key gen FILE".to_owned()));
                } else {
                    drop(others);
                    keys.own.extend(one.own);
                    keys.tls.extend(one.tls);
                    keys.controller = keys.controller.or(one.controller);
                }
            }
            Err(what) => {
                let advice = format!("look at it with gimbal key check {}", file.display());
                problems.push((name, format!("{}: {what}", file.display()), advice));
            }
        }
    }
    if problems.is_empty() { Ok(keys) } else { Err(problems) }
}

/// The key in a file. No error has a part of the file in it.
fn read_key<K>(file: &Path, parse: impl Fn(&str) -> Result<K, KeyError>) -> Result<K, String> {
    let text = files::read_secret(file).map_err(|error| format!("cannot be read: {error}"))?;
    parse(&text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{DEFAULT_LISTEN, DeviceKind};
    use std::fs;
    use std::path::PathBuf;
    use units::{Bytes, Nanos};

    const HOST: &str = "nqn.2025-01.io.example:host";

    fn with(keys: [Option<PathBuf>; 3]) -> Config {
        let mut config = Config::simple(DeviceKind::Null { size: Bytes::gib(1) }, DEFAULT_LISTEN);
        let [dhchap_key, dhchap_key_next, dhchap_ctrl_key] = keys;
        let (nqn, tls_key) = (HOST.to_owned(), Vec::new());
        config.hosts = vec![HostConfig { nqn, dhchap_key, dhchap_key_next, dhchap_ctrl_key, tls_key }];
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
            let problems = KeyRing::read(Instant::ZERO, &with(keys)).err().unwrap_or_default();
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

    /// A ring of the hosts `dh`, `tls` and `both`, by their keys.
    fn ring() -> KeyRing {
        let dh = DhKey::new(None, Secret::new(vec![1; 32])).expect("32 bytes");
        let tls = TlsKey::new(None, Secret::new(vec![2; 32])).expect("32 bytes");
        let (dh, tls) = (Counted::new(Instant::ZERO, dh), Counted::new(Instant::ZERO, tls));
        let both = HostKeys { own: vec![dh.clone()], controller: None, tls: vec![tls.clone()] };
        let hosts = [
            ("dh", HostKeys { own: vec![dh], ..HostKeys::default() }),
            ("tls", HostKeys { tls: vec![tls], ..HostKeys::default() }),
            ("both", both),
        ];
        ring_of(hosts.into_iter().map(|(name, keys)| (name.to_owned(), keys)).collect())
    }

    fn ring_of(hosts: HashMap<String, HostKeys>) -> KeyRing {
        KeyRing {
            shapes: shapes_of(&hosts),
            hosts,
            offer: Offer { hashes: Vec::new(), groups: Vec::new() },
            concatenates: false,
            discovery: (DiscoveryAccess::Open, Demand::default()),
            decoy: Secret::new(vec![1; 32]),
        }
    }

    const HOSTS: [&str; 4] = ["dh", "tls", "both", "other"];
    const ADMIN: Queue = Queue { is_admin: true, secured: None };

    fn name_of(due: &Due) -> &'static str {
        match due {
            Due::Nothing => "name",
            Due::Proof(keys) if keys.uses.is_empty() => "decoy",
            Due::Proof(_) => "proof",
            Due::Tls => "tls",
        }
    }

    #[test]
    fn a_proof_is_due_by_the_rules() {
        let ring = ring();
        let due = |demand, host, is_allowed, secured| {
            let admin = ring.due(demand, host, is_allowed, Queue { secured, ..ADMIN });
            let io = ring.due(demand, host, is_allowed, Queue { secured, is_admin: false });
            assert_eq!(name_of(&admin), name_of(&io), "{demand:?} {host}");
            name_of(&admin)
        };
        use Authentication::{Always, Off, Optional, Required};
        // In this order: dh, tls, both, a host without keys.
        #[rustfmt::skip]
        let rows = [
            (Off,      Tls::Off,      ["name",  "name",  "name",  "name"],  "name"),
            (Off,      Tls::Optional, ["name",  "tls",   "tls",   "name"],  "name"),
            (Off,      Tls::Required, ["tls",   "tls",   "tls",   "tls"],   "tls"),
            (Optional, Tls::Off,      ["proof", "name",  "proof", "name"],  "name"),
            (Optional, Tls::Optional, ["proof", "tls",   "proof", "name"],  "name"),
            (Optional, Tls::Required, ["tls",   "tls",   "tls",   "tls"],   "tls"),
            (Required, Tls::Off,      ["proof", "decoy", "proof", "decoy"], "decoy"),
            (Required, Tls::Optional, ["proof", "decoy", "proof", "decoy"], "decoy"),
            (Required, Tls::Required, ["tls",   "tls",   "tls",   "tls"],   "tls"),
            (Always,   Tls::Optional, ["proof", "decoy", "proof", "decoy"], "decoy"),
        ];
        for (authentication, tls, allowed, not_allowed) in rows {
            let demand = Demand { authentication, tls };
            for (host, expected) in HOSTS.into_iter().zip(allowed) {
                assert_eq!(due(demand, host, true, None), expected, "{demand:?} {host}");
                assert_eq!(due(demand, host, false, None), not_allowed, "{demand:?} {host} is not allowed");
                let secured = match (authentication, host) {
                    (Always, "dh" | "both") => "proof",
                    (Always, _) => "decoy",
                    _ => "name",
                };
                assert_eq!(
                    due(demand, host, true, Some(Kind::Retained)),
                    secured,
                    "{demand:?} {host} with TLS"
                );
                let generated = due(demand, host, true, Some(Kind::Generated));
                assert_eq!(generated, "name", "{demand:?} {host} with a key of both proofs");
            }
        }
        let key = |host| ring.decoy(host).of.host[0].secret.expose().to_vec();
        assert_eq!(key("a"), key("a"));
        assert_ne!(key("a"), key("b"));
        let known = |host, is_allowed| ring.tls_keys(host, is_allowed, Vec::new()).are_known;
        assert_eq!([known("tls", true), known("tls", false), known("dh", true)], [true, false, false]);
    }

    /// A host with keys of these hashes, for both purposes.
    fn host_of(hashes: &[Option<Hash>]) -> HostKeys {
        let secret = |hash: Option<Hash>| Secret::new(vec![7; hash.map_or(32, Hash::length)]);
        let own = hashes.iter().map(|&hash| DhKey::new(hash, secret(hash)).expect("as long as its hash"));
        let tls = hashes.iter().map(|&hash| TlsKey::new(hash, secret(hash)).expect("as long as its hash"));
        let (own, tls) = (
            own.map(|key| Counted::new(Instant::ZERO, key)),
            tls.map(|key| Counted::new(Instant::ZERO, key)),
        );
        HostKeys { own: own.collect(), controller: None, tls: tls.collect() }
    }

    #[test]
    fn a_decoy_has_the_shape_of_the_keys_of_a_host() {
        let (one, two): (&[Option<Hash>], &[Option<Hash>]) =
            (&[Some(Hash::Sha384)], &[None, Some(Hash::Sha256)]);
        let hosts = [("one", one), ("two", two)];
        let ring =
            ring_of(hosts.iter().map(|(name, hashes)| ((*name).to_owned(), host_of(hashes))).collect());
        let mut seen = [0; 2];
        for number in 0..64 {
            let name = format!("stranger-{number}");
            let dh: Vec<_> = ring.decoy(&name).of.host.iter().map(|key| key.hash).collect();
            let tls: Vec<_> =
                ring.tls_keys(&name, true, Vec::new()).configured.iter().map(|key| key.hash).collect();
            for shape in [dh, tls] {
                let which = [one, two].into_iter().position(|keys| *keys == shape[..]);
                seen[which.expect("the shape of one of them")] += 1;
            }
        }
        assert!(seen.iter().all(|&count| count > 32), "{seen:?}");
        let keyless = ring_of(HashMap::new()).decoy("stranger").of.host;
        assert_eq!(keyless.iter().map(|key| key.hash).collect::<Vec<_>>(), [Some(Hash::Sha256)]);
    }

    #[test]
    fn counts_go_on_with_their_key_and_begin_anew_with_another() {
        let at = |seconds| Instant::ZERO + Nanos::secs(seconds);
        let of = |hosts: &[Option<Hash>]| ring_of(HashMap::from([(HOST.to_owned(), host_of(hosts))]));
        let first = of(&[Some(Hash::Sha256)]);
        first.keys_of(HOST, Concatenation::Refused).expect("it has one").uses[0].note(at(5));
        first.tls_uses(HOST, 0).expect("it has one").note(at(6));
        // The same key comes second, as after a rotation that was taken back.
        let second = of(&[Some(Hash::Sha384), Some(Hash::Sha256)]).after(&first);
        second.keys_of(HOST, Concatenation::Refused).expect("it has two").uses[1].note(at(8));
        let uses = second.uses(at(10), HOST).expect("it has keys");
        let shown =
            |key: &KeyUse| (key.field, key.known.as_secs(), key.proofs, key.last.map(|last| last.as_secs()));
        let expected = [
            ("dhchap_key", 10, 0, None),
            ("dhchap_key_next", 10, 2, Some(2)),
            ("tls_key", 10, 0, None),
            ("tls_key", 10, 1, Some(4)),
        ];
        assert_eq!(uses.iter().map(shown).collect::<Vec<_>>(), expected);
        assert_eq!(second.uses(at(10), "other"), None);
    }

    #[test]
    fn a_key_for_tls_may_be_made_by_the_rules() {
        use Authentication::{Always, Off, Optional, Required};
        use Concatenation::{Another, New, Refused};
        let ring = KeyRing { concatenates: true, ..ring() };
        let demand = |authentication, tls| Demand { authentication, tls };
        let of = |due: Due| match due {
            Due::Proof(keys) => Some(keys.concatenation),
            _ => None,
        };
        for authentication in [Optional, Required, Always] {
            for (tls, expected) in [
                (Tls::Off, Refused),
                (Tls::Optional, New { is_due: false }),
                (Tls::Required, New { is_due: true }),
            ] {
                let demand = demand(authentication, tls);
                assert_eq!(of(ring.due(demand, "dh", true, ADMIN)), Some(expected), "{demand:?}");
                let io = ring.due(demand, "dh", true, Queue { is_admin: false, ..ADMIN });
                let expected_io = (tls != Tls::Required).then_some(Refused);
                assert_eq!(of(io), expected_io, "{demand:?}");
            }
        }
        // Where TLS is due, the hosts that could make a key are asked for the proof, and others as if they were such hosts if all are.
        let rows = [
            (Optional, ["proof", "tls", "proof", "tls"], "tls"),
            (Required, ["proof", "decoy", "proof", "decoy"], "decoy"),
            (Off, ["tls"; 4], "tls"),
        ];
        for (authentication, allowed, not_allowed) in rows {
            let demand = demand(authentication, Tls::Required);
            for (host, expected) in HOSTS.into_iter().zip(allowed) {
                assert_eq!(name_of(&ring.due(demand, host, true, ADMIN)), expected, "{demand:?} {host}");
                let other = ring.due(demand, host, false, ADMIN);
                assert_eq!(name_of(&other), not_allowed, "{demand:?} {host} is not allowed");
            }
        }
        let decoy = ring.due(demand(Required, Tls::Required), "other", true, ADMIN);
        assert_eq!(of(decoy), Some(New { is_due: true }), "it is answered like a host with a key");
        let secured = Queue { secured: Some(Kind::Retained), ..ADMIN };
        assert_eq!(of(ring.due(demand(Always, Tls::Optional), "both", true, secured)), Some(Another));
        let [own, other] =
            [1, 3].map(|seed| DhKey::new(None, Secret::new(vec![seed; 32])).expect("32 bytes"));
        assert!(ring.is_origin("dh", &own));
        assert!(
            !ring.is_origin("dh", &other) && !ring.is_origin("tls", &own) && !ring.is_origin("other", &own)
        );
        let off = KeyRing { concatenates: false, ..ring };
        assert!(!off.is_origin("dh", &own), "keys end with the permission to make them");
    }
}
