//! `gimbal ctl takeover` and `gimbal ctl release`: groups whose devices are fenced.

use super::{Kind, Target};
use admin::Reply;
use serde_json::{Value, json};
use std::process::ExitCode;

impl Target {
    /// Takes a group over, and prints its state.
    pub(super) fn take_over(&self, group: &str, generation: u64, dry_run: bool) -> anyhow::Result<ExitCode> {
        let query = if dry_run { "?dry_run=true" } else { "" };
        let body = json!({ "generation": generation }).to_string().into_bytes();
        let reply = self.client.send("POST", &format!("{}{query}", path(group, "takeover")), &[], body)?;
        self.show(&reply, |reply| match dry_run {
            true => format!("group {group}: a takeover with generation {generation} is possible"),
            false => state(reply),
        })
    }

    /// Prints whether a group is held.
    pub(super) fn takeover_status(&self, group: &str) -> anyhow::Result<ExitCode> {
        let reply = self.client.send("GET", &path(group, "takeover"), &[], Vec::new())?;
        self.show(&reply, state)
    }

    /// Releases a group, and prints its state.
    pub(super) fn release(&self, group: &str) -> anyhow::Result<ExitCode> {
        let reply = self.client.send("POST", &path(group, "release"), &[], Vec::new())?;
        self.show(&reply, state)
    }
}

pub(super) fn path(group: &str, action: &str) -> String {
    format!("{}/{action}", Kind::Group.path(&[group.to_owned()]))
}

/// The state in an answer; or what is not done yet.
fn state(reply: &Reply) -> String {
    let body = reply.json();
    if let Some(why) = body["pending"].as_str() {
        let operation = body["operation"].as_str().unwrap_or_default();
        return format!("accepted, and not complete yet: {why} ({operation})");
    }
    let group = body["group"].as_str().unwrap_or_default();
    match body["generation"].as_u64() {
        Some(generation) => format!("group {group}: held, generation {generation}"),
        None if body["held"] == Value::Bool(false) => format!("group {group}: not held"),
        None => reply.body.clone(),
    }
}
