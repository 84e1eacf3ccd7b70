//! Proofs of identity in the configuration: `[security]`, `[subsystem.security]` and `[[host]]`.
//!
//! ```toml
//! [security]
//! authentication = "optional"
//! tls = "optional"
//! concat = true
//! dhchap_hash = ["sha384", "sha512", "sha256"]
//! dhchap_group = ["ffdhe3072", "ffdhe4096", "ffdhe2048"]
//! [[host]]
//! nqn = "nqn.2014-08.org.nvmexpress:uuid:…"
//! dhchap_key = "/etc/gimbal/keys/db1.dhchap"
//! tls_key = ["/etc/gimbal/keys/db1.tls"]
//! ```
//!
//! Keys are always in files of their own, and a configuration has their paths: so no configuration that is shown, logged or kept has a
//! key in it.
//!
//! Elsewhere: the files are read by `proof::keys`; the share of a host is its `[[tenant]]`.

use super::check::nqn_problem;
use super::fields::{Fields, Findings};
use super::problem::Problem;
use super::read::required;
use super::text::word;
use super::{AllowedHosts, Config, SubsystemConfig};
use auth::{Group, Hash};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Which hosts have to prove who they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authentication {
    /// None; a file with keys is refused.
    Off,
    /// Those that have a key; the others come in by their names.
    #[default]
    Optional,
    /// All, by DH-HMAC-CHAP or TLS; a host without a key does not come in.
    Required,
    /// All by DH-HMAC-CHAP, also those that TLS has proved.
    Always,
}

impl Authentication {
    /// The word in configurations.
    pub(crate) fn word(self) -> &'static str {
        word(&AUTHENTICATIONS, &self)
    }
}

/// The words of `authentication`.
const AUTHENTICATIONS: [(&str, Authentication); 4] = [
    ("off", Authentication::Off),
    ("optional", Authentication::Optional),
    ("required", Authentication::Required),
    ("always", Authentication::Always),
];

/// Whether connections are encrypted, which proves the host, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// None is.
    #[default]
    Off,
    /// As the host likes; a host that has only a key for TLS has to.
    Optional,
    /// All; others are refused.
    Required,
}

impl Tls {
    /// The word in configurations.
    pub(crate) fn word(self) -> &'static str {
        word(&TLS, &self)
    }
}

/// The words of `tls`.
const TLS: [(&str, Tls); 3] = [("off", Tls::Off), ("optional", Tls::Optional), ("required", Tls::Required)];

/// The proofs that a subsystem asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Which hosts have to prove who they are.
    pub authentication: Authentication,
    /// Whether connections are encrypted.
    pub tls: Tls,
}

/// The fields of `[subsystem.security]`; `None` is the value of `[security]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnSecurity {
    /// Which hosts have to prove who they are.
    pub authentication: Option<Authentication>,
    /// Whether connections are encrypted.
    pub tls: Option<Tls>,
}

impl OwnSecurity {
    /// The fields that are there, with their words.
    pub(crate) fn words(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let authentication = self.authentication.map(|own| ("authentication", own.word()));
        authentication.into_iter().chain(self.tls.map(|own| ("tls", own.word())))
    }
}

/// The hosts that may ask discovery for records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiscoveryAccess {
    /// Whoever reaches the port.
    #[default]
    Open,
    /// Those that have proved who they are.
    Hosts,
}

/// The words of `discovery`.
pub(super) const DISCOVERIES: [(&str, DiscoveryAccess); 2] =
    [("open", DiscoveryAccess::Open), ("hosts", DiscoveryAccess::Hosts)];

/// Name of the exchange without a group.
const NO_GROUP: &str = "null";

/// The rules by which hosts prove who they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityConfig {
    /// Which hosts have to, for subsystems that do not say otherwise.
    pub authentication: Authentication,
    /// Whether connections are encrypted, for subsystems that do not say otherwise, and for discovery.
    pub tls: Tls,
    /// The hosts that may ask discovery for records.
    pub discovery: DiscoveryAccess,
    /// Whether a host may make its key for TLS by DH-HMAC-CHAP (concatenation).
    pub concat: bool,
    /// Hashes of DH-HMAC-CHAP, in the order of preference.
    pub dhchap_hash: Vec<Hash>,
    /// Its groups, in the order of preference; `None` is the exchange without one.
    pub dhchap_group: Vec<Option<Group>>,
}

