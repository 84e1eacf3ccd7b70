//! The cost of being looked at: a scrape of all metrics every second.
//!
//! Two targets that know the same thousand tenants, one of which is scraped. A turn is long enough for several scrapes, which use the core that the SSD's thread is
//! on.

use crate::client::{Client, Tally};
use crate::contest::{KIB_4, alternate, median, ratios};
use crate::measure::{Bench, Goal, Line, Measure, Reading};
use crate::server::{Server, Settings};
use anyhow::{Context, Result, anyhow, ensure};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// See the module.
pub(crate) const SCRAPE: Measure = Measure {
    lines: &[Line::ratio("scrape_cost", Goal::AtLeast(0.99))],
    about: "IOPS of 4 KiB reads, QD 32, null device, 1,000 tenants: with a scrape a second / without",
    disturbed: true,
    run: scrape_cost,
};

/// Tenants that each target knows. Each does its reads once, and goes.
const TENANTS: u16 = 1000;
/// Time from one scrape to the next.
const INTERVAL: Duration = Duration::from_secs(1);
/// A turn: three scrapes.
const TURN: Duration = Duration::from_secs(3);
/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Everything that was scraped.
#[derive(Default)]
struct Scrapes {
    count: u32,
    bytes: u64,
    took: Duration,
}

fn scrape_cost(bench: &Bench) -> Result<Vec<Reading>> {
    let sockets = ["scraped", "left"].map(|name| bench.folder.join(format!("{name}-{}", std::process::id())));
    let servers = [target(bench, &sockets[0])?, target(bench, &sockets[1])?];
    for server in &servers {
        for host in 1..=TENANTS {
            Client::of_host(server, host, 1, KIB_4)?.use_once()?;
        }
    }
    let clients = servers.iter().map(|server| Client::of_target(server, 1, KIB_4));
    let mut clients = clients.collect::<Result<Vec<_>>>()?;
    let (end, until) = channel();
    let path = sockets[0].clone();
    let scraper = thread::spawn(move || scrape_until(&path, &until));
    let tallies = alternate(bench, TURN, &mut clients);
    drop(end);
    let scrapes = scraper.join().map_err(|_| anyhow!("the scraping thread has panicked"))??;
    let tallies = tallies?;
    ensure!(scrapes.count > 1, "there was no time for scrapes");
    let detail = format!(
        "{:.0}k and {:.0}k IOPS; {} scrapes of {:.2} MB, {:.0} ms each",
        median(&tallies[0], Tally::iops) / 1e3,
        median(&tallies[1], Tally::iops) / 1e3,
        scrapes.count,
        scrapes.bytes as f64 / f64::from(scrapes.count) / 1e6,
        scrapes.took.as_secs_f64() * 1e3 / f64::from(scrapes.count),
    );
    Ok(vec![Reading::new(ratios(&tallies[0], &tallies[1], Tally::iops), detail)])
}

fn target(bench: &Bench, socket: &PathBuf) -> Result<Server> {
    let tables = format!("[admin]\nsocket = {socket:?}\n");
    bench.programs.null_target_with(bench.cores, &bench.folder, &Settings { top: "", tables: &tables })
}

/// Scrapes once every [`INTERVAL`] until the other end is dropped.
fn scrape_until(socket: &Path, until: &Receiver<()>) -> Result<Scrapes> {
    let mut scrapes = Scrapes::default();
    loop {
        let began = Instant::now();
        scrapes.bytes += scrape(socket).context("a scrape")?;
        let took = began.elapsed();
        scrapes.took += took;
        scrapes.count += 1;
        match until.recv_timeout(INTERVAL.saturating_sub(took)) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(scrapes),
        }
    }
}

/// Reads all metrics, and returns their size.
fn scrape(socket: &Path) -> Result<u64> {
    let mut stream = UnixStream::connect(socket).with_context(|| socket.display().to_string())?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    ensure!(answer.starts_with(b"HTTP/1.1 200 "), "the target refuses it");
    Ok(answer.len() as u64)
}
