//! The `gimbal` command: one module per subcommand, and nothing else here.

#![warn(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "commands print through `output`, which outlives a closed pipe"
)]

mod address;
mod bench;
mod beside;
mod completions;
mod config;
mod control;
mod ctl;
mod demo;
mod doors;
mod host_keys;
mod interrupt;
mod key;
mod lab;
mod log_writer;
mod loopback;
mod machine;
mod manual;
mod notify;
mod output;
mod rack;
mod reach;
mod registration;
mod rotate;
mod running;
mod serve;
mod serve_flags;
mod ssdtest;
mod state;
mod state_dir;
mod statistics;
mod targets;
mod top;
mod trace;
mod transport_flag;
mod volume;
mod watchdog;

use clap::{Parser, Subcommand};
use std::io::ErrorKind;
use std::process::ExitCode;

/// Shares NVMe SSDs among many tenants over NVMe/TCP. Each tenant gets its fair share and a short latency tail.
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
    /// Generate load on a target and measure it
    Bench(Box<bench::Args>),
    /// Show fairness and tail latency with and without the switch; needs no set-up and no SSD
    Demo(demo::Args),
    /// Compare schedulers in virtual time, and check the claims of the papers
    Lab(lab::Args),
    /// Run the target: share SSDs over NVMe/TCP
    Serve(Box<serve::Args>),
    /// Probe an SSD from the outside and record its performance as a profile; destroys its data
    Ssdtest(Box<ssdtest::Args>),
    /// Create, list, fill, check and remove volumes: files on the SSDs of several targets
    Volume(volume::Args),
    /// List the SSDs that the targets of a rack have registered
    Targets(targets::Args),
    /// Check a configuration file of the target
    Config(config::Args),
    /// Check and show the state directory: reservations, logs, wipes to be done, learnt models
    State(state::Args),
    /// Look at a running target and change it, by its admin socket
    Ctl(ctl::Args),
    /// Show what the SSDs and tenants of a running target do
    Top(top::Args),
    /// Show the slowest IOs of a running target, and what each of them waited for
    Trace(trace::Args),
    /// Make, show, check and rotate the keys with which hosts and controllers authenticate
    Key(key::Args),
    /// Print a completion script for a shell
    Completions(completions::Args),
    /// Write the pages of the manual, one for each command
    Manual(manual::Args),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(shown) => return explain(&shown),
    };
    let outcome = match cli.command {
        Command::Bench(args) => bench::run_command(*args),
        Command::Demo(args) => demo::run(args),
        Command::Lab(args) => lab::run(args),
        Command::Serve(args) => serve::run(*args),
        Command::Ssdtest(args) => ssdtest::run(*args),
        Command::Volume(args) => volume::run(args),
        Command::Targets(args) => targets::run(args),
        Command::Config(args) => config::run(args),
        Command::State(args) => state::run(args),
        Command::Ctl(args) => ctl::run(args),
        Command::Top(args) => top::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Key(args) => key::run(args),
        Command::Completions(args) => completions::run(args),
        Command::Manual(args) => manual::run(args),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            output::note(format_args!("gimbal: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Shows the help, the version, or the problem of the arguments.
fn explain(shown: &clap::Error) -> ExitCode {
    match shown.print() {
        // In other cases the reader has closed the pipe, or there is no standard error to report to.
        Err(error) if !shown.use_stderr() && error.kind() != ErrorKind::BrokenPipe => {
            output::note(format_args!("gimbal: standard output cannot be written: {error}"));
            ExitCode::FAILURE
        }
        _ => ExitCode::from(u8::try_from(shown.exit_code()).expect("clap ends with 0 or 2")),
    }
}
