//! `gimbal ctl`: looks at a running target and changes it, by its admin socket.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | refused: nothing has changed |
//! | 2 | wrong usage |
//! | 3 | no target can be reached |
//! | 4 | accepted, and not complete yet: `/v1/operations/ID` says when |
//!
//! A change of one entry is repeated if another one came between; a whole file is not.
//!
//! Holds: `tests/ctl.rs`.

mod ana;
mod connections;
mod drain;
mod snapshot;
mod takeover;

use crate::output;
use crate::reach::Reach;
use admin::{Client, Reply};
use anyhow::Context;
use clap::{Subcommand, ValueEnum};
use drain::DrainAction;
use serde_json::{Map, Value};
use snapshot::SnapshotAction;
use std::path::PathBuf;
use std::process::ExitCode;
use units::Nanos;

const PENDING: u8 = 4;
/// Times that a change of one entry is repeated when others change the configuration meanwhile.
const TRIES: u32 = 8;
/// The statuses of HTTP that mean something to this command.
const ACCEPTED: u16 = 202;
const STALE: u16 = 412;

/// Arguments of `gimbal ctl`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  gimbal ctl get subsystem
  gimbal ctl set limits connections=2048
  gimbal ctl set tenant NQN weight=200 limit_rate=100M
  gimbal ctl add namespace NQN 2 device=ssd0 offset=10G size=10G
  gimbal ctl remove namespace NQN 2
  gimbal ctl diff gimbal.toml && gimbal ctl apply gimbal.toml

Exit codes: 0 done, 1 refused, 2 wrong usage, 3 no target reached, 4 accepted but not complete yet")]
pub(crate) struct Args {
    #[command(flatten)]
    reach: Reach,
    /// Print the answer as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: CtlCommand,
}

#[derive(Subcommand)]
enum CtlCommand {
    /// Print a part of the configuration: all entries of a kind, or one
    Get {
        kind: Kind,
        /// The name of the entry; for a namespace the NQN and the number
        name: Vec<String>,
    },
    /// Change fields of an entry or a table; FIELD=null removes a field
    Set {
        kind: Kind,
        /// The name of the entry, then the fields
        #[arg(required = true, value_name = "NAME|FIELD=VALUE")]
        words: Vec<String>,
    },
    /// Add an entry
    Add {
        kind: Kind,
        /// The name of the entry, then its fields
        #[arg(required = true, value_name = "NAME|FIELD=VALUE")]
        words: Vec<String>,
    },
    /// Remove an entry
    Remove {
        kind: Kind,
        /// The name of the entry; for a namespace the NQN and the number
        #[arg(required = true)]
        name: Vec<String>,
    },
    /// Replace the whole configuration by that of a file, and store it in the target's own
    Apply {
        /// The file
        file: PathBuf,
        /// Only print what would change
        #[arg(long)]
        dry_run: bool,
    },
    /// Print what would change if a file were applied
    Diff {
        /// The file
        file: PathBuf,
    },
    /// The configuration file of the target
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Apply the target's configuration file as it is now, as SIGHUP does
    Reload,
    /// End the connections of a host; it may connect again
    Host {
        /// Its NQN
        nqn: String,
        #[command(subcommand)]
        action: HostAction,
    },
    /// Print the groups of namespaces with their access states, or change the state of one
    Ana {
        #[command(subcommand)]
        action: Option<AnaAction>,
    },
    /// Take a group over from another target, whose writes its back-ends refuse from then on; or print whether it is held
    Takeover {
        /// The name of the group; its devices have fenced = true
        group: String,
        /// A number that is larger than that of every takeover before
        #[arg(long, value_name = "N", required_unless_present = "status")]
        generation: Option<u64>,
        /// Only say whether that is possible
        #[arg(long)]
        dry_run: bool,
        /// Print whether it is held, and with which generation
        #[arg(long, conflicts_with_all = ["generation", "dry_run"])]
        status: bool,
    },
    /// Give a group up: it is inaccessible here, and no IO of this target is under way any more
    Release {
        /// The name of the group
        group: String,
    },
    /// Print the connections of hosts
    Connections {
        /// Only those of this host NQN
        #[arg(long, value_name = "NQN")]
        host: Option<String>,
    },
    /// Take the target out of use for maintenance, until it ends: hosts are told to use other paths
    Drain {
        /// Wait until no IO is left, for at most this time, such as 60s; then the exit code is 4
        #[arg(long, value_name = "TIME")]
        wait: Option<Nanos>,
        #[command(subcommand)]
        action: Option<DrainAction>,
    },
    /// Take, print or delete snapshots of namespaces in a directory
    Snapshot {
        #[command(subcommand)]
        action: SnapshotAction,
    },
    /// Say whether the target is alive and ready for hosts
    Health,
}

