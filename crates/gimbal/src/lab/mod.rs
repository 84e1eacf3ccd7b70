//! `gimbal lab`: schedulers side by side in virtual time, compared with the papers' claims and our goals.
//!
//! The work is done by the crate `lab`; this module has the command line and the output on a terminal.

mod calibrate;
mod imitate;
mod judge;
mod list;
mod live;
mod progress;
mod report;
mod rocksdb;
mod run;
mod scale;
mod select;
mod sensitivity;
mod tables;

use anyhow::Result;
use clap::Subcommand;
use std::process::ExitCode;

/// Arguments of `gimbal lab`.
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure what ReFlex, FlashFQ, PARDA and level must know of an SSD
    Calibrate(calibrate::Args),
    /// Make a simulated SSD like the device of a profile (`gimbal ssdtest` writes one)
    Imitate(imitate::Args),
    /// Judge a scheduler on SSDs and mixes drawn at random, without a calibration
    Judge(judge::Args),
    /// Show the experiments that come with the lab
    List(list::Args),
    /// Run experiments and show the results
    Run(run::Args),
    /// Run experiments and show which of the papers' claims and our goals hold here
    Claims(run::ClaimsArgs),
    /// Run experiments and write a page with claims, figures and numbers
    Report(report::Args),
    /// Run databases on the SSDs of a rack in virtual time, as the Gimbal paper does
    Rocksdb(Box<rocksdb::Args>),
    /// Show on how many SSDs that could be the papers' one each claim holds
    Sensitivity(sensitivity::Args),
    /// Measure how many IOs are simulated per second, and how this number changes as tenants are added
    Scale(scale::Args),
}

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Imitate(args) => imitate::run(&args),
        Command::Judge(args) => judge::run(&args),
        Command::List(args) => list::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Claims(args) => run::claims(&args),
        Command::Report(args) => report::run(&args),
        Command::Rocksdb(args) => rocksdb::run(&args),
        Command::Sensitivity(args) => sensitivity::run(&args),
        Command::Scale(args) => scale::run(&args),
    }
}
