//! No two namespaces have an identifier in common.
//!
//! Hosts take namespaces with the same UUID, NGUID or EUI64 for one and the same, reached by two ways, and spread their IO over
//! both: two disks would be written as if they were one. Identifiers that were derived are looked at like those that were given.
//!
//! Holds: `two_namespaces_never_share_an_identifier` in `config/tests.rs`.

use crate::config::{Config, Problem};
use crate::identity::Identifiers;
use std::collections::HashMap;

/// Every namespace that has an identifier of another one.
pub(super) fn problems(config: &Config) -> Vec<Problem> {
    let mut seen: HashMap<(&str, Vec<u8>), String> = HashMap::new();
    let mut problems = Vec::new();
    for (index, subsystem) in config.subsystems.iter().enumerate() {
        for (number, namespace) in subsystem.namespaces.iter().enumerate() {
            let path = format!("subsystem[{index}].namespace[{number}]");
            let ids = Identifiers::of(&subsystem.nqn, namespace);
            let named =
                [("uuid", ids.uuid.to_vec()), ("nguid", ids.nguid.to_vec()), ("eui64", ids.eui64.to_vec())];
            for (name, id) in named {
                if let Some(other) = seen.get(&(name, id.clone())) {
                    let what = format!("is that of {other} too: hosts would take them for one disk");
                    let advice = "give each namespace its own, or none: one is derived then";
                    problems.push(Problem::new(format!("{path}.{name}"), what, advice));
                } else {
                    seen.insert((name, id), path.clone());
                }
            }
        }
    }
    problems
}
