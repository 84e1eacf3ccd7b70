//! `gimbal volume`: volumes on the SSDs of a rack, as the metadata store knows them.

mod copy;
mod mounted;
mod table;

use crate::output;
use crate::rack::StoreArgs;
use anyhow::{Context, Result, bail};
use blob::catalog::{self, VolumeState};
use blob::{Geometry, Report};
use clap::Subcommand;
use std::path::PathBuf;
use std::process::ExitCode;
use units::{Bytes, Nanos};

/// Arguments of `gimbal volume`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: VolumeCommand,
}

#[derive(Subcommand)]
enum VolumeCommand {
    /// Create a volume on two live SSDs of different targets
    Create {
        #[command(flatten)]
        store: StoreArgs,
        /// Name of the volume: letters, digits, '-', '_' and '.'
        name: String,
        /// Bytes of a mega blob, the piece of an SSD that a volume takes at a time; must be that of the SSDs
        #[arg(long, default_value = "4G")]
        mega: Bytes,
        /// Bytes of a micro blob, the piece that a file takes at a time
        #[arg(long, default_value = "256K")]
        micro: Bytes,
        /// Bytes of a block; at least the logical block of the SSDs
        #[arg(long, default_value = "4K")]
        block: Bytes,
        /// Slots for metadata in a mega blob; each mount uses the next one
        #[arg(long, default_value_t = Geometry::default().slots)]
        slots: u32,
    },
    /// List the volumes
    List {
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Show a volume: the client that has mounted it, and the place of its space
    Show {
        #[command(flatten)]
        store: StoreArgs,
        /// Name of the volume
        name: String,
    },
    /// Remove a volume that no client has mounted, with everything in it
    Rm {
        #[command(flatten)]
        store: StoreArgs,
        /// Name of the volume
        name: String,
    },
    /// Copy a directory of this machine into a volume, checked; run again, it goes on where it ended
    Import {
        #[command(flatten)]
        options: copy::Options,
        /// Name of the volume
        name: String,
        /// The directory; its files must not change meanwhile
        local_dir: PathBuf,
        /// The directory in the volume that gets the same files, such as /db; made if there is none
        path: String,
    },
    /// Copy a directory of a volume to this machine, checked; run again, it goes on where it ended
    Export {
        #[command(flatten)]
        options: copy::Options,
        /// Name of the volume
        name: String,
        /// The directory in the volume, such as /db
        path: String,
        /// The directory that gets the same files: a new or empty one, or one that an earlier export has left
        local_dir: PathBuf,
    },
    /// Check every copy of every block, and repair; the volume must not be mounted
    Scrub {
        #[command(flatten)]
        store: StoreArgs,
        #[command(flatten)]
        access: mounted::Access,
        /// Name of the volume
        name: String,
    },
    /// Make every copy again that is missing or stale; the volume must not be mounted
    Repair {
        #[command(flatten)]
        store: StoreArgs,
        #[command(flatten)]
        access: mounted::Access,
        /// Name of the volume
        name: String,
        /// Also replace every copy on an SSD that cannot be reached now, as if it were lost: on a third target
        #[arg(long)]
        unreachable: bool,
    },
}

fn small(what: &str, size: Bytes) -> Result<u32> {
    u32::try_from(size.0).ok().with_context(|| format!("--{what}: less than 4 GiB"))
}

fn find(all: Vec<VolumeState>, name: &str) -> Result<VolumeState> {
    let found = all.into_iter().find(|volume| volume.name == name);
    found.with_context(|| format!("there is no volume {name}; see `gimbal volume list`"))
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        VolumeCommand::Create { store, name, mega, micro, block, slots } => {
            let geometry = Geometry {
                mega: mega.0,
                micro: small("micro", micro)?,
                block: small("block", block)?,
                slots,
            };
            geometry.check()?;
            let record = catalog::create(&mut *store.open()?, &name, geometry)
                .with_context(|| format!("volume {name} was not created"))?;
            let ssds: Vec<String> = record.meta.iter().map(|mega| mega.ssd.to_string()).collect();
            output::line(format_args!("created {name}; its metadata is on {}", ssds.join(" and ")))?;
        }
        VolumeCommand::List { store } => {
            output::line(table::volumes(&catalog::volumes(&mut *store.open()?)?))?
        }
        VolumeCommand::Show { store, name } => {
            let mut store = store.open()?;
            let volume = find(catalog::volumes(&mut *store)?, &name)?;
            output::print(&table::volume(&volume, &catalog::ssds(&mut *store)?))?;
        }
        VolumeCommand::Rm { store, name } => {
            catalog::remove(&mut *store.open()?, &name)
                .with_context(|| format!("volume {name} was not removed"))?;
            output::line(format_args!("removed {name}"))?;
        }
        VolumeCommand::Import { options, name, local_dir, path } => {
            return copy::run(&options, copy::Direction::Import, &name, &local_dir, &path);
        }
        VolumeCommand::Export { options, name, path, local_dir } => {
            return copy::run(&options, copy::Direction::Export, &name, &local_dir, &path);
        }
        VolumeCommand::Scrub { store, access, name } => {
            return verdict(mounted::with(&store, &access, mounted::settings(&name), blob::Request::Scrub)?);
        }
        VolumeCommand::Repair { store, access, name, unreachable } => {
            let mut settings = mounted::settings(&name);
            if unreachable {
                settings.away_max = Nanos::ZERO;
            }
            return verdict(mounted::with(&store, &access, settings, blob::Request::Repair)?);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the report; fails unless everything has two good copies now.
fn verdict(report: Report) -> Result<ExitCode> {
    let Report { checked, corrupt, repaired, left, lost, away } = report;
    output::line(format_args!("{checked} blocks checked, {corrupt} corrupt; {repaired} copies made anew"))?;
    if away > 0 {
        output::line(format_args!(
            "{away} micro blobs have a copy on SSDs that cannot be reached now (`gimbal targets`), which counts as good; if they are gone for \
             good, `gimbal volume repair --unreachable` makes these copies anew on a third target"
        ))?;
    }
    if lost > 0 {
        bail!("{lost} micro blobs have no good copy left; reads of what was in them fail");
    }
    if left > 0 {
        bail!(
            "{left} micro blobs, the metadata counted as one, still have one copy only: their targets are away or full (`gimbal \
             targets`)"
        );
    }
    Ok(ExitCode::SUCCESS)
}