impl Default for SecurityConfig {
    fn default() -> SecurityConfig {
        SecurityConfig {
            authentication: Authentication::default(),
            tls: Tls::default(),
            discovery: DiscoveryAccess::default(),
            concat: false,
            dhchap_hash: vec![Hash::Sha384, Hash::Sha512, Hash::Sha256],
            dhchap_group: [Group::Ffdhe3072, Group::Ffdhe4096, Group::Ffdhe2048].map(Some).to_vec(),
        }
    }
}

impl SecurityConfig {
    /// The values of its fields, with their names, for people.
    pub(crate) fn shown(&self) -> [(&'static str, String); 6] {
        let hashes: Vec<&str> = self.dhchap_hash.iter().map(|hash| hash.name()).collect();
        let groups: Vec<&str> = self.dhchap_group.iter().map(|group| group_name(*group)).collect();
        [
            ("authentication", self.authentication.word().to_owned()),
            ("tls", self.tls.word().to_owned()),
            ("discovery", word(&DISCOVERIES, &self.discovery).to_owned()),
            ("concat", self.concat.to_string()),
            ("dhchap_hash", hashes.join(" ")),
            ("dhchap_group", groups.join(" ")),
        ]
    }

    /// The proofs that a subsystem asks for.
    pub(crate) fn demand(&self, own: OwnSecurity) -> Demand {
        Demand {
            authentication: own.authentication.unwrap_or(self.authentication),
            tls: own.tls.unwrap_or(self.tls),
        }
    }

    /// Whether `host` can make a key for TLS where `demand` is asked for.
    fn concatenates(&self, demand: Demand, host: &HostConfig) -> bool {
        let Demand { authentication, tls } = demand;
        let is_proved = authentication != Authentication::Off && host.dhchap_key.is_some();
        self.concat && is_proved && tls != Tls::Off
    }

    /// The proofs that discovery asks for, if it is not open. Also then TLS is not required: `tls = "required"` is about subsystems.
    pub(crate) fn demand_of_discovery(&self) -> Demand {
        let tls = if self.tls == Tls::Off { Tls::Off } else { Tls::Optional };
        Demand { authentication: Authentication::Required, tls }
    }
}

/// A host that can prove who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// Its NQN.
    pub nqn: String,
    /// The file with its key for DH-HMAC-CHAP.
    pub dhchap_key: Option<PathBuf>,
    /// The file with the key that takes the place of that one: both prove the host.
    pub dhchap_key_next: Option<PathBuf>,
    /// The file with the key by which controllers prove themselves to it.
    pub dhchap_ctrl_key: Option<PathBuf>,
    /// The files with its keys for TLS: any of them proves the host.
    pub tls_key: Vec<PathBuf>,
}

/// The fields of a `[[host]]` that name a file with a key for DH-HMAC-CHAP: first those that prove the host.
pub(crate) const DH_FIELDS: [&str; 3] = ["dhchap_key", "dhchap_key_next", "dhchap_ctrl_key"];
/// The field with those for TLS.
pub(crate) const TLS_FIELD: &str = "tls_key";
/// Most keys for TLS of one host: each of them is tried on a message that anyone can send.
const TLS_KEYS_MAX: usize = 4;

impl HostConfig {
    /// The files with its keys for DH-HMAC-CHAP, with the names of their fields.
    pub(crate) fn dh_keys(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let files = [&self.dhchap_key, &self.dhchap_key_next, &self.dhchap_ctrl_key];
        DH_FIELDS.into_iter().zip(files).filter_map(|(name, file)| Some((name, file.as_deref()?)))
    }

    /// The files with its keys, with the names of their fields.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        self.dh_keys().chain(self.tls_key.iter().map(|file| (TLS_FIELD, file.as_path())))
    }
}

/// The name of a group in configurations.
pub(super) fn group_name(group: Option<Group>) -> &'static str {
    group.map_or(NO_GROUP, Group::name)
}

