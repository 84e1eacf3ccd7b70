//! `gimbal ctl snapshot`: copies of a namespace in a directory at a point in time.

use super::{Kind, Target, encoded, refusal};
use crate::output;
use clap::Subcommand;
use serde_json::{Value, json};
use std::process::ExitCode;
use units::Bytes;

#[derive(Subcommand)]
pub(super) enum SnapshotAction {
    /// Take a snapshot of a namespace: its writes wait meanwhile, for 5 s at most
    Create {
        /// The name of the snapshot: letters, digits, '.', '_' and '-'
        name: String,
        /// The NQN of the subsystem
        nqn: String,
        /// The number of the namespace
        nsid: u32,
        /// Only say whether that is possible
        #[arg(long)]
        dry_run: bool,
    },
    /// Print the snapshots in a directory
    List {
        /// The name of the device
        device: String,
    },
    /// Delete a snapshot; namespaces that were made of it stay
    Delete {
        /// The name of the device
        device: String,
        /// The name of the snapshot
        name: String,
        /// Only say whether that is possible
        #[arg(long)]
        dry_run: bool,
    },
}

impl Target {
    /// Does it, and prints the answer.
    pub(super) fn snapshot(&self, action: SnapshotAction) -> anyhow::Result<ExitCode> {
        match action {
            SnapshotAction::List { device } => {
                let path = format!("/v1/devices/{}/snapshots", encoded(&device));
                let reply = self.client.send("GET", &path, &[], Vec::new())?;
                self.show(&reply, |reply| {
                    let all = reply.json()["snapshots"].as_array().cloned().unwrap_or_default();
                    all.iter().map(line).collect::<Vec<_>>().join("\n")
                })
            }
            SnapshotAction::Delete { device, name, dry_run } => {
                let reply = self.client.send("DELETE", &path(&device, &name, dry_run), &[], Vec::new())?;
                self.show(&reply, |_| match dry_run {
                    true => format!("snapshot {name} would be deleted"),
                    false => format!("snapshot {name} was deleted"),
                })
            }
            SnapshotAction::Create { name, nqn, nsid, dry_run } => {
                let namespace = Kind::Namespace.path(&[nqn.clone(), nsid.to_string()]);
                let found = self.client.send("GET", &namespace, &[], Vec::new())?;
                if !found.is_success() {
                    output::note(format_args!("gimbal: {}", refusal(&found)));
                    return Ok(ExitCode::FAILURE);
                }
                let device = found.json()["device"].as_str().unwrap_or_default().to_owned();
                let body = json!({ "subsystem": nqn, "nsid": nsid }).to_string().into_bytes();
                let reply = self.client.send("PUT", &path(&device, &name, dry_run), &[], body)?;
                self.show(&reply, |reply| {
                    let body = reply.json();
                    match body["pause_seconds"].as_f64() {
                        Some(pause) => {
                            let taken = line(&body["snapshot"]);
                            format!("{taken}; writes have waited for {:.1} ms", pause * 1e3)
                        }
                        None => format!("a snapshot {name} of namespace {nsid} of {nqn} is possible"),
                    }
                })
            }
        }
    }
}

fn path(device: &str, name: &str, dry_run: bool) -> String {
    let query = if dry_run { "?dry_run=true" } else { "" };
    format!("/v1/devices/{}/snapshots/{}{query}", encoded(device), encoded(name))
}

fn line(snapshot: &Value) -> String {
    let text = |field: &str| snapshot[field].as_str().unwrap_or("?").to_owned();
    let size = Bytes(snapshot["size"].as_u64().unwrap_or_default());
    format!("{} of {}, {size}, taken at {} s", text("name"), text("namespace"), snapshot["taken"])
}
