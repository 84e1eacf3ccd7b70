//! The cost of data digests, compared with what the CPU allows.
//!
//! A digest is a pass of CRC32C over all data, which no target can avoid. So the goal is not a fixed bandwidth, but a part of what is left
//! when CRC32C of data in memory is added to the time of an IO without digests:
//!
//! ```text
//!   time without / (time without + CRC32C of 128 KiB)  =  the bandwidth that the CPU allows, compared with no digests
//! ```
//!
//! CRC32C is measured in the same rounds, on the same CPU, with the same function, over more memory than the caches hold.

use crate::client::{Client, Tally};
use crate::contest::{KIB_128, NULL, median};
use crate::machine::{cpu_model, thread_time};
use crate::measure::{Bench, Goal, Line, Measure, Reading};
use crate::rounds::Rounds;
use crate::stream::{Direction, Load};
use anyhow::Result;
use nvme::tcp::pdu::digest::crc32c;
use std::hint::black_box;

/// The line.
pub(crate) const DIGEST_COST: Measure = Measure {
    lines: &[Line::ratio("digest_cost", Goal::AtLeast(0.9))],
    about: "bandwidth of 128 KiB reads and writes, QD 4: with data digest / what CRC32C on this CPU leaves",
    disturbed: true,
    run: digest_cost,
};

/// Memory for CRC32C: more than the caches of most CPUs.
const MEMORY: usize = 256 << 20;

/// Measures reads and writes; the value is the one that is further from the possible bandwidth.
fn digest_cost(bench: &Bench) -> Result<Vec<Reading>> {
    let server = bench.programs.target(bench.cores, &NULL)?;
    let memory: Vec<u8> = (0..MEMORY).map(|index| index as u8).collect();
    let (mut worse, mut details): (Option<Rounds>, _) = (None, Vec::new());
    let mut crcs = Vec::new();
    for (what, direction) in [("reads", Direction::Read), ("writes", Direction::Write)] {
        let load = Load { direction, ..KIB_128 };
        let mut clients = [
            Client::of_target(&server, 1, Load { digest: true, ..load })?,
            Client::of_target(&server, 1, load)?,
        ];
        let mut tallies: [Vec<Tally>; 2] = Default::default();
        let (mut found, mut plain) = (Vec::new(), Vec::new());
        for round in 0..bench.rounds {
            for turn in 0..2 {
                let who = (round + turn) % 2;
                tallies[who].push(clients[who].run(bench.span)?);
            }
            let crc = bench.cores.start_server(|| crc_nanos(&memory))?;
            let [with, without] = [&tallies[0][round], &tallies[1][round]];
            let nanos = 1e9 / without.iops();
            let allowed = nanos / (nanos + crc);
            plain.push(with.iops() / without.iops());
            found.push(with.iops() / without.iops() / allowed);
            crcs.push(crc);
        }
        let found = Rounds::new(found);
        details.push(format!(
            "{what} {:.2} ({:.2} of {:.1}k IOPS without)",
            found.median(),
            Rounds::new(plain).median(),
            median(&tallies[1], Tally::iops) / 1e3,
        ));
        worse = Some(match worse {
            Some(other) if other.median() <= found.median() => other,
            _ => found,
        });
    }
    let crc = Rounds::new(crcs).median();
    let gigabytes = f64::from(KIB_128.length) / crc;
    details.push(format!("CRC32C {gigabytes:.1} GB/s, {:.1} µs for 128 KiB, on {}", crc / 1e3, cpu_model()?));
    Ok(vec![Reading::new(worse.expect("there are reads and writes"), details.join(", "))])
}

/// CPU time of CRC32C of 128 KiB in memory.
fn crc_nanos(memory: &[u8]) -> f64 {
    let pieces = memory.chunks_exact(KIB_128.length as usize);
    let count = pieces.len();
    let began = thread_time();
    pieces.for_each(|piece| _ = black_box(crc32c(black_box(piece))));
    (thread_time() - began).as_nanos() as f64 / count as f64
}
