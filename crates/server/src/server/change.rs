//! The differences between two configurations, for programs and for people.

use crate::config::{
    AllowedHosts, Config, Listen, NamespaceTenant, SchedulerConfig, SchedulerOverrides, SubsystemConfig,
    limits,
};
use crate::tenants::TenantName;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::Hash;

/// One difference between the former and the present configuration of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The kind of thing that has changed.
    pub subject: Subject,
    /// Its name.
    pub name: String,
    /// Its former value, for people; `None` if it is new.
    pub from: Option<String>,
    /// Its present value; `None` if it was removed.
    pub to: Option<String>,
}

/// A setting that can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// An address that the target listens on.
    Listen,
    /// A limit on what hosts can make the target hold.
    Limits,
    /// A device.
    Device,
    /// The scheduler of a device.
    Scheduler,
    /// A subsystem.
    Subsystem,
    /// The hosts that may connect to a subsystem.
    Hosts,
    /// A namespace.
    Namespace,
    /// A group of namespaces.
    Group,
    /// A rule by which hosts prove who they are.
    Security,
    /// The keys of a host.
    Host,
    /// The share of a host, or of a namespace that is a tenant.
    Tenant,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Subject::Listen => "listen",
            Subject::Limits => "limits",
            Subject::Device => "device",
            Subject::Scheduler => "scheduler",
            Subject::Subsystem => "subsystem",
            Subject::Hosts => "hosts",
            Subject::Namespace => "namespace",
            Subject::Group => "group",
            Subject::Security => "security",
            Subject::Host => "host",
            Subject::Tenant => "tenant",
        })
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Change { subject, name, from, to } = self;
        write!(f, "{subject} {name}: ")?;
        match (from, to) {
            (Some(from), Some(to)) => write!(f, "{from} → {to}"),
            (None, Some(to)) => write!(f, "added, {to}"),
            (Some(_), None) => write!(f, "removed"),
            (None, None) => write!(f, "changed"),
        }
    }
}

/// Values that a configuration refers to and does not have, for people.
pub(super) trait Resolved {
    /// The size of a device.
    fn device(&self, name: &str) -> Option<String>;
    /// The size of a namespace.
    fn namespace(&self, nqn: &str, nsid: u32) -> Option<String>;
    /// The fingerprints of the keys of a host.
    fn keys(&self, host: &str) -> Option<String>;
}

