//! `gimbal completions SHELL`.

use crate::Cli;
use clap::CommandFactory;
use clap_complete::Shell;
use std::io;
use std::process::ExitCode;

/// Arguments of `gimbal completions`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which shell
    shell: Shell,
}

/// Prints the script to source.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    clap_complete::generate(args.shell, &mut Cli::command(), "gimbal", &mut io::stdout());
    Ok(ExitCode::SUCCESS)
}
