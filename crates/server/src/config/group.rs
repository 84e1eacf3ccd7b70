//! Groups of namespaces that change their access state together (ANA groups).
//!
//! A group has a number, which hosts see. The file may choose it; if not, it is derived from the name, so that it is the same at every start and does
//! not depend on the order of the file: only the numbers of groups whose names lead to the same one depend on who comes first.
//!
//! A group on fenced devices is inaccessible in the file: a takeover makes it accessible (`server::takeover`), and a restart forgets that.
//!
//! Holds: every group has a number of its own (`groups_have_numbers_of_their_own_that_stay`).
//! Elsewhere: what a state means for commands is the `nvme` crate's (`spec::ana`).

use super::fields::{Fields, Findings};
use super::problem::Problem;
use super::read::required;
use super::text::word;
use super::{Config, DeviceKind, NamespaceConfig, SubsystemConfig};
use crate::identity::fnv1a;
use nvme::spec::AnaState;
use std::collections::{BTreeMap, BTreeSet};

/// The number of the group of namespaces that name none.
pub const DEFAULT_GROUP: u32 = 1;
/// The largest number of a group. Hosts keep memory for this many.
pub(crate) const GROUP_MAX: u32 = 32;

/// The access of hosts to the namespaces of a group by this target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessState {
    /// This is the best way.
    #[default]
    Optimized,
    /// There is a better way.
    NonOptimized,
    /// Not now. IOs are refused, and hosts try another path, or wait.
    Inaccessible,
    /// Never again: hosts do not come back to this path for them.
    PersistentLoss,
}

/// The words of the file.
pub(super) const STATES: [(&str, AccessState); 4] = [
    ("optimized", AccessState::Optimized),
    ("non-optimized", AccessState::NonOptimized),
    ("inaccessible", AccessState::Inaccessible),
    ("persistent-loss", AccessState::PersistentLoss),
];

impl AccessState {
    /// The word of the file.
    pub fn word(self) -> &'static str {
        word(&STATES, &self)
    }

    /// The state as the `nvme` crate has it.
    pub(crate) fn to_ana(self) -> AnaState {
        match self {
            AccessState::Optimized => AnaState::Optimized,
            AccessState::NonOptimized => AnaState::NonOptimized,
            AccessState::Inaccessible => AnaState::Inaccessible,
            AccessState::PersistentLoss => AnaState::PersistentLoss,
        }
    }
}

/// A group of namespaces, of any subsystems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// Its name, which namespaces refer to.
    pub name: String,
    /// Its number (ANAGRPID); `None` derives one from the name.
    pub id: Option<u32>,
    /// The state of all its namespaces.
    pub state: AccessState,
}

impl Config {
    /// All groups with their numbers, in the order of the file. A group without a free number has none: the check reports it.
    pub fn numbered_groups(&self) -> Vec<(&GroupConfig, Option<u32>)> {
        let mut taken: BTreeSet<u32> = self.groups.iter().filter_map(|group| group.id).collect();
        taken.insert(DEFAULT_GROUP);
        let mut number = |group: &GroupConfig| {
            let span = GROUP_MAX - DEFAULT_GROUP;
            let first = (fnv1a(&[b"ana group", &[0], group.name.as_bytes()]) % u128::from(span)) as u32;
            let mut from_first = (0..span).map(|step| DEFAULT_GROUP + 1 + (first + step) % span);
            let free = from_first.find(|id| !taken.contains(id))?;
            taken.insert(free);
            Some(free)
        };
        self.groups.iter().map(|group| (group, group.id.or_else(|| number(group)))).collect()
    }

    /// The fenced devices of a group.
    pub fn fenced_devices(&self, group: &str) -> Vec<&str> {
        let of_group = |namespace: &&NamespaceConfig| namespace.group.as_deref() == Some(group);
        let namespaces = self.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces);
        let devices: BTreeSet<&str> =
            namespaces.filter(of_group).map(|namespace| &*namespace.device).collect();
        devices.into_iter().filter(|device| self.is_fenced(device)).collect()
    }

    fn is_fenced(&self, name: &str) -> bool {
        let device = self.devices.iter().find(|device| device.name == name);
        device.is_some_and(|device| matches!(&device.kind, DeviceKind::NvmeTcp(back_end) if back_end.fenced))
    }

    /// The number of the group of a namespace.
    pub(crate) fn group_of(&self, namespace: &NamespaceConfig) -> u32 {
        let Some(name) = &namespace.group else { return DEFAULT_GROUP };
        let groups = self.numbered_groups();
        let named = groups.into_iter().find(|(group, _)| group.name == *name);
        named.and_then(|(_, id)| id).expect("the check has found every group and its number")
    }

    /// The access of hosts to the namespaces of a subsystem.
    pub(crate) fn access(&self, subsystem: &SubsystemConfig) -> Access {
        let groups = self.numbered_groups();
        let state_of = |id| {
            let group = groups.iter().find(|(_, other)| *other == Some(id));
            group.map_or(AnaState::default(), |(group, _)| group.state.to_ana())
        };
        let namespaces = subsystem.namespaces.iter();
        Access {
            // All of them, so that a group that is not there any more is as if it had never been.
            states: (DEFAULT_GROUP..=GROUP_MAX).map(|id| (id, state_of(id))).collect(),
            groups: namespaces.map(|namespace| (namespace.nsid, self.group_of(namespace))).collect(),
        }
    }
}

