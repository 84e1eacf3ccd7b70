//! The dashboard of the switch of the demo (`--watch`): one page for all runs, which goes on with the switch of the next run.

use super::scenario::TENANTS;
use crate::output;
use crate::serve::LISTING_WAIT;
use admin::{Board, Document, Doors, Order, Refusal, Service, Source};
use anyhow::{Context, Result};
use server::{KeyUse, Listing, Remote, Room, SlowIos, Snapshot, SnapshotError, Stats, TakeoverError};
use std::env;
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use units::Instant;

/// See the module. The page ends with it.
pub(super) struct Page {
    shown: Arc<Shown>,
    _service: Service,
}

/// The switch that runs.
#[derive(Default)]
struct Shown(Mutex<Option<Remote>>);

impl Page {
    /// Serves the page, and opens it in a browser if there is a desktop.
    pub(super) fn open(address: SocketAddr) -> Result<Page> {
        let listener =
            TcpListener::bind(address).with_context(|| format!("--watch: cannot listen at {address}"))?;
        let url = format!("http://{}/", listener.local_addr()?);
        let shown = Arc::new(Shown::default());
        let doors = Doors { socket: None, guarded: None, open: Some(listener) };
        let board = Arc::new(Board::new(None, Document::new(String::new())));
        let source: Arc<dyn Source> = Arc::clone(&shown) as Arc<dyn Source>;
        let service = Service::start(doors, source, board, TENANTS.len())
            .context("cannot start the thread of the dashboard")?;
        output::note(format_args!("dashboard: {url}"));
        if ["DISPLAY", "WAYLAND_DISPLAY"].into_iter().any(|name| env::var_os(name).is_some()) {
            let mut browser = Command::new("xdg-open");
            browser.arg(&url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            if browser.spawn().is_err() {
                output::note("there is no xdg-open to open it with");
            }
        }
        Ok(Page { shown, _service: service })
    }

    /// Goes on with another switch.
    pub(super) fn show(&self, switch: Remote) {
        *self.shown.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(switch);
    }
}

impl Shown {
    fn switch(&self) -> Option<Remote> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Source for Shown {
    fn stats(&self) -> Stats {
        self.switch().map_or_else(Stats::default, |switch| switch.stats())
    }

    fn slow_ios(&self) -> SlowIos {
        let nothing = || SlowIos { at: Instant::ZERO, ssds: Vec::new() };
        self.switch().map_or_else(nothing, |switch| switch.slow_ios())
    }

    fn key_uses(&self, host: &str) -> Option<Vec<KeyUse>> {
        self.switch()?.key_uses(host)
    }

    fn connections(&self) -> Listing {
        self.switch().map_or_else(Listing::default, |switch| switch.connections(LISTING_WAIT))
    }

    /// Nobody can ask for them: the demo has no directory.
    fn snapshots(&self, _device: &str) -> Result<Vec<Snapshot>, SnapshotError> {
        Ok(Vec::new())
    }

    fn room(&self, device: &str) -> Result<Room, SnapshotError> {
        Err(SnapshotError::NoDevice(device.to_owned()))
    }

    fn takeover(&self, group: &str) -> Result<Option<u64>, TakeoverError> {
        Err(TakeoverError::NoGroup(group.to_owned()))
    }

    /// Nobody can ask for it: the page is for who looks.
    fn drain(&self, _is_drained: bool) {}

    fn ask(&self, _order: Order) -> Result<(), Refusal> {
        Err(Refusal::new(409, "the demo has no configuration that can change"))
    }
}
