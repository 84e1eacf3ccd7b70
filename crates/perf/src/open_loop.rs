//! One connection in an open loop: IOs are sent at random moments, whether or not earlier ones have completed.
//!
//! Latency counts from the moment at which an IO was due. So if the client or the server stalls, every IO that was due meanwhile
//! shows it.
//!
//! Among the IOs, at random moments too, the client sends a command that takes no device time. So the network round trip is measured
//! in the same run, with the target equally awake and the machine equally busy.

use crate::stream::Stream;
use anyhow::{Result, ensure};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::time::{Duration, Instant};

/// Identifiers of commands: they count up and wrap around.
const IDENTIFIERS: usize = 1 << 16;
/// Bytes received at once.
const RECEIVE: usize = 256 * 1024;
/// IOs per command that takes no device time.
const ASIDE: u32 = 16;
/// Longest wait for the last answers.
const PATIENCE: Duration = Duration::from_secs(20);

/// The result of one run.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Latencies of the IOs.
    pub(crate) ios: Latencies,
    /// Network round trips.
    pub(crate) way: Latencies,
}

/// Latencies, sorted. Never empty.
#[derive(Debug)]
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    fn new(mut latencies: Vec<Duration>) -> Result<Latencies> {
        ensure!(!latencies.is_empty(), "the run was too short: no IO completed");
        latencies.sort_unstable();
        Ok(Latencies(latencies))
    }

    /// All of them, in nanoseconds.
    pub(crate) fn nanos(&self) -> impl Iterator<Item = f64> {
        self.0.iter().map(|latency| latency.as_nanos() as f64)
    }

    /// Nanoseconds.
    pub(crate) fn mean(&self) -> f64 {
        self.nanos().sum::<f64>() / self.0.len() as f64
    }

    /// A percentile, in nanoseconds.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        self.0[(self.0.len() - 1) * percent / 100].as_nanos() as f64
    }
}

/// Sends IOs at `rate` per second, exponentially spaced, for `span`; those due in the first `ramp` do not count.
pub(crate) fn run(
    stream: &mut Stream,
    rate: f64,
    ramp: Duration,
    span: Duration,
    seed: u64,
) -> Result<Outcome> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let with_asides = rate * f64::from(ASIDE + 1) / f64::from(ASIDE);
    let gap = |random: &mut Xoshiro256PlusPlus| {
        // Uniform over (0, 1]: the 53 bits that a float holds.
        let uniform = ((random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        Duration::from_secs_f64(-uniform.ln() / with_asides)
    };
    let began = Instant::now();
    // By identifier: when the command was due, and whether it is an IO.
    let mut asked = vec![(began, true); IDENTIFIERS];
    let (mut ios, mut way) = (Vec::new(), Vec::new());
    let mut buffer = vec![0; RECEIVE];
    let mut next = began + gap(&mut random);
    let end = began + ramp + span;
    loop {
        let now = Instant::now();
        while next <= now && next < end && stream.has_room() {
            let is_io = random.next_u32() % (ASIDE + 1) != 0;
            let id = if is_io { stream.ask() } else { stream.ask_aside() };
            asked[usize::from(id)] = (next, is_io);
            next += gap(&mut random);
        }
        stream.flush()?;
        if stream.receive(&mut buffer)? > 0 {
            let now = Instant::now();
            for &id in stream.ended() {
                let (meant, is_io) = asked[usize::from(id)];
                if meant >= began + ramp {
                    let latencies = if is_io { &mut ios } else { &mut way };
                    latencies.push(now - meant);
                }
            }
        }
        if next >= end && stream.outstanding() == 0 {
            break;
        }
        ensure!(now < end + PATIENCE, "the last answers have not come after {PATIENCE:?}");
    }
    Ok(Outcome { ios: Latencies::new(ios)?, way: Latencies::new(way)? })
}