#[derive(Subcommand)]
enum HostAction {
    /// End its connections; it may connect again, unless the subsystem does not allow it any more
    Disconnect,
}

#[derive(Subcommand)]
enum AnaAction {
    /// Change how hosts reach the namespaces of a group, in the target and in its file
    Set {
        /// The name of the group
        group: String,
        /// optimized, non-optimized, inaccessible or persistent-loss
        state: String,
    },
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Print the configuration that runs, as it is in the file, comments too
    Show,
    /// Drop edits of the file that were not reloaded: write what runs over them
    Discard,
}

/// A part of the configuration.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Device,
    Subsystem,
    Namespace,
    Host,
    Tenant,
    Group,
    #[value(alias = "limit")]
    Limits,
    Log,
    Security,
    Listen,
}

impl Kind {
    /// Words that name an entry.
    fn names(self) -> usize {
        match self {
            Kind::Device | Kind::Subsystem | Kind::Host | Kind::Tenant | Kind::Group => 1,
            Kind::Namespace => 2,
            Kind::Limits | Kind::Log | Kind::Security | Kind::Listen => 0,
        }
    }

    /// The path of an entry, or of all if the last name is not there.
    fn path(self, name: &[String]) -> String {
        let encoded: Vec<String> = name.iter().map(|word| encoded(word)).collect();
        let list = match self {
            Kind::Device => "devices",
            Kind::Subsystem => "subsystems",
            Kind::Host => "hosts",
            Kind::Tenant => "tenants",
            Kind::Group => "groups",
            Kind::Limits => "limits",
            Kind::Log => "log",
            Kind::Security => "security",
            Kind::Listen => "listen",
            Kind::Namespace => {
                let nsid = encoded.get(1).map_or(String::new(), |nsid| format!("/{nsid}"));
                return format!("/v1/subsystems/{}/namespaces{nsid}", encoded[0]);
            }
        };
        encoded.first().map_or(format!("/v1/{list}"), |name| format!("/v1/{list}/{name}"))
    }
}

/// Talks to the target, and prints its answer.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { reach, json, command } = args;
    reach.with(|client| Target { client, json }.done(command))
}

struct Target {
    client: Client,
    json: bool,
}