/// Reads `[security]`.
pub(super) fn read(mut table: Fields<'_, '_>, findings: &mut Findings) -> SecurityConfig {
    let default = SecurityConfig::default();
    let security = SecurityConfig {
        authentication: table.choice(findings, "authentication", &AUTHENTICATIONS).unwrap_or_default(),
        tls: table.choice(findings, "tls", &TLS).unwrap_or_default(),
        discovery: table.choice(findings, "discovery", &DISCOVERIES).unwrap_or_default(),
        concat: table.truth(findings, "concat").unwrap_or(default.concat),
        dhchap_hash: table
            .list(findings, "dhchap_hash", "a list of \"sha256\", \"sha384\" and \"sha512\"", |text| {
                Hash::ALL.into_iter().find(|hash| hash.name() == text)
            })
            .unwrap_or(default.dhchap_hash),
        dhchap_group: table
            .list(
                findings,
                "dhchap_group",
                "a list of \"ffdhe2048\", \"ffdhe3072\", \"ffdhe4096\", \"ffdhe6144\", \"ffdhe8192\" and \"null\"",
                |text| {
                    let mut groups = std::iter::once(None).chain(Group::ALL.map(Some));
                    groups.find(|group| group_name(*group) == text)
                },
            )
            .unwrap_or(default.dhchap_group),
    };
    table.finish(findings);
    security
}

/// Reads `[subsystem.security]`.
pub(super) fn read_of_subsystem(mut table: Fields<'_, '_>, findings: &mut Findings) -> OwnSecurity {
    let authentication = table.choice(findings, "authentication", &AUTHENTICATIONS);
    let tls = table.choice(findings, "tls", &TLS);
    table.finish(findings);
    OwnSecurity { authentication, tls }
}

/// Reads one `[[host]]`.
pub(super) fn read_host(table: &mut Fields<'_, '_>, findings: &mut Findings) -> HostConfig {
    let nqn = required(table, findings, "nqn", "the NQN of a host");
    let [dhchap_key, dhchap_key_next, dhchap_ctrl_key] =
        DH_FIELDS.map(|name| table.text(findings, name).map(PathBuf::from));
    let files = table.list(findings, TLS_FIELD, "a list of files", |text| Some(PathBuf::from(text)));
    HostConfig { nqn, dhchap_key, dhchap_key_next, dhchap_ctrl_key, tls_key: files.unwrap_or_default() }
}

