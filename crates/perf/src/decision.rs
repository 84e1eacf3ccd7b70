//! The cost of a decision: the scheduler alone, in this process, with a device that costs nothing.
//!
//! The driver is the one whose instructions are counted ([`counts::decision`]): "light", where each IO leaves at once, and "backlogged",
//! where tenants wait for room in the SSD. It is timed for two schedulers: `level`, the default, and `level-calibrated`. The value is the most
//! expensive of the four.
//!
//! In `decision_scale` 4,096 tenants are known and the same sixteen are active.

use crate::machine::thread_time;
use crate::measure::{Bench, Goal, Line, Measure, Reading};
use crate::rounds::Rounds;
use anyhow::Result;
use counts::decision::{ACTIVE, BACKLOGGED, LIGHT, Switch};
use sched::Scheduler;

/// Both lines.
pub(crate) const DECISION: Measure = Measure {
    lines: &[
        Line { name: "decision_ns", unit: "ns", goal: Goal::AtMost(100.0) },
        Line::ratio("decision_scale", Goal::AtMost(1.3)),
    ],
    about: "CPU time of the scheduler per IO, 16 tenants, the slower of two; and with 4,096 known / with 16",
    disturbed: true,
    run: decision,
};

/// Known tenants in the large case.
const CROWD: u32 = 4096;
/// IOs of one turn, and of the warm-up.
const IOS: u32 = 300_000;
const WARM_UP: u32 = 50_000;

fn decision(bench: &Bench) -> Result<Vec<Reading>> {
    let mut most_expensive: Option<(Rounds, Rounds)> = None;
    let (mut costs, mut scales) = (Vec::new(), Vec::new());
    let schedulers = [Scheduler::LEVEL, Scheduler::LEVEL_CALIBRATED];
    for (scheduler, load) in schedulers.into_iter().flat_map(|of| [(of, LIGHT), (of, BACKLOGGED)]) {
        let name = format!("{} {}", scheduler.name, load.name);
        let (mut few, mut crowd) =
            (Switch::new(scheduler, ACTIVE, load), Switch::new(scheduler, CROWD, load));
        few.run(WARM_UP);
        crowd.run(WARM_UP);
        let (mut nanos, mut ratios) = (Vec::new(), Vec::new());
        for _ in 0..bench.rounds {
            let (of_few, of_crowd) = (timed(&mut few), timed(&mut crowd));
            nanos.push(of_few);
            ratios.push(of_crowd / of_few);
        }
        let (nanos, ratios) = (Rounds::new(nanos), Rounds::new(ratios));
        costs.push(format!("{name} {:.0}", nanos.median()));
        scales.push(format!("{name} {:.2}", ratios.median()));
        most_expensive = Some(match most_expensive {
            None => (nanos, ratios),
            Some((cost, scale)) => (greater(cost, nanos), greater(scale, ratios)),
        });
    }
    let (cost, scale) = most_expensive.expect("there are loads");
    Ok(vec![Reading::new(cost, costs.join(", ")), Reading::new(scale, scales.join(", "))])
}

fn greater(a: Rounds, b: Rounds) -> Rounds {
    if a.median() >= b.median() { a } else { b }
}

/// CPU time per IO, in nanoseconds.
fn timed(switch: &mut Switch) -> f64 {
    let began = thread_time();
    switch.run(IOS);
    (thread_time() - began).as_nanos() as f64 / f64::from(IOS)
}