impl Target {
    fn done(&self, command: CtlCommand) -> anyhow::Result<ExitCode> {
        match command {
            CtlCommand::Get { kind, name } => {
                let least = kind.names().saturating_sub(1);
                if !(least..=kind.names()).contains(&name.len()) {
                    return wrong_names(kind);
                }
                let reply = self.client.send("GET", &kind.path(&name), &[], Vec::new())?;
                self.show(&reply, |reply| serde_json::to_string_pretty(&reply.json()).unwrap_or_default())
            }
            CtlCommand::Set { kind, words } => self.change(kind, &words, "PATCH", &[]),
            CtlCommand::Add { kind, .. } if kind.names() == 0 => {
                usage("this is a table, which is there already; use set")
            }
            CtlCommand::Add { kind, words } => self.change(kind, &words, "PUT", &[("if-none-match", "*")]),
            CtlCommand::Remove { kind, name } if kind.names() == name.len() && kind.names() > 0 => {
                self.write("DELETE", &kind.path(&name), &[], Vec::new())
            }
            CtlCommand::Remove { kind, .. } => wrong_names(kind),
            CtlCommand::Apply { file, dry_run } => self.apply(file, dry_run),
            CtlCommand::Diff { file } => self.apply(file, true),
            CtlCommand::Config(ConfigCommand::Show) => {
                let kind = if self.json { "application/json" } else { "application/toml" };
                let reply = self.client.send("GET", "/v1/config", &[("accept", kind)], Vec::new())?;
                self.show(&reply, |reply| reply.body.trim_end().to_owned())
            }
            CtlCommand::Config(ConfigCommand::Discard) => self.act("/v1/config/discard"),
            CtlCommand::Reload => self.act("/v1/reload"),
            CtlCommand::Host { nqn, action: HostAction::Disconnect } => {
                self.act(&format!("/v1/hosts/{}/disconnect", encoded(&nqn)))
            }
            CtlCommand::Ana { action: None } => self.list_groups(),
            CtlCommand::Ana { action: Some(AnaAction::Set { group, state }) } => {
                let body = Value::Object(Map::from_iter([("state".to_owned(), Value::from(state))]));
                self.write("PATCH", &Kind::Group.path(&[group]), &[], body.to_string().into_bytes())
            }
            CtlCommand::Takeover { group, generation: Some(generation), dry_run, .. } => {
                self.take_over(&group, generation, dry_run)
            }
            CtlCommand::Takeover { group, generation: None, .. } => self.takeover_status(&group),
            CtlCommand::Release { group } => self.release(&group),
            CtlCommand::Connections { host } => self.connections(host.as_deref()),
            CtlCommand::Drain { wait, action } => self.drain(wait, action),
            CtlCommand::Snapshot { action } => self.snapshot(action),
            CtlCommand::Health => self.health(),
        }
    }

    fn health(&self) -> anyhow::Result<ExitCode> {
        let mut code = ExitCode::SUCCESS;
        for (path, well) in [("/healthz", "alive"), ("/readyz", "ready")] {
            let reply = self.client.send("GET", path, &[], Vec::new())?;
            if self.json {
                output::line(&reply.body)?;
            } else if reply.is_success() {
                output::line(well)?;
            } else {
                let reasons = reply.json()["reasons"].as_array().cloned().unwrap_or_default();
                let reasons: Vec<&str> = reasons.iter().filter_map(Value::as_str).collect();
                output::line(format_args!("not {well}: {}", reasons.join("; ")))?;
            }
            if !reply.is_success() {
                code = ExitCode::FAILURE;
            }
        }
        Ok(code)
    }

    fn act(&self, path: &str) -> anyhow::Result<ExitCode> {
        let reply = self.client.send("POST", path, &[], Vec::new())?;
        self.show(&reply, changes)
    }

    fn apply(&self, file: PathBuf, dry_run: bool) -> anyhow::Result<ExitCode> {
        let text = files::read_text(&file).with_context(|| format!("{} cannot be read", file.display()))?;
        let generation = self.generation()?;
        let query = if dry_run { "?dry_run=true" } else { "" };
        let headers = [("if-match", &*quoted(&generation)), ("content-type", "application/toml")];
        let reply = self.client.send("PUT", &format!("/v1/config{query}"), &headers, text.into_bytes())?;
        self.show(&reply, changes)
    }

    fn change(
        &self,
        kind: Kind,
        words: &[String],
        method: &str,
        headers: &[(&str, &str)],
    ) -> anyhow::Result<ExitCode> {
        let names = kind.names();
        let (Some(name), Some(fields)) = (words.get(..names), words.get(names..)) else {
            return wrong_names(kind);
        };
        let mut body = Map::new();
        for field in fields {
            let Some((field, value)) = field.split_once('=') else {
                return usage(&format!("{field:?} is no FIELD=VALUE"));
            };
            body.insert(field.to_owned(), value_of(value));
        }
        let body = Value::Object(body).to_string().into_bytes();
        self.write(method, &kind.path(name), headers, body)
    }

