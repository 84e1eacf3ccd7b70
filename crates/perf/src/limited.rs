//! The work of a target with less than a CPU: IOs per second of its CPU time, compared with the floor.
//!
//! With a whole CPU for the server, the client is the limit under most loads, and a cheaper server only waits more for it. So each
//! server gets a part of its CPU (`quota`), and what counts is how much it does with it. The target has its default scheduler.

use crate::client::Tally;
use crate::contest::{Better, Contest, KIB_4, KIB_128};
use crate::measure::{Bench, Goal, Line, Measure, Reading};
use crate::stream::{Direction, Load};
use anyhow::Result;

/// All its lines.
pub(crate) const LIMITED: Measure = Measure {
    lines: &[
        Line::ratio("limited_qd32", Goal::AtLeast(0.86)),
        Line::ratio("limited_qd128", Goal::AtLeast(0.86)),
        Line::ratio("limited_connections_64", Goal::AtLeast(1.0)),
        Line::ratio("limited_read_128k", Goal::AtLeast(0.9)),
        Line::ratio("limited_write_128k", Goal::AtLeast(0.9)),
    ],
    about: "IOs per CPU-second of a server that gets 45 % of its CPU, null device: target / floor",
    disturbed: true,
    run: limited,
};

/// Part of a CPU that a server gets.
const PERCENT: u32 = 45;
/// A queue has 128 entries, so it holds 127 commands. So QD 128 are two connections of half of it.
const HALF: u32 = 64;

/// Loads and their connections, in the order of the lines.
const LOADS: [(Load, u16); 5] = [
    (KIB_4, 1),
    (Load { depth: HALF, ..KIB_4 }, 2),
    (Load { depth: 2, ..KIB_4 }, 64),
    (KIB_128, 1),
    (Load { direction: Direction::Write, ..KIB_128 }, 1),
];

fn limited(bench: &Bench) -> Result<Vec<Reading>> {
    let mut readings = Vec::new();
    for (load, connections) in LOADS {
        let contest = Contest { load, connections, quota: Some(PERCENT), part: 0.5, ..Contest::default() };
        let result = contest.run(bench, Tally::ios_per_cpu_second, Better::More)?;
        let detail = format!("IOs per CPU-second (core used): {}", result.figures);
        readings.push(Reading::new(result.ratios, detail));
    }
    Ok(readings)
}
