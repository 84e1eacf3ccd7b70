//! What the scheduler itself costs: CPU time per IO (arrival, decision and completion together) in front of a device that
//! costs nothing.
//!
//! Sixteen tenants keep a fixed number of IOs outstanding. The device answers in order and always as fast as an idle one, so
//! no latency comes near a threshold. Every IO is decided on its own: nothing is saved by looking at several at once.
//!
//! ```text
//!   cargo run --release -p sched --example decision_cost              the table: least and median of several rounds
//!   cargo run --release -p sched --example decision_cost -- 100000 level unqueued 16
//!                                            one run of this many IOs, for `valgrind --tool=callgrind` and `perf`
//! ```

use sched::{
    DeviceConstants, DeviceCosts, Done, Fifo, Gimbal, GimbalConfig, GimbalFair, GimbalFairConfig, Io, IoId,
    IoKind, Level, LevelConfig, Mark, Next, Outcome, Policy, Priority,
};
use std::collections::VecDeque;
use std::env;
use std::fs;
use units::{Bytes, Instant, Nanos, TenantId};

const ACTIVE: u32 = 16;
const ROUNDS: usize = 9;
const IOS_PER_ROUND: u64 = 1_000_000;
const WARM_UP_IOS: u64 = 100_000;
/// What the device says of every IO.
const LATENCY: Nanos = Nanos::micros(90);

const POLICIES: [&str; 4] = ["none", "gimbal", "gimbal-fair", "level"];
/// Known tenants, of which sixteen are active.
const CROWDS: [u32; 2] = [ACTIVE, 4096];

/// What the tenants ask for.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    /// IOs that each tenant keeps outstanding.
    depth: usize,
    /// Virtual time from one completion to the next.
    pace: Nanos,
    /// What tenant `n` sends, by `n` modulo the number of kinds.
    kinds: &'static [(IoKind, Bytes)],
}

const LOADS: [Load; 4] = [
    // Whatever arrives leaves at once: every IO takes its tenant from idle to active and back.
    Load { name: "unqueued", depth: 8, pace: Nanos::micros(20), kinds: &[(IoKind::Read, Bytes::kib(4))] },
    // More than the slots hold: tenants are deferred, promoted, and held to the bounded service lag.
    Load { name: "backlogged", depth: 128, pace: Nanos::micros(20), kinds: &[(IoKind::Read, Bytes::kib(4))] },
    // More than the rate lets through: every IO waits for its token bucket.
    Load { name: "paced", depth: 8, pace: Nanos::micros(1), kinds: &[(IoKind::Read, Bytes::kib(128))] },
    Load {
        name: "mixed",
        depth: 64,
        pace: Nanos::micros(20),
        kinds: &[
            (IoKind::Read, Bytes::kib(4)),
            (IoKind::Write, Bytes::kib(4)),
            (IoKind::Read, Bytes::kib(16)),
        ],
    },
];

fn policy(name: &str) -> Box<dyn Policy> {
    match name {
        "none" => Box::new(Fifo::default()),
        "gimbal" => Box::new(Gimbal::new(GimbalConfig::published(DeviceConstants::DCT983))),
        "gimbal-fair" => Box::new(GimbalFair::new(GimbalFairConfig::new(DeviceConstants::DCT983))),
        "level" => Box::new(Level::new(LevelConfig::new(DeviceConstants::DCT983, DeviceCosts::DCT983))),
        other => panic!("no policy {other}: it is one of {POLICIES:?}"),
    }
}

/// A scheduler, the device behind it and the tenants in front of it.
struct Switch {
    policy: Box<dyn Policy>,
    load: Load,
    now: Instant,
    /// When the scheduler wants to be asked again.
    wake_at: Option<Instant>,
    next_id: u64,
    in_flight: VecDeque<Io>,
}

