//! Speed of the SSD model: simulated 4 KiB random reads per second of CPU time.
//!
//! Closed loops on a clean device, at the depth that the switch keeps and at a depth that saturates the device. The value is the
//! slower one.

use crate::machine::thread_time;
use crate::measure::{Bench, Goal, Line, Measure, Reading};
use crate::rounds::Rounds;
use anyhow::Result;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use ssd::{Command, CommandKind, Condition, Image, Profile, Ssd};
use std::collections::VecDeque;
use units::{Instant, Nanos};

/// The line.
pub(crate) const READS: Measure = Measure {
    lines: &[Line { name: "sim_reads_per_s", unit: "1/s", goal: Goal::AtLeast(5e6) }],
    about: "simulated 4 KiB random reads per second of CPU time",
    disturbed: true,
    run: reads,
};

/// Commands outstanding.
const DEPTHS: [u32; 2] = [32, 256];
/// Time from a completion to the next command of the same loop.
const HOST_TURN: Nanos = Nanos::micros(18);
/// Virtual time of one turn.
const SPAN: Nanos = Nanos::millis(1500);
const SEED: u64 = 1;

fn reads(bench: &Bench) -> Result<Vec<Reading>> {
    let image = Image::new(&Profile::default(), Condition::Clean, SEED);
    let mut rates = DEPTHS.map(|_| Vec::new());
    for _ in 0..bench.rounds {
        for (rates, depth) in rates.iter_mut().zip(DEPTHS) {
            let mut ssd = Ssd::from_image(&image);
            let began = thread_time();
            let done = closed_loop(&mut ssd, depth);
            rates.push(done as f64 / (thread_time() - began).as_secs_f64());
        }
    }
    let rates = rates.map(Rounds::new);
    let detail: Vec<String> = rates
        .iter()
        .zip(DEPTHS)
        .map(|(rates, depth)| format!("QD {depth} {:.2}M", rates.median() / 1e6))
        .collect();
    let slower =
        rates.into_iter().min_by(|a, b| a.median().total_cmp(&b.median())).expect("there are depths");
    Ok(vec![Reading::new(slower, detail.join(", "))])
}

/// Keeps `depth` reads outstanding for `SPAN`, and returns how many completed.
fn closed_loop(ssd: &mut Ssd, depth: u32) -> u64 {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let mut due: VecDeque<Instant> = (0..depth).map(|n| Instant(u64::from(n) * 100)).collect();
    let mut now = Instant::ZERO;
    let mut done = 0;
    while now < Instant::ZERO + SPAN {
        now = due.front().copied().or(ssd.next_event()).expect("something is due or outstanding");
        ssd.advance(now, &mut |completion| {
            done += 1;
            due.push_back(completion.at + HOST_TURN);
        });
        if due.front() == Some(&now) {
            due.pop_front();
            let slot = ((u64::from(random.next_u32()) * u64::from(ssd.slots())) >> 32) as u32;
            ssd.submit(now, Command { tag: 0, kind: CommandKind::Read, slot, slots: 1 });
        }
    }
    done
}
