//! The cost of a decision: the scheduler alone, in this process, with a device that costs nothing.
//!
//! Sixteen tenants keep IOs outstanding in virtual time. The device answers in order and always fast, so no threshold is reached. One
//! IO is an arrival, the decisions until there is nothing more to submit, and a completion. There are two loads: "light", where each
//! IO leaves at once, and "backlogged", where tenants wait for room in the SSD; and two schedulers: `gimbal-fair`, the default, and
//! `level`. The value is the most expensive of the four.
//!
//! In `decision_scale` 4,096 tenants are known and the same sixteen are active.

use crate::machine::thread_time;
use crate::measure::{Bench, Goal, Line, Measure, Reading};
use crate::rounds::Rounds;
use anyhow::Result;
use sched::{
    DeviceConstants, DeviceCosts, Done, GimbalFair, GimbalFairConfig, Io, IoId, IoKind, Level, LevelConfig,
    Mark, Next, Outcome, Policy, Priority,
};
use std::collections::VecDeque;
use units::{Bytes, Instant, Nanos, TenantId};

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

/// Active tenants.
const ACTIVE: u32 = 16;
/// Known tenants in the large case.
const CROWD: u32 = 4096;
/// IOs of one turn, and of the warm-up.
const IOS: u32 = 300_000;
const WARM_UP: u32 = 50_000;
/// The latency of every IO: below the threshold of an idle SSD.
const LATENCY: Nanos = Nanos::micros(90);
/// Virtual time between completions: 200 MB/s, a fifth of the scheduler's initial rate.
const PACE: Nanos = Nanos::micros(20);
/// Loads: name, and IOs that each tenant keeps outstanding. A tenant's slots hold 32 × 4 KiB each.
const LOADS: [(&str, u32); 2] = [("light", 2), ("backlogged", 512)];

/// The schedulers that are measured.
#[derive(Clone, Copy)]
enum Scheduler {
    GimbalFair,
    Level,
}

impl Scheduler {
    fn name(self) -> &'static str {
        match self {
            Scheduler::GimbalFair => "gimbal-fair",
            Scheduler::Level => "level",
        }
    }

    fn policy(self) -> Box<dyn Policy> {
        let device = DeviceConstants::DCT983;
        match self {
            Scheduler::GimbalFair => Box::new(GimbalFair::new(GimbalFairConfig::new(device))),
            Scheduler::Level => Box::new(Level::new(LevelConfig::new(device, DeviceCosts::DCT983))),
        }
    }
}

fn decision(bench: &Bench) -> Result<Vec<Reading>> {
    let mut most_expensive: Option<(Rounds, Rounds)> = None;
    let (mut costs, mut scales) = (Vec::new(), Vec::new());
    let cases =
        [Scheduler::GimbalFair, Scheduler::Level].into_iter().flat_map(|of| LOADS.map(|load| (of, load)));
    for (scheduler, (load, depth)) in cases {
        let name = format!("{} {load}", scheduler.name());
        let (mut few, mut crowd) =
            (Switch::new(scheduler, ACTIVE, depth), Switch::new(scheduler, CROWD, depth));
        few.run(WARM_UP);
        crowd.run(WARM_UP);
        let (mut nanos, mut ratios) = (Vec::new(), Vec::new());
        for _ in 0..bench.rounds {
            let (of_few, of_crowd) = (few.timed(), crowd.timed());
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

/// A scheduler, its device and its tenants.
struct Switch {
    policy: Box<dyn Policy>,
    now: Instant,
    wake_at: Option<Instant>,
    in_flight: VecDeque<Io>,
    next_id: u64,
}

impl Switch {
    /// All `tenants` have done an IO; sixteen of them, far apart, keep `depth` outstanding each.
    fn new(scheduler: Scheduler, tenants: u32, depth: u32) -> Switch {
        let policy = scheduler.policy();
        let mut switch =
            Switch { policy, now: Instant::ZERO, wake_at: None, in_flight: VecDeque::new(), next_id: 0 };
        for tenant in 0..tenants {
            switch.arrive(TenantId(tenant));
            switch.complete();
        }
        for n in 0..ACTIVE * depth {
            switch.arrive(TenantId(n % ACTIVE * (tenants / ACTIVE)));
        }
        switch
    }

    fn arrive(&mut self, tenant: TenantId) {
        let io = Io {
            id: IoId(self.next_id),
            tenant,
            priority: Priority::default(),
            kind: IoKind::Read,
            length: Bytes::kib(4),
            mark: Mark::default(),
        };
        self.next_id += 1;
        self.policy.on_arrival(self.now, io);
        self.decide();
    }

    fn decide(&mut self) {
        self.wake_at = loop {
            match self.policy.next(self.now) {
                Next::Submit(io) => self.in_flight.push_back(io),
                Next::WakeAt(at) => break Some(at),
                Next::Idle => break None,
            }
        };
    }

    /// Completes the oldest IO in flight, and returns its tenant.
    fn complete(&mut self) -> TenantId {
        let io = loop {
            if let Some(io) = self.in_flight.pop_front() {
                break io;
            }
            self.now = self.wake_at.expect("an IO is in flight or delayed");
            self.decide();
        };
        self.now += PACE;
        self.policy.on_completion(self.now, Done { io, outcome: Outcome::Success { latency: LATENCY } });
        io.tenant
    }

    fn run(&mut self, ios: u32) {
        for _ in 0..ios {
            let tenant = self.complete();
            self.arrive(tenant);
        }
    }

    /// CPU time per IO, in nanoseconds.
    fn timed(&mut self) -> f64 {
        let began = thread_time();
        self.run(IOS);
        (thread_time() - began).as_nanos() as f64 / f64::from(IOS)
    }
}
