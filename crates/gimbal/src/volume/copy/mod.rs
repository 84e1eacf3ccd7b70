//! `gimbal volume import` and `gimbal volume export`: the copy of a directory into a volume, and back.
//!
//! Elsewhere: the order and the checks of a copy are `transfer`, over two `place`s: `local` and `remote`.

mod local;
#[cfg(test)]
mod memory;
mod pace;
mod place;
mod plan;
mod remote;
mod transfer;
mod watch;

use super::mounted;
use crate::output;
use crate::rack::StoreArgs;
use anyhow::{Result, bail};
use blob::{Fault, Settings};
use blob_client::{Mount, MountError};
use local::Local;
use place::Place;
use reactor::Clock;
use remote::{Remote, not_unmounted, path_of};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use transfer::{Summary, Transfer, shown};
use units::{Bytes, KIB, MIB, Nanos};
use watch::{Interrupted, Watch};

/// The advice for a place that is full.
const MORE_SPACE: &str =
    "make space (another target, or fewer files), and run the same command again, which goes on";
/// Time for which a volume that is in use is waited for. The lease of a client that was killed is over sooner.
const LOCK_PATIENCE: Nanos = Nanos::secs(15);

/// The options that both directions share.
#[derive(clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    access: mounted::Access,
    /// Most bytes per second that are read from the volume or written to it, the check included
    #[arg(long, value_name = "BYTES")]
    rate: Option<Bytes>,
    /// Replace files of the destination that differ from those of the source
    #[arg(long)]
    replace: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The direction of a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Import,
    Export,
}

/// Bytes of a piece: small enough that a low rate has no long pauses.
fn piece(rate: Option<Bytes>) -> usize {
    let share = rate.map_or(MIB, |rate| (rate.0 / 16).clamp(4 * KIB, MIB));
    usize::try_from(share).expect("at most 1 MiB")
}

/// Copies a directory, and prints a summary.
pub(super) fn run(
    options: &Options,
    direction: Direction,
    volume: &str,
    dir: &Path,
    path: &str,
) -> Result<ExitCode> {
    if options.rate == Some(Bytes::ZERO) {
        bail!("--rate 0 copies nothing; without --rate there is no limit");
    }
    let piece = piece(options.rate);
    let mut local = Local::new(dir, piece);
    path_of(path)?;
    // Problems of this machine are found before the volume is mounted.
    match local.list()? {
        Some(entries) => local.lock_databases(&entries)?,
        None if direction == Direction::Import => bail!("{} does not exist", dir.display()),
        None => {}
    }
    let watch = Watch::on_signals(options.rate)?;
    let mount = mount(options, volume)?;
    let began = Clock.now();
    let result = Remote::new(&mount, volume, path, piece, &watch).and_then(|remote| {
        let (from, to): (&dyn Place, &dyn Place) = match direction {
            Direction::Import => (&local, &remote),
            Direction::Export => (&remote, &local),
        };
        let is_own = direction == Direction::Export;
        let summary = Transfer { from, to, replace: options.replace, is_own, watch: &watch }.run()?;
        Ok((summary, from.name(""), to.name("")))
    });
    let took = Clock.now().saturating_since(began);
    let unmounted = not_unmounted(volume, mount.unmount());
    let code = watch.exit_code();
    // Takes the bar away.
    drop(watch);
    match result {
        Ok((summary, from, to)) => {
            unmounted?;
            print(&summary, options.json, &from, &to, took)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) if error.is::<Interrupted>() => {
            output::note("interrupted: run the same command again to go on");
            unmounted?;
            Ok(code)
        }
        Err(error) => {
            if let Err(also) = unmounted {
                output::note(format_args!("gimbal: {also:#}"));
            }
            Err(error)
        }
    }
}

/// Mounts the volume. If another client has it, that may have been killed a moment ago: then its lease ends soon.
fn mount(options: &Options, volume: &str) -> Result<Mount> {
    let first = mounted::open(&options.store, &options.access, mounted::settings(volume));
    let is_in_use = |error: &anyhow::Error| {
        matches!(error.downcast_ref::<MountError>(), Some(MountError::Volume(Fault::InUse)))
    };
    match first {
        Err(error) if is_in_use(&error) => {
            output::note(format_args!(
                "volume {volume} is in use; waiting up to {} s, in case its client was killed",
                LOCK_PATIENCE.0 / 1_000_000_000
            ));
            let settings = Settings { lock_patience: LOCK_PATIENCE, ..mounted::settings(volume) };
            mounted::open(&options.store, &options.access, settings)
        }
        other => other,
    }
}

fn print(summary: &Summary, json: bool, from: &str, to: &str, took: Nanos) -> Result<()> {
    let Summary { files, bytes, dirs, copied_files, copied_bytes, .. } = *summary;
    let Summary { continued_bytes, skipped_files, skipped_bytes, ref set_aside, ref extra, .. } = *summary;
    if json {
        return output::line(json!({
            "from": from,
            "to": to,
            "files": files,
            "directories": dirs,
            "bytes": bytes,
            "copied_files": copied_files,
            "copied_bytes": copied_bytes,
            "continued_bytes": continued_bytes,
            "skipped_files": skipped_files,
            "skipped_bytes": skipped_bytes,
            "extra": extra,
            "set_aside": set_aside,
            "seconds": took.as_secs_f64(),
        }));
    }
    output::line(format_args!(
        "{to} has the {files} files of {from}, {} in {dirs} directories: {copied_files} copied and checked ({}), {skipped_files} equal \
         ones skipped ({}), in {:.1} s",
        megabytes(bytes),
        megabytes(copied_bytes),
        megabytes(skipped_bytes),
        took.as_secs_f64(),
    ))?;
    if continued_bytes > 0 {
        output::line(format_args!("{} of that were left by an earlier copy", megabytes(continued_bytes)))?;
    }
    if !set_aside.is_empty() {
        output::line(format_args!(
            "logs of another state of a database got other names, so that they are not replayed into this one: {}",
            shown(set_aside)
        ))?;
    }
    if !extra.is_empty() {
        output::line(format_args!("{to} also has, left as it is: {}", shown(extra)))?;
    }
    Ok(())
}

fn megabytes(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{bytes} bytes"),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}
