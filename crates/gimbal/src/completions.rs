//! `gimbal completions SHELL`.

use crate::{Cli, output};
use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;
use std::process::ExitCode;

/// Arguments of `gimbal completions`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

/// Prints the script, which the user's shell sources.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    // Into memory first, because the generator panics if it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "gimbal", &mut script);
    output::print(&String::from_utf8(script).context("the script is not text")?)?;
    Ok(ExitCode::SUCCESS)
}
