//! One connection in an open loop: IOs leave at random moments whether or not earlier ones have come back.
//!
//! Latency counts from the moment at which an IO was meant to leave, so that a client or a server that stalls is charged for
//! everything that would have happened meanwhile.

use crate::stream::Stream;
use anyhow::{Result, ensure};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::time::{Duration, Instant};

/// Identifiers of commands: they count up and wrap around.
const IDENTIFIERS: usize = 1 << 16;
/// Bytes received at once.
const RECEIVE: usize = 256 * 1024;
/// How long the last answers may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Latencies of one run, sorted.
#[derive(Debug)]
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    /// Nanoseconds.
    pub(crate) fn mean(&self) -> f64 {
        self.0.iter().map(|latency| latency.as_nanos() as f64).sum::<f64>() / self.0.len() as f64
    }

    /// Nanoseconds that so many of a hundred stay below.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        self.0[(self.0.len() - 1) * percent / 100].as_nanos() as f64
    }
}

/// Sends IOs at `rate` per second, exponentially spaced, for `span`; those meant for the first `ramp` do not count.
pub(crate) fn run(
    stream: &mut Stream,
    rate: f64,
    ramp: Duration,
    span: Duration,
    seed: u64,
) -> Result<Latencies> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut gap = || {
        // Uniform over (0, 1]: the 53 bits that a float holds.
        let uniform = ((random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        Duration::from_secs_f64(-uniform.ln() / rate)
    };
    let began = Instant::now();
    let mut meant = vec![began; IDENTIFIERS];
    let mut latencies = Vec::new();
    let mut buffer = vec![0; RECEIVE];
    let mut next = began + gap();
    let end = began + ramp + span;
    loop {
        let now = Instant::now();
        while next <= now && next < end && stream.has_room() {
            meant[usize::from(stream.ask())] = next;
            next += gap();
        }
        stream.flush()?;
        if stream.receive(&mut buffer)? > 0 {
            let now = Instant::now();
            let ended = stream.ended().iter().map(|&id| meant[usize::from(id)]);
            latencies.extend(ended.filter(|&meant| meant >= began + ramp).map(|meant| now - meant));
        }
        if next >= end && stream.outstanding() == 0 {
            break;
        }
        ensure!(now < end + PATIENCE, "the last answers have not come after {PATIENCE:?}");
    }
    ensure!(!latencies.is_empty(), "nothing was asked in {span:?}");
    latencies.sort_unstable();
    Ok(Latencies(latencies))
}
