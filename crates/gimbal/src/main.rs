//! The `gimbal` command: one module per subcommand, and nothing else here.

mod bench;
mod completions;
mod config_check;
mod demo;
mod lab;
mod loopback;
mod notify;
mod serve;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Shares NVMe SSDs among many tenants over NVMe/TCP, so that each gets its fair share and a short latency tail.
#[derive(Parser)]
#[command(
    name = "gimbal",
    version,
    about,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Load a target and measure it
    Bench(Box<bench::Args>),
    /// Show fairness and tails with and without the switch: no set-up, no SSD
    Demo(demo::Args),
    /// Compare schedulers in virtual time, and hold the papers' claims against them
    Lab(lab::Args),
    /// Share SSDs: the target
    Serve(Box<serve::Args>),
    /// Look at configurations of the target
    Config(config_check::Args),
    /// Print completions for a shell
    Completions(completions::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Bench(args) => bench::run_command(*args),
        Command::Demo(args) => demo::run(args),
        Command::Lab(args) => lab::run(args),
        Command::Serve(args) => serve::run(*args),
        Command::Config(args) => config_check::run(args),
        Command::Completions(args) => completions::run(args),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("gimbal: {error:#}");
            ExitCode::FAILURE
        }
    }
}