    /// Writes one part, for the configuration as it is. If another change comes between, it is done again.
    fn write(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> anyhow::Result<ExitCode> {
        let mut tries = 0;
        loop {
            let generation = self.generation()?;
            let tag = quoted(&generation);
            let own = [("if-match", &*tag), ("content-type", "application/json")];
            let reply = self.client.send(method, path, &[&own[..], headers].concat(), body.clone())?;
            tries += 1;
            let is_stale = reply.status == STALE && self.generation()? != generation;
            if !is_stale || tries == TRIES {
                return self.show(&reply, changes);
            }
        }
    }

    fn generation(&self) -> anyhow::Result<String> {
        // As it is, because a large document takes a while to become JSON.
        let reply = self.client.send("GET", "/v1/config", &[("accept", "application/toml")], Vec::new())?;
        reply.generation.context("the answer has no ETag: another program answers at this socket")
    }

    /// Prints an answer, and returns the exit code that it means.
    fn show(&self, reply: &Reply, text: impl Fn(&Reply) -> String) -> anyhow::Result<ExitCode> {
        if !reply.is_success() && !self.json {
            output::note(format_args!("gimbal: {}", refusal(reply)));
        } else if self.json {
            output::line(&reply.body)?;
        } else {
            output::line(text(reply))?;
        }
        Ok(match reply.status {
            ACCEPTED => ExitCode::from(PENDING),
            _ if reply.is_success() => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        })
    }
}

/// The changes in an answer, one line each; or what is not done yet.
fn changes(reply: &Reply) -> String {
    let body = reply.json();
    if let Some(why) = body["pending"].as_str() {
        return format!(
            "accepted, and not complete yet: {why} ({})",
            body["operation"].as_str().unwrap_or_default()
        );
    }
    if let Some(count) = body["connections"].as_u64() {
        return format!("{count} connections were ended");
    }
    let changes = body["changes"].as_array().cloned().unwrap_or_default();
    let lines: Vec<&str> = changes.iter().filter_map(|change| change["text"].as_str()).collect();
    if lines.is_empty() { "nothing changes in the target".to_owned() } else { lines.join("\n") }
}

/// The reason of a refusal, then every problem, one line each.
pub(crate) fn refusal(reply: &Reply) -> String {
    let body = reply.json();
    let Some(detail) = body["detail"].as_str() else {
        return format!("refused with status {}", reply.status);
    };
    let problems = body["problems"].as_array().cloned().unwrap_or_default();
    let line = |problem: &Value| {
        let text = |field: &str| problem[field].as_str().unwrap_or_default().to_owned();
        let place = problem["line"].as_u64().map_or(String::new(), |line| format!("line {line}: "));
        format!("\n{place}{}: {}; {}", text("field"), text("what"), text("advice"))
    };
    format!("{detail}{}", problems.iter().map(line).collect::<String>())
}

/// A value as it is typed: JSON if it is a number, a list, a table, true, false or null, else a text.
fn value_of(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(Value::String(_)) | Err(_) => Value::from(text),
        Ok(value) => value,
    }
}

fn quoted(generation: &str) -> String {
    format!("\"{generation}\"")
}

/// A word of a path (RFC 3986).
pub(crate) fn encoded(word: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    word.bytes().map(encode).collect()
}

fn wrong_names(kind: Kind) -> anyhow::Result<ExitCode> {
    usage(match kind.names() {
        0 => "this kind has no names, and cannot be added or removed",
        1 => "give the name of one entry",
        _ => "give the NQN of the subsystem and the number of the namespace",
    })
}

fn usage(what: &str) -> anyhow::Result<ExitCode> {
    output::note(format_args!("gimbal: {what}; see gimbal ctl --help"));
    Ok(ExitCode::from(2))
}
