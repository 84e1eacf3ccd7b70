//! `gimbal top`: what the SSDs and tenants of a running target do, on the terminal, once a second.
//!
//! It reads `/v1/events` on the admin socket. `--once` prints one second as a table, `--json` as JSON; both work without a terminal.
//!
//! Elsewhere: `sight` takes the numbers out of the events, `screen` draws them.

mod screen;
mod sight;
#[cfg(test)]
mod tests;

use crate::output;
use admin::{Client, ClientError, default_socket};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use serde_json::Value;
use sight::Sight;
use std::io::{IsTerminal, stdout};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::Duration;

/// The exit code when the target cannot be reached, or ends.
const NOT_REACHABLE: u8 = 3;
const ENDED: &str = "the target has ended";
/// Time between two looks at the keyboard and at what has come.
const LOOK: Duration = Duration::from_millis(100);

/// Arguments of `gimbal top`.
#[derive(clap::Args)]
#[command(after_help = "Keys:
  d     next device        s  next order of tenants     /  show only tenants with this text in their name
  p     pause, go on       q  end

Examples:
  gimbal top
  gimbal top --once --sort wait
  gimbal top --json")]
pub(crate) struct Args {
    /// The admin socket of the target [default: that of a target of the same user]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print the next second as a table, and end
    #[arg(long)]
    once: bool,
    /// Print the next second as JSON, and end: the fields of docs/metrics.md
    #[arg(long, conflicts_with = "once")]
    json: bool,
    /// Order of the tenants
    #[arg(long, value_enum, default_value = "bytes")]
    sort: Sort,
}

/// An order of tenants, greatest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sort {
    /// Bytes moved in the last second.
    Bytes,
    /// The 99th percentile of latency.
    P99,
    /// Part of the time in which something waited.
    Wait,
    /// Name.
    Host,
}

/// Shows what a target does.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let socket = args.socket.clone().or_else(|| default_socket(None));
    let client = Client::new(&socket.context("no admin socket is known for this user; give --socket PATH")?);
    if args.once || args.json {
        return once(&client, args);
    }
    if !stdout().is_terminal() {
        bail!(
            "this is not a terminal: use `gimbal top --once` for a table, `gimbal top --json` for a program"
        );
    }
    let (sender, events) = channel();
    let follow = move || {
        let ended = client.follow("/v1/events", |event| match sender.send(Ok(event)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        });
        // If this fails, the screen is gone already.
        let _ = sender.send(Err(ended.err()));
    };
    thread::Builder::new().name("events".to_owned()).spawn(follow).context("cannot start a thread")?;
    let mut terminal = ratatui::try_init().context("cannot use the terminal; use --once")?;
    let ended = watch(&mut terminal, &events, args.sort);
    ratatui::restore();
    ended
}

/// Shows events until the user or the target ends it.
fn watch(
    terminal: &mut ratatui::DefaultTerminal,
    events: &Receiver<Result<Value, Option<ClientError>>>,
    sort: Sort,
) -> Result<ExitCode> {
    let mut screen = screen::Screen::new(sort);
    loop {
        match events.try_recv() {
            Ok(Ok(event)) => {
                if !screen.is_paused {
                    screen.sight = Some(Sight::of(&event));
                }
            }
            Ok(Err(Some(error))) => {
                ratatui::restore();
                output::note(format_args!("gimbal: {error}"));
                return Ok(ExitCode::from(NOT_REACHABLE));
            }
            Ok(Err(None)) | Err(TryRecvError::Disconnected) => {
                ratatui::restore();
                output::note(format_args!("gimbal: {ENDED}"));
                return Ok(ExitCode::from(NOT_REACHABLE));
            }
            Err(TryRecvError::Empty) => {}
        }
        terminal.draw(|frame| screen.draw(frame)).context("cannot draw on the terminal")?;
        if !event::poll(LOOK).context("cannot read the keyboard")? {
            continue;
        }
        if let Event::Key(key) = event::read().context("cannot read the keyboard")?
            && key.kind == KeyEventKind::Press
        {
            let is_interrupt =
                key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
            if is_interrupt || screen.on_key(key.code).is_break() {
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
}

/// Prints one second.
fn once(client: &Client, args: &Args) -> Result<ExitCode> {
    // The first event has no rates: it ends when the client comes.
    let mut is_first = true;
    let mut printed = Ok(());
    let mut is_done = false;
    let ended = client.follow("/v1/events", |event| {
        if std::mem::take(&mut is_first) {
            return ControlFlow::Continue(());
        }
        is_done = true;
        printed = output::print(&if args.json {
            format!("{event}\n")
        } else {
            screen::table(&Sight::of(&event), args.sort)
        });
        ControlFlow::Break(())
    });
    printed?;
    match ended {
        Ok(()) if is_done => Ok(ExitCode::SUCCESS),
        Ok(()) => {
            output::note(format_args!("gimbal: {ENDED}"));
            Ok(ExitCode::from(NOT_REACHABLE))
        }
        Err(error) => {
            output::note(format_args!("gimbal: {error}"));
            Ok(ExitCode::from(NOT_REACHABLE))
        }
    }
}