/// The access of hosts to the namespaces of a subsystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// The state of each number of a group.
    pub(crate) states: Vec<(u32, AnaState)>,
    /// The group of each namespace.
    pub(crate) groups: Vec<(u32, u32)>,
}

/// Every problem of the groups, and of the namespaces that name them.
pub(super) fn problems(config: &Config) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut report = |field: String, what: String, advice: &str| {
        problems.push(Problem::new(field, what, advice));
    };
    for (index, (group, id)) in config.numbered_groups().into_iter().enumerate() {
        let field = |name: &str| format!("group[{index}].{name}");
        let before = &config.groups[..index];
        if group.name.is_empty() {
            report(field("name"), "the name is empty".into(), "give the group a name");
        } else if before.iter().any(|other| other.name == group.name) {
            report(field("name"), format!("two groups are called {:?}", group.name), "rename one of them");
        }
        match id {
            None => {
                let what = format!("there are more than {} groups", GROUP_MAX - DEFAULT_GROUP);
                report(field("name"), what, "put their namespaces into fewer groups");
            }
            Some(id) if id == 0 || id > GROUP_MAX => {
                let what = format!("{id} is not from 1 to {GROUP_MAX}");
                report(field("id"), what, "write another number, or leave it out");
            }
            Some(id) => {
                if let Some(other) = before.iter().find(|other| other.id == Some(id)) {
                    let what = format!("group {:?} has the number {id} too", other.name);
                    report(field("id"), what, "write another number, or leave it out");
                }
            }
        }
    }
    for (index, group) in config.groups.iter().enumerate() {
        if group.state != AccessState::Inaccessible
            && let Some(device) = config.fenced_devices(&group.name).first()
        {
            let what = format!(
                "device {device:?} is fenced, so its group is accessible only after a takeover, by gimbal ctl takeover"
            );
            report(format!("group[{index}].state"), what, "write state = \"inaccessible\"");
        }
    }
    let mut groups_of_devices: BTreeMap<&str, &str> = BTreeMap::new();
    for (subsystem_index, subsystem) in config.subsystems.iter().enumerate() {
        for (index, namespace) in subsystem.namespaces.iter().enumerate() {
            let field = |name: &str| format!("subsystem[{subsystem_index}].namespace[{index}].{name}");
            let device = &*namespace.device;
            if config.is_fenced(device) {
                let group = namespace.group.as_deref().unwrap_or_default();
                let first = *groups_of_devices.entry(device).or_insert(group);
                if group.is_empty() {
                    let what = format!("device {device:?} is fenced, and a takeover is one of a group");
                    report(field("group"), what, "write the group that is taken over");
                } else if first != group {
                    let what = format!("device {device:?} is fenced, and is of group {first:?} already");
                    report(field("group"), what, "put all namespaces of the device into one group");
                }
                if namespace.wipe_on_remove {
                    let what =
                        format!("device {device:?} is fenced, and a wipe is not carried over by a takeover");
                    report(field("wipe_on_remove"), what, "leave it out");
                }
            } else if let Some(group) = &namespace.group
                && let Some(fenced) = config.fenced_devices(group).first()
            {
                let what =
                    format!("device {device:?} is not fenced, and device {fenced:?} of the same group is");
                report(field("group"), what, "name another group, or write fenced = true for both devices");
            }
            let Some(name) = &namespace.group else { continue };
            if config.groups.iter().all(|group| group.name != *name) {
                let known: Vec<&str> = config.groups.iter().map(|group| &*group.name).collect();
                let advice = match known.is_empty() {
                    true => format!("write [[group]] with name = {name:?}, or leave it out"),
                    false => format!("known: {}", known.join(", ")),
                };
                report(field("group"), format!("no group is called {name:?}"), &advice);
            }
        }
    }
    problems
}

/// Reads one `[[group]]`.
pub(super) fn read(table: &mut Fields<'_, '_>, findings: &mut Findings) -> GroupConfig {
    GroupConfig {
        name: required(table, findings, "name", "a name that namespaces refer to"),
        id: table.number(findings, "id"),
        state: table.choice(findings, "state", &STATES).unwrap_or_default(),
    }
}
