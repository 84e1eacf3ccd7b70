//! `gimbal ctl ana`: the groups of namespaces, with their numbers and access states.
//!
//! The target answers with its configuration, in which a group may have no number: the number is derived from the name, here as there.

use super::{Target, takeover};
use crate::output;
use server::config::{AccessState, Config, ConfigError, DEFAULT_GROUP};
use std::collections::HashMap;
use std::process::ExitCode;

impl Target {
    /// Prints all groups, one line each.
    pub(super) fn list_groups(&self) -> anyhow::Result<ExitCode> {
        if self.json {
            let reply = self.client.send("GET", "/v1/groups", &[], Vec::new())?;
            return self.show(&reply, |reply| reply.body.clone());
        }
        let reply = self.client.send("GET", "/v1/config", &[("accept", "application/toml")], Vec::new())?;
        if !reply.is_success() {
            return self.show(&reply, |reply| reply.body.clone());
        }
        let config =
            Config::parse(&reply.body).map_err(|problems| ConfigError::Wrong { file: None, problems })?;
        let mut of_groups = HashMap::new();
        for group in config.groups.iter().filter(|group| !config.fenced_devices(&group.name).is_empty()) {
            let reply = self.client.send("GET", &takeover::path(&group.name, "takeover"), &[], Vec::new())?;
            if !reply.is_success() {
                return self.show(&reply, |reply| reply.body.clone());
            }
            of_groups.insert(&*group.name, reply.json()["generation"].as_u64());
        }
        lines(&config, &of_groups).iter().try_for_each(output::line)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// A line for each group, then one for the namespaces that name none. `held`: the generations of groups whose devices are fenced.
fn lines(config: &Config, held: &HashMap<&str, Option<u64>>) -> Vec<String> {
    let members = |name: Option<&str>| {
        let namespaces = config.subsystems.iter().flat_map(|subsystem| {
            let named = subsystem.namespaces.iter().filter(move |each| each.group.as_deref() == name);
            named.map(move |namespace| format!("{} of {}", namespace.nsid, subsystem.nqn))
        });
        namespaces.collect::<Vec<String>>()
    };
    let unnamed = members(None);
    let mut lines = Vec::new();
    let mut line = |name: &str, id: u32, state: AccessState, members: Vec<String>| {
        let members = if members.is_empty() { "no namespaces".to_owned() } else { members.join(", ") };
        let state = match held.get(name) {
            Some(Some(generation)) => {
                format!("{}, held with generation {generation}", AccessState::Optimized.word())
            }
            Some(None) => format!("{}, not held", state.word()),
            None => state.word().to_owned(),
        };
        lines.push(format!("{name}: number {id}, {state}: {members}"));
    };
    let groups = config.numbered_groups();
    for (group, id) in &groups {
        let mut own = members(Some(&group.name));
        if *id == Some(DEFAULT_GROUP) {
            own.extend(unnamed.iter().cloned());
        }
        line(&group.name, id.unwrap_or_default(), group.state, own);
    }
    if !unnamed.is_empty() && groups.iter().all(|(_, id)| *id != Some(DEFAULT_GROUP)) {
        line("without a group", DEFAULT_GROUP, AccessState::default(), unnamed);
    }
    lines
}