/// All differences, in the order of the configuration file.
pub(super) fn changes(old: (&Config, &impl Resolved), new: (&Config, &impl Resolved)) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut compare = |subject, name: &str, from: Option<String>, to: Option<String>| {
        if from != to {
            changes.push(Change { subject, name: name.to_owned(), from, to });
        }
    };
    let ((old, old_values), (new, new_values)) = (old, new);
    let is_there = |config: &Config, address| config.listen.contains(&address).then(|| "there".to_owned());
    for address in union(&old.listen, &new.listen, |listen: &Listen| *listen) {
        compare(Subject::Listen, &address.to_string(), is_there(old, address), is_there(new, address));
    }
    for row in limits::FIELDS {
        compare(Subject::Limits, row.name, Some(row.shown(&old.limits)), Some(row.shown(&new.limits)));
    }
    for name in union(&old.devices, &new.devices, |device| device.name.clone()) {
        compare(Subject::Device, &name, old_values.device(&name), new_values.device(&name));
        let scheduler = |config: &Config| Some(config.devices[config.device_index(&name)?].scheduler.clone());
        if let (Some(from), Some(to)) = (scheduler(old), scheduler(new)) {
            let (before, mut now) = (shown_scheduler(&from), shown_scheduler(&to));
            if from != to && before == now {
                now += ", other ones";
            }
            compare(Subject::Scheduler, &name, Some(before), Some(now));
        }
    }
    for name in union(&old.groups, &new.groups, |group| group.name.clone()) {
        let shown = |config: &Config| {
            let (group, id) = config.numbered_groups().into_iter().find(|(group, _)| group.name == name)?;
            Some(format!("{}, number {}", group.state.word(), id.unwrap_or_default()))
        };
        compare(Subject::Group, &name, shown(old), shown(new));
    }
    for nqn in union(&old.subsystems, &new.subsystems, |subsystem| subsystem.nqn.clone()) {
        let (from, to) = (old.subsystem(&nqn), new.subsystem(&nqn));
        let hosts = |config: &SubsystemConfig| shown_hosts(&config.hosts);
        if let (Some(from), Some(to)) = (from, to) {
            compare(Subject::Hosts, &nqn, Some(hosts(from)), Some(hosts(to)));
        } else {
            compare(Subject::Subsystem, &nqn, from.map(hosts), to.map(hosts));
        }
        let security = |config: Option<&SubsystemConfig>| {
            let words: Vec<String> =
                config?.security.words().map(|(name, word)| format!("{name} {word}")).collect();
            (!words.is_empty()).then(|| words.join(", "))
        };
        compare(Subject::Security, &nqn, security(from), security(to));
        let nsids = |config: Option<&SubsystemConfig>| -> Vec<u32> {
            config.map_or(Vec::new(), |config| config.namespaces.iter().map(|each| each.nsid).collect())
        };
        for nsid in union(&nsids(from), &nsids(to), |nsid| *nsid) {
            let shown = |config: Option<&SubsystemConfig>, values: &dyn Resolved| {
                let namespace = config?.namespaces.iter().find(|namespace| namespace.nsid == nsid)?;
                let protected = if namespace.read_only { ", read-only" } else { "" };
                let suffix = if namespace.wipe_on_remove { ", erased when it is removed" } else { "" };
                let group =
                    namespace.group.as_ref().map_or(String::new(), |group| format!(", in group {group}"));
                values.namespace(&nqn, nsid).map(|size| format!("{size}{protected}{suffix}{group}"))
            };
            let (from, to) = (shown(from, old_values), shown(to, new_values));
            compare(Subject::Namespace, &format!("{nsid} of {nqn}"), from, to);
        }
    }
    let promised = |config: &Config| -> Vec<(String, String)> {
        let named = |it: NamespaceTenant<'_>| {
            let name = TenantName::of_namespace(&it.subsystem.nqn, it.namespace.nsid);
            (name.to_string(), it.share().shown())
        };
        config.namespace_tenants().map(named).collect()
    };
    let (from, to) = (promised(old), promised(new));
    let (mut before, mut now): (HashMap<_, _>, HashMap<_, _>) =
        (from.iter().cloned().collect(), to.iter().cloned().collect());
    for name in union(&from, &to, |(name, _)| name.clone()) {
        compare(Subject::Tenant, &name, before.remove(&name), now.remove(&name));
    }
    for ((name, from), (_, to)) in old.security.shown().into_iter().zip(new.security.shown()) {
        compare(Subject::Security, name, Some(from), Some(to));
    }
    for host in union(&old.hosts, &new.hosts, |host| host.nqn.clone()) {
        let shown = |values: &dyn Resolved| values.keys(&host).map(|keys| format!("keys {keys}"));
        compare(Subject::Host, &host, shown(old_values), shown(new_values));
    }
    let shares = |config: &Config| -> HashMap<String, String> {
        config.tenants.iter().map(|tenant| (tenant.host.clone(), tenant.shown())).collect()
    };
    let (mut from, mut to) = (shares(old), shares(new));
    for host in union(&old.tenants, &new.tenants, |tenant| tenant.host.clone()) {
        compare(Subject::Tenant, &host, from.remove(&host), to.remove(&host));
    }
    changes
}

/// The keys of both, each once: those of `old` in their order, then the new ones.
fn union<T, K: Clone + Eq + Hash>(old: &[T], new: &[T], key: impl Fn(&T) -> K) -> Vec<K> {
    let mut seen = HashSet::new();
    old.iter().chain(new).map(key).filter(|key| seen.insert(key.clone())).collect()
}

fn shown_scheduler(scheduler: &SchedulerConfig) -> String {
    let policy = scheduler.policy.name;
    if let Some(calibration) = scheduler.calibration.as_ref().filter(|_| scheduler.policy.needs_calibration())
    {
        return format!("{policy} as calibrated in {}", calibration.display());
    }
    match scheduler.overrides == SchedulerOverrides::default() {
        true => policy.to_owned(),
        false => format!("{policy} with constants of its own"),
    }
}

fn shown_hosts(hosts: &AllowedHosts) -> String {
    match hosts {
        AllowedHosts::Any => "any host".to_owned(),
        AllowedHosts::Only(hosts) => hosts.join(" "),
    }
}
