//! A device with secrets: some servers that work in parallel, and a write buffer with a rule of its own for recovery.

use probe::{Completion, Device, Io, IoKind};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::convert::Infallible;
use units::{Instant, MIB, Nanos};

/// Recovery of the write buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Recovery {
    /// After `wait` without an IO, at a steady rate.
    Linear { wait_s: f64, bytes_per_s: f64 },
    /// All of it after `wait` without an IO.
    AtOnce { wait_s: f64 },
    /// After `wait` without an IO, ever more slowly.
    Exponential { wait_s: f64, tau_s: f64 },
    /// Always, also under load. A full buffer takes writes at this rate.
    Always { bytes_per_s: f64 },
    /// There is no buffer to exhaust.
    None,
}

/// The findings to expect.
pub(crate) struct Truth {
    pub(crate) buffer_mib: f64,
    pub(crate) recovery_ms: f64,
}

#[derive(Debug)]
pub(crate) struct Hidden {
    recovery: Recovery,
    buffer: f64,
    /// Service time of an IO: fixed part, and seconds per byte.
    read: (f64, f64),
    write: (f64, f64),
    /// A write beyond the buffer takes this many times as long.
    slower: f64,
    latency: f64,
    jitter: f64,
    state: State,
}

struct State {
    random: Xoshiro256PlusPlus,
    now: Instant,
    /// When each server is free, in nanoseconds.
    servers: Vec<u64>,
    completions: BinaryHeap<Reverse<(u64, u64)>>,
    /// Bytes in the buffer, and when that was so.
    used: f64,
    at: u64,
    last_completion: u64,
    written: u64,
    /// Writes that found no room.
    slow_writes: u64,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} servers, {} bytes written", self.servers.len(), self.written)
    }
}

