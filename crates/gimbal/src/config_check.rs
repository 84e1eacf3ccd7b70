//! `gimbal config check FILE`: finds the problems of a configuration before it is used.

use crate::output;
use clap::Subcommand;
use server::config::Config;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `gimbal config`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Report every problem of a file, with its line; starts nothing and opens no device
    Check {
        /// The configuration file
        file: PathBuf,
    },
}

/// Prints one line per problem on stderr. If the file is valid, prints a summary on stdout, and warnings on stderr.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let ConfigCommand::Check { file } = args.command;
    match Config::load(&file) {
        Ok(config) => {
            config
                .warnings()
                .iter()
                .for_each(|warning| output::note(format_args!("{}: warning: {warning}", file.display())));
            let namespaces: usize =
                config.subsystems.iter().map(|subsystem| subsystem.namespaces.len()).sum();
            output::line(format_args!(
                "{}: valid ({} devices, {} subsystems, {namespaces} namespaces)",
                file.display(),
                config.devices.len(),
                config.subsystems.len(),
            ))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            output::note(error);
            Ok(ExitCode::FAILURE)
        }
    }
}
