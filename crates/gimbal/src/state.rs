//! `gimbal state`: looks at a state directory and changes nothing in it, also while a target uses it.

use crate::{output, state_dir};
use anyhow::Context;
use clap::Subcommand;
use serde_json::{Value, json};
use server::config::Config;
use server::{StateContents, StoredReservations, check_state_directory, inspect_state_directory};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `gimbal state`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: StateCommand,
}

#[derive(Subcommand)]
enum StateCommand {
    /// Report everything that would keep a target of this user from a start with the directory
    Check {
        #[command(flatten)]
        place: Place,
    },
    /// Print what is stored: reservations without their keys, logs of auxiliary stores, wipes to be done, pools of directories, learnt
    /// models
    Show {
        #[command(flatten)]
        place: Place,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// The directory; by default the one that `gimbal serve` uses.
#[derive(clap::Args)]
struct Place {
    /// The directory [default: as `gimbal serve`]
    #[arg(long, value_name = "DIRECTORY")]
    state_dir: Option<PathBuf>,
    /// The directory that this configuration file names
    #[arg(short, long, value_name = "FILE", conflicts_with = "state_dir")]
    config: Option<PathBuf>,
}

/// Prints the problems on stderr, one line each, and the result on stdout.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (StateCommand::Check { place } | StateCommand::Show { place, .. }) = &args.command;
    let directory = directory(place)?;
    let contents = match args.command {
        StateCommand::Check { .. } => check_state_directory(&directory),
        StateCommand::Show { .. } => inspect_state_directory(&directory),
    };
    for problem in &contents.problems {
        output::note(problem);
    }
    match args.command {
        StateCommand::Check { .. } if contents.problems.is_empty() => {
            output::line(verdict(&directory, &contents))?
        }
        StateCommand::Check { .. } => {}
        StateCommand::Show { json: true, .. } => {
            output::line(serde_json::to_string_pretty(&to_json(&directory, &contents))?)?;
        }
        StateCommand::Show { json: false, .. } => output::print(&to_text(&directory, &contents))?,
    }
    Ok(match contents.problems.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn directory(place: &Place) -> anyhow::Result<PathBuf> {
    let named = match &place.config {
        Some(file) => Config::load(file)?.state_dir,
        None => place.state_dir.clone(),
    };
    named.or_else(state_dir::path).context("no state directory is known; give --state-dir")
}

fn verdict(directory: &Path, contents: &StateContents) -> String {
    match contents.version {
        Some(_) => format!("{}: valid ({})", directory.display(), summary(contents)),
        None => format!("{}: {}", directory.display(), summary(contents)),
    }
}

fn summary(contents: &StateContents) -> String {
    let Some(version) = contents.version else { return "not there; a start makes it".to_owned() };
    let (reservations, logs, learnt) = (contents.reservations.len(), contents.logs.len(), contents.learnt);
    let wipes: usize = contents.wipes.iter().map(|(_, count)| count).sum();
    let pools = contents.pools.len();
    format!(
        "version {version}, reservations of {reservations} namespaces, logs of {logs} SSDs, {wipes} wipes, pools of {pools} directories, models of {learnt} SSDs"
    )
}

fn to_text(directory: &Path, contents: &StateContents) -> String {
    let namespace = |stored: &StoredReservations| {
        let holder = stored.holder.as_ref().map_or(String::new(), |holder| format!(", held by {holder}"));
        let (count, of) = (stored.registrants.len(), &stored.subsystem);
        let registrants = stored.registrants.iter().map(|host| format!("  {host}\n")).collect::<String>();
        format!("namespace {} of {of}: {count} registrants{holder}\n{registrants}", stored.namespace)
    };
    let log = |(ssd, log): &(String, PathBuf)| format!("log {} may have data of {ssd}\n", log.display());
    let wipe = |(ssd, count): &(String, usize)| {
        format!("{count} parts of {ssd} have to be erased before they are served\n")
    };
    let parts = contents.reservations.iter().map(namespace).chain(contents.logs.iter().map(log));
    let pool = |(path, pool): &(PathBuf, String)| format!("{} had the pool {pool}\n", path.display());
    let parts = parts.chain(contents.wipes.iter().map(wipe)).chain(contents.pools.iter().map(pool));
    format!("{}: {}\n{}", directory.display(), summary(contents), parts.collect::<String>())
}

fn to_json(directory: &Path, contents: &StateContents) -> Value {
    let namespace = |stored: &StoredReservations| {
        json!({
            "subsystem": stored.subsystem,
            "namespace": stored.namespace,
            "generation": stored.generation,
            "registrants": stored.registrants,
            "holder": stored.holder,
        })
    };
    let log = |(ssd, log): &(String, PathBuf)| json!({ "ssd": ssd, "log": log });
    json!({
        "directory": directory,
        "version": contents.version,
        "reservations": contents.reservations.iter().map(namespace).collect::<Vec<_>>(),
        "logs": contents.logs.iter().map(log).collect::<Vec<_>>(),
        "wipes": contents.wipes.iter().map(|(ssd, count)| json!({ "ssd": ssd, "count": count })).collect::<Vec<_>>(),
        "pools": contents.pools.iter().map(|(path, pool)| json!({ "path": path, "pool": pool })).collect::<Vec<_>>(),
        "learnt": contents.learnt,
        "problems": contents.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}