fn between(random: &mut Xoshiro256PlusPlus, low: f64, high: f64) -> f64 {
    low + (high - low) * (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Small and large values are equally likely.
fn scaled(random: &mut Xoshiro256PlusPlus, low: f64, high: f64) -> f64 {
    between(random, low.ln(), high.ln()).exp()
}

impl Hidden {
    pub(crate) fn drawn(seed: u64) -> Hidden {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let r = &mut random;
        let servers = 4 + r.next_u64() as usize % 13;
        let buffer = scaled(r, 192.0, 4096.0) * MIB as f64;
        let write_rate = scaled(r, 500e6, 3000e6);
        let whole_write = servers as f64 * 131_072.0 / write_rate;
        let fixed = between(r, 0.02, 0.2);
        let write = (fixed * whole_write, (1.0 - fixed) * whole_write / 131_072.0);
        let read_fixed = scaled(r, 20e-6, 90e-6);
        let read = (read_fixed, between(r, 0.02, 0.2) * read_fixed / 4096.0);
        let slower = scaled(r, 2.0, 8.0);
        let wait_s = scaled(r, 0.01, 2.0);
        let recovery = match r.next_u64() % 4 {
            0 => Recovery::Linear { wait_s, bytes_per_s: buffer / scaled(r, 0.2, 20.0) },
            1 => Recovery::AtOnce { wait_s: scaled(r, 0.02, 20.0) },
            2 => Recovery::Exponential { wait_s, tau_s: scaled(r, 0.1, 5.0) },
            _ => Recovery::Always { bytes_per_s: write_rate / slower },
        };
        let latency = between(r, 5e-6, 30e-6);
        let jitter = between(r, 0.0, 0.15);
        let state = State {
            random,
            now: Instant::ZERO,
            servers: vec![0; servers],
            completions: BinaryHeap::new(),
            used: 0.0,
            at: 0,
            last_completion: 0,
            written: 0,
            slow_writes: 0,
        };
        Hidden { recovery, buffer, read, write, slower, latency, jitter, state }
    }

    pub(crate) fn with_recovery(self, recovery: Recovery) -> Hidden {
        Hidden { recovery, ..self }
    }

    pub(crate) fn recovery(&self) -> Recovery {
        self.recovery
    }

    pub(crate) fn truth(&self) -> Truth {
        let recovery_s = match self.recovery {
            Recovery::Linear { wait_s, bytes_per_s } => wait_s + 0.9 * self.buffer / bytes_per_s,
            Recovery::AtOnce { wait_s } => wait_s,
            Recovery::Exponential { wait_s, tau_s } => wait_s + tau_s * 10f64.ln(),
            Recovery::Always { bytes_per_s } => 0.9 * self.buffer / bytes_per_s,
            Recovery::None => f64::NAN,
        };
        Truth { buffer_mib: self.buffer / MIB as f64, recovery_ms: recovery_s * 1e3 }
    }

    /// The device's time for an IO of this size, with room in the buffer, when all servers work.
    pub(crate) fn cost_ns(&self, is_write: bool, bytes: u32) -> f64 {
        let (fixed, per_byte) = if is_write { self.write } else { self.read };
        (fixed + per_byte * f64::from(bytes)) * 1e9 / self.state.servers.len() as f64
    }

    pub(crate) fn written(&self) -> u64 {
        self.state.written
    }

    /// Bytes that can still be written fast, if an IO starts now.
    pub(crate) fn remaining(&self) -> f64 {
        (self.buffer - self.state.used).max(0.0)
    }

    /// Writes so far that found no room.
    pub(crate) fn slow_writes(&self) -> u64 {
        self.state.slow_writes
    }

    /// Bytes of the buffer.
    pub(crate) fn buffer(&self) -> f64 {
        self.buffer
    }

    pub(crate) fn elapsed(&self) -> Nanos {
        self.state.now.since(Instant::ZERO)
    }

    /// No IO was under way for this long.
    fn recover(&mut self, idle_s: f64) {
        let used = &mut self.state.used;
        match self.recovery {
            Recovery::Linear { wait_s, bytes_per_s } => *used -= bytes_per_s * (idle_s - wait_s).max(0.0),
            Recovery::AtOnce { wait_s } if idle_s >= wait_s => *used = 0.0,
            Recovery::Exponential { wait_s, tau_s } => *used *= (-(idle_s - wait_s).max(0.0) / tau_s).exp(),
            Recovery::AtOnce { .. } | Recovery::Always { .. } | Recovery::None => {}
        }
        *used = used.max(0.0);
    }

    /// Seconds that a server needs for a write that starts at `start`.
    fn write_s(&mut self, start: u64, bytes: f64) -> f64 {
        let alone = self.write.0 + self.write.1 * bytes;
        let state = &mut self.state;
        let passed = start.saturating_sub(state.at) as f64 / 1e9;
        state.at = state.at.max(start);
        match self.recovery {
            Recovery::None => alone,
            Recovery::Always { bytes_per_s } => {
                state.used = (state.used - bytes_per_s * passed).max(0.0) + bytes;
                state.slow_writes += u64::from(state.used > self.buffer);
                alone.max((state.used - self.buffer) / bytes_per_s)
            }
            _ if state.used + bytes <= self.buffer => {
                state.used += bytes;
                alone
            }
            _ => {
                state.slow_writes += 1;
                alone * self.slower
            }
        }
    }
}

impl Device for Hidden {
    type Error = Infallible;

    fn now(&self) -> Instant {
        self.state.now
    }

    fn submit(&mut self, io: Io) -> Result<(), Infallible> {
        let now = self.state.now.0;
        if self.state.completions.is_empty() {
            self.recover(now.saturating_sub(self.state.last_completion) as f64 / 1e9);
        }
        let server =
            (0..self.state.servers.len()).min_by_key(|&server| self.state.servers[server]).expect("some");
        let start = now.max(self.state.servers[server]);
        let service_s = match io.kind {
            IoKind::Read => self.read.0 + self.read.1 * f64::from(io.length),
            IoKind::Write => {
                self.state.written += u64::from(io.length);
                self.write_s(start, f64::from(io.length))
            }
        };
        let service_s = service_s * between(&mut self.state.random, 1.0 - self.jitter, 1.0 + self.jitter);
        let free = start + (service_s * 1e9) as u64;
        self.state.servers[server] = free;
        self.state.completions.push(Reverse((free + (self.latency * 1e9) as u64, io.tag)));
        Ok(())
    }

    fn wait(&mut self, until: Option<Instant>, done: &mut Vec<Completion>) -> Result<(), Infallible> {
        let state = &mut self.state;
        match (state.completions.peek(), until) {
            (Some(&Reverse((at, tag))), until) if until.is_none_or(|until| at <= until.0) => {
                state.completions.pop();
                state.last_completion = at;
                state.now = Instant(at);
                done.push(Completion { tag, at: state.now });
            }
            (_, Some(until)) => state.now = until,
            (_, None) => panic!("waits for an IO, but none is under way"),
        }
        Ok(())
    }
}
