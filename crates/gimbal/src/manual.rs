//! `gimbal manual DIRECTORY`: a page of the manual for the program and for each of its commands, from their help.

use crate::Cli;
use anyhow::Context;
use clap::CommandFactory;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `gimbal manual`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The directory, which is made if it is not there
    directory: PathBuf,
}

/// Writes the pages: `gimbal.1`, `gimbal-serve.1`, `gimbal-ctl-get.1`, …
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let failed = || format!("{} cannot be written", args.directory.display());
    fs::create_dir_all(&args.directory).with_context(failed)?;
    // `help` prints what the pages have.
    let command = Cli::command().disable_help_subcommand(true);
    clap_mangen::generate_to(command, &args.directory).with_context(failed)?;
    Ok(ExitCode::SUCCESS)
}
