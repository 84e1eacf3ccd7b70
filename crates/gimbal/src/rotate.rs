//! `gimbal key rotate`: replaces a key of a host in two steps, between which both keys prove the host.
//!
//! ```text
//!   rotate HOST --new FILE     dhchap_key_next = FILE, or one more in tls_key; then the host gets the new key
//!   rotate HOST                dhchap_key = dhchap_key_next, or the first of tls_key goes, if the old key is not used any more
//! ```
//!
//! Each step is one change of the configuration by the admin API: in effect, and in the file. Nobody is disconnected.
//!
//! Holds: the old key stays while the target has seen it used within `--unused-for`, or has run for less than that with both keys
//!        (`an_old_key_goes_when_it_is_not_used_any_more` in `tests/key_rotate.rs`).

use crate::ctl;
use crate::key::{Key, Kind};
use crate::output;
use crate::reach::Reach;
use admin::{Client, Reply};
use anyhow::{Context, Result, bail, ensure};
use host::Nqn;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use units::Nanos;

/// Arguments of `gimbal key rotate`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// NQN of the host
    #[arg(value_parser = crate::key::nqn)]
    host: Nqn,
    /// Begin: the file with the new key, made by `gimbal key gen`
    #[arg(long, value_name = "FILE")]
    new: Option<PathBuf>,
    /// The use of the key
    #[arg(long, value_enum, default_value = "dhchap")]
    kind: Kind,
    /// End only if the old key has proved nobody for as long
    #[arg(long, value_name = "TIME", default_value = "1d", conflicts_with = "new")]
    unused_for: Nanos,
    /// End, whether the old key is used or not
    #[arg(long, conflicts_with_all = ["new", "unused_for"])]
    now: bool,
    #[command(flatten)]
    reach: Reach,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    args.reach.with(|client| step(&client, args))
}

fn step(client: &Client, args: &Args) -> Result<ExitCode> {
    let path = format!("/v1/hosts/{}", ctl::encoded(args.host.as_str()));
    let read = client.send("GET", &path, &[], Vec::new())?;
    if !read.is_success() {
        return refused(&read);
    }
    let (entry, generation) = (read.json(), read.generation.context("the answer has no ETag")?);
    let change = match &args.new {
        Some(file) => begin(&entry, args.kind, file)?,
        None => {
            let uses = client.send("GET", &format!("{path}/keys"), &[], Vec::new())?;
            if !uses.is_success() {
                return refused(&uses);
            }
            let unused_for = (!args.now).then_some(args.unused_for);
            end(&entry, args.kind, &uses.json(), unused_for)?
        }
    };
    let tag = format!("\"{generation}\"");
    let headers = [("if-match", &*tag), ("content-type", "application/json")];
    let reply = client.send("PATCH", &path, &headers, change.to_string().into_bytes())?;
    if !reply.is_success() {
        return refused(&reply);
    }
    output::line(match &args.new {
        Some(file) => format!(
            "both keys prove the host now: give it {}, then end with gimbal key rotate",
            file.display()
        ),
        None => "the new key alone proves the host now; connections stay".to_owned(),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn refused(reply: &Reply) -> Result<ExitCode> {
    output::note(ctl::refusal(reply));
    Ok(ExitCode::FAILURE)
}

/// The keys for TLS of an entry.
fn tls_keys(entry: &Value) -> Vec<Value> {
    match &entry["tls_key"] {
        Value::Array(all) => all.clone(),
        Value::Null => Vec::new(),
        one => vec![one.clone()],
    }
}

/// The change that has both keys prove a host.
fn begin(entry: &Value, kind: Kind, file: &Path) -> Result<Value> {
    let key = Key::read(file)?;
    ensure!(key.kind() == kind, "{}: this is a key for {}; see --kind", file.display(), key.purpose());
    let file = std::path::absolute(file).with_context(|| file.display().to_string())?;
    let file = file.to_str().context("the path of the new key is not UTF-8, as the configuration is")?;
    match kind {
        Kind::Dhchap => {
            ensure!(
                !entry["dhchap_key"].is_null(),
                "the host has no dhchap_key to replace: gimbal ctl set host adds one"
            );
            if let Some(next) = entry["dhchap_key_next"].as_str() {
                bail!(
                    "a rotation to {next} has begun: end it first, with gimbal key rotate and without --new"
                );
            }
            Ok(json!({ "dhchap_key_next": file }))
        }
        Kind::Tls => {
            let mut all = tls_keys(entry);
            ensure!(!all.is_empty(), "the host has no tls_key to replace: gimbal ctl set host adds one");
            all.push(json!(file));
            Ok(json!({ "tls_key": all }))
        }
    }
}

/// The change that leaves the new key alone. `unused_for`: if the old one was not used for as long.
fn end(entry: &Value, kind: Kind, uses: &Value, unused_for: Option<Nanos>) -> Result<Value> {
    let (field, change) = match kind {
        Kind::Dhchap => {
            let next = &entry["dhchap_key_next"];
            ensure!(!next.is_null(), "no rotation has begun: begin with --new FILE");
            ("dhchap_key", json!({ "dhchap_key": next, "dhchap_key_next": null }))
        }
        Kind::Tls => {
            let all = tls_keys(entry);
            ensure!(
                all.len() > 1,
                "no rotation has begun, as there is one tls_key: begin with --kind tls --new FILE"
            );
            ("tls_key", json!({ "tls_key": all[1..] }))
        }
    };
    let Some(unused_for) = unused_for else { return Ok(change) };
    let of_kind = uses
        .as_array()
        .into_iter()
        .flatten()
        .filter(|of| of["field"].as_str().is_some_and(|name| name.starts_with(field)));
    let of_kind: Vec<&Value> = of_kind.collect();
    let [old, new, ..] = of_kind[..] else {
        bail!("the target runs with other keys than its file has: reload it, then try again");
    };
    let wanted = unused_for.as_secs_f64();
    let seconds = |of: &Value, name: &str| of[name].as_f64();
    if let Some(last) = seconds(old, "last_proof_seconds").filter(|last| *last < wanted) {
        bail!(
            "the old key proved the host {} ago, and the new one {} times: give the host the new one and wait for {}, or force it with --now",
            time(last),
            new["proofs"],
            time(wanted)
        );
    }
    let both = seconds(new, "known_seconds").unwrap_or(0.0);
    ensure!(
        both >= wanted,
        "the target has known both keys for {} only: whether the old one is used is known after {}; --now does not wait",
        time(both),
        time(wanted)
    );
    Ok(change)
}

/// A time as people read it.
fn time(seconds: f64) -> String {
    match seconds {
        ..120.0 => format!("{seconds:.0} s"),
        120.0..7200.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.0} h", seconds / 3600.0),
    }
}