/// Every problem of these tables and with others, without a look at the files.
pub(super) fn problems(config: &Config) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut report = |field: String, what: String, advice: &str| {
        problems.push(Problem::new(field, what, advice));
    };
    let security = &config.security;
    let hashes: Vec<&str> = security.dhchap_hash.iter().map(|hash| hash.name()).collect();
    let groups: Vec<&str> = security.dhchap_group.iter().map(|group| group_name(*group)).collect();
    for (name, words) in [("dhchap_hash", hashes), ("dhchap_group", groups)] {
        let field = format!("security.{name}");
        if words.is_empty() {
            report(field, "no host could prove who it is".into(), "leave it out, or write at least one");
        } else if let Some(word) = twice(&words) {
            report(field, format!("{word:?} is there twice"), "keep one of them");
        }
    }
    let mut names = HashSet::new();
    for (index, host) in config.hosts.iter().enumerate() {
        let field = |name: &str| format!("host[{index}].{name}");
        if let Some(what) = nqn_problem(&host.nqn) {
            report(field("nqn"), what, "write the NQN that the host sends");
        } else if !names.insert(&host.nqn) {
            report(field("nqn"), format!("{} has two [[host]] tables", host.nqn), "keep one of them");
        } else if !config.subsystems.iter().any(|subsystem| subsystem.hosts.allows(&host.nqn)) {
            let what = format!("no subsystem allows {}", host.nqn);
            report(field("nqn"), what, "add it to the hosts of a subsystem, or remove this table");
        }
        for (name, file) in host.keys() {
            if file.as_os_str().is_empty() {
                report(field(name), "the path is empty".into(), "write the file that has the key");
            }
        }
        if host.keys().next().is_none() {
            let advice = "write dhchap_key = \"FILE\" or tls_key = [\"FILE\"], made by gimbal key gen FILE, or remove this table";
            report(field("dhchap_key"), "the host has no key".into(), advice);
        } else if let (None, Some((name, _))) = (&host.dhchap_key, host.dh_keys().next()) {
            let advice = format!("without it, {name} has no use: rename it, or write dhchap_key, too");
            report(field("dhchap_key"), "is missing".into(), &advice);
        }
        if host.tls_key.len() > TLS_KEYS_MAX {
            let what = format!("{} keys, and at most {TLS_KEYS_MAX} are tried", host.tls_key.len());
            report(field(TLS_FIELD), what, "remove the oldest");
        }
        let demands = config.subsystems.iter().filter(|subsystem| subsystem.hosts.allows(&host.nqn));
        let mut demands = demands.map(|subsystem| security.demand(subsystem.security));
        if !host.tls_key.is_empty() && demands.all(|demand| demand.tls == Tls::Off) {
            let what = format!("no subsystem that allows {} has TLS", host.nqn);
            report(field(TLS_FIELD), what, "write tls = \"optional\" into [security], or remove the key");
        }
    }
    let has_dh_keys = config.hosts.iter().any(|host| host.dh_keys().next().is_some());
    if security.authentication == Authentication::Off && has_dh_keys {
        let advice = "write \"optional\", or remove the keys for DH-HMAC-CHAP";
        report("security.authentication".into(), "is \"off\", and hosts have keys".into(), advice);
    }
    let has_keys = !config.hosts.is_empty();
    // One without hosts waits for them.
    let waits = |subsystem: &SubsystemConfig| subsystem.hosts == AllowedHosts::Only(Vec::new());
    let subsystems = config.subsystems.iter().enumerate();
    for (index, subsystem) in subsystems.filter(|(_, subsystem)| !waits(subsystem)) {
        let (own, demand) = (subsystem.security, security.demand(subsystem.security));
        let field = |name: &str, is_own: bool| match is_own {
            true => format!("subsystem[{index}].security.{name}"),
            false => format!("security.{name}"),
        };
        let mut allowed = config.hosts.iter().filter(|host| subsystem.hosts.allows(&host.nqn));
        let has_tls_key =
            allowed.clone().any(|host| !host.tls_key.is_empty() || security.concatenates(demand, host));
        if demand.tls == Tls::Required && !has_tls_key {
            let what = format!("no host of {} has a key for TLS, so none can connect", subsystem.nqn);
            let field = field("tls", own.tls.is_some());
            report(
                field,
                what,
                "write a [[host]] table with its tls_key for each of them, or concat = true into [security] and their dhchap_key",
            );
        }
        let field = field("authentication", own.authentication.is_some());
        let lets_no_key_in = match demand.authentication {
            Authentication::Off | Authentication::Optional => false,
            Authentication::Required => allowed.next().is_none(),
            Authentication::Always => !allowed.any(|host| host.dhchap_key.is_some()),
        };
        if lets_no_key_in {
            let what = format!("no host of {} has a key, so none can connect", subsystem.nqn);
            report(field, what, "write a [[host]] table with its key for each of them");
        } else if own.authentication == Some(Authentication::Off)
            && has_dh_keys
            && subsystem.hosts == AllowedHosts::Any
        {
            let what = format!("{} lets everyone in under the name of a host that has a key", subsystem.nqn);
            report(field, what, "write \"optional\", or list the hosts of the subsystem");
        }
    }
    if security.concat {
        let pairs = config.subsystems.iter().flat_map(|subsystem| {
            let hosts = config.hosts.iter().filter(|host| subsystem.hosts.allows(&host.nqn));
            hosts.map(|host| (security.demand(subsystem.security), host))
        });
        let mut usable = pairs.filter(|(demand, host)| security.concatenates(*demand, host));
        let field = || "security.concat".to_owned();
        if usable.next().is_none() {
            let what =
                "no host with a dhchap_key may use a subsystem that has TLS and asks for proofs".into();
            let advice = "write tls = \"optional\" or \"required\" into [security] and a [[host]] with its dhchap_key, or remove concat";
            report(field(), what, advice);
        }
        if !security.dhchap_hash.iter().any(|hash| hash.is_of_tls()) {
            let advice = "add \"sha384\" or \"sha256\" to dhchap_hash";
            report(field(), "no cipher suite has a hash of dhchap_hash".into(), advice);
        }
        if security.dhchap_group.iter().all(Option::is_none) {
            let advice = "add \"ffdhe3072\" to dhchap_group";
            report(field(), "a key cannot be made without a group".into(), advice);
        }
    }
    if security.discovery == DiscoveryAccess::Hosts && !has_keys {
        let advice = "write a [[host]] table with the key of each host, or \"open\"";
        report("security.discovery".into(), "no host has a key, so none would see anything".into(), advice);
    }
    problems
}

/// The first word that is there twice.
fn twice<'w>(words: &[&'w str]) -> Option<&'w str> {
    words.iter().enumerate().find(|(index, word)| words[..*index].contains(word)).map(|(_, word)| *word)
}