impl Switch {
    /// Everything in place: `tenants` have each had an IO, sixteen of them, far apart, keep the load up.
    fn new(policy: Box<dyn Policy>, load: Load, tenants: u32) -> Switch {
        let in_flight = VecDeque::with_capacity(ACTIVE as usize * load.depth);
        let mut switch = Switch { policy, load, now: Instant::ZERO, wake_at: None, next_id: 0, in_flight };
        for tenant in 0..tenants {
            switch.arrive(TenantId(tenant));
            switch.submit();
            switch.complete();
        }
        for _ in 0..load.depth {
            for active in 0..ACTIVE {
                switch.arrive(TenantId(active * (tenants / ACTIVE)));
                switch.submit();
            }
        }
        switch
    }

    fn arrive(&mut self, tenant: TenantId) {
        self.next_id += 1;
        let kinds = self.load.kinds;
        let (kind, length) = kinds[tenant.index() % kinds.len()];
        let (id, priority, mark) = (IoId(self.next_id), Priority::default(), Mark::default());
        self.policy.on_arrival(self.now, Io { id, tenant, priority, kind, length, mark });
    }

    fn submit(&mut self) {
        self.wake_at = loop {
            match self.policy.next(self.now) {
                Next::Submit(io) => self.in_flight.push_back(io),
                Next::WakeAt(at) => break Some(at),
                Next::Idle => break None,
            }
        };
    }

    /// Ends the oldest IO in flight; waits for one if there is none.
    fn complete(&mut self) -> TenantId {
        let io = loop {
            if let Some(io) = self.in_flight.pop_front() {
                break io;
            }
            self.now = self.wake_at.expect("nothing is in flight, and nothing is waited for");
            self.submit();
        };
        self.now += self.load.pace;
        self.policy.on_completion(self.now, Done { io, outcome: Outcome::Success { latency: LATENCY } });
        io.tenant
    }

    fn run(&mut self, ios: u64) {
        for _ in 0..ios {
            let tenant = self.complete();
            self.arrive(tenant);
            self.submit();
        }
    }
}

/// CPU time of this thread so far.
fn cpu_time() -> Nanos {
    let stat =
        fs::read_to_string("/proc/thread-self/schedstat").expect("the kernel keeps scheduler statistics");
    let nanos = stat.split(' ').next().and_then(|field| field.parse().ok());
    Nanos(nanos.unwrap_or_else(|| panic!("{stat:?} does not begin with a time")))
}

/// CPU nanoseconds per IO of one round.
fn measure(switch: &mut Switch) -> f64 {
    let before = cpu_time();
    switch.run(IOS_PER_ROUND);
    (cpu_time().0 - before.0) as f64 / IOS_PER_ROUND as f64
}

fn print_table() {
    println!("{:<14}{:<12}{:>8}{:>10}{:>10}", "policy", "load", "tenants", "least ns", "median ns");
    for load in LOADS {
        for name in POLICIES {
            let mut switches = CROWDS.map(|tenants| Switch::new(policy(name), load, tenants));
            let mut rounds = CROWDS.map(|_| Vec::new());
            for switch in &mut switches {
                switch.run(WARM_UP_IOS);
            }
            // In turns, so that what else the machine does hits both alike.
            for _ in 0..ROUNDS {
                for (switch, rounds) in switches.iter_mut().zip(&mut rounds) {
                    rounds.push(measure(switch));
                }
            }
            for (tenants, mut rounds) in CROWDS.into_iter().zip(rounds) {
                rounds.sort_by(f64::total_cmp);
                let (least, median) = (rounds[0], rounds[ROUNDS / 2]);
                println!("{name:<14}{:<12}{tenants:>8}{least:>10.1}{median:>10.1}", load.name);
            }
        }
    }
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [ios, name, load, tenants] = arguments.as_slice() else {
        return print_table();
    };
    let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("{text} is not a whole number"));
    let load = LOADS.into_iter().find(|known| known.name == load);
    let mut switch = Switch::new(policy(name), load.expect("a load of the table"), number(tenants) as u32);
    switch.run(number(ios));
}
