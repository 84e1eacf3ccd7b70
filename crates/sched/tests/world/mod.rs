//! A world: one switch, some tenants and a device that answers in random order, all from one seed.
//!
//! The world only produces the [`Event`]s; a test applies them to a policy and checks. A failing test prints the
//! [`World`] as one line of Rust, to be pasted into a test of its own.

use sched::{
    CalibratedConfig, Cost, DeviceConstants, DeviceCosts, GimbalConfig, GimbalOrder, Halvings,
    InFlightLimits, Io, IoId, IoKind, Mark, Priority,
};
use units::{ByteRate, Bytes, Nanos, TenantId};

/// Everything that a run depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    pub seed: u64,
    pub tenants: u32,
    pub steps: u32,
    pub slots: u32,
    pub variant: Variant,
}

/// Which algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// Gimbal as published.
    Gimbal,
    /// Gimbal in the order of the paper's text, with other constants than usual.
    OtherGimbal,
    /// level-calibrated, with so little device time in flight and so small a bound on the service lag that they bind.
    LevelCalibrated,
}

/// The constants of one of them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Config {
    Gimbal(GimbalConfig),
    LevelCalibrated(CalibratedConfig),
}

impl Variant {
    /// All of them.
    pub(crate) const ALL: [Variant; 3] = [Variant::Gimbal, Variant::OtherGimbal, Variant::LevelCalibrated];
}

/// SplitMix64 (public domain algorithm by S. Vigna): all the randomness a world needs.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.roll(items.len() as u64) as usize]
    }
}

/// Next event at the switch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Arrival(Io),
    /// The IO in flight with this index ends; `None`: it failed.
    Completion {
        index: usize,
        latency: Option<Nanos>,
    },
    /// Time passes.
    Wait(Nanos),
    /// The tenant takes back its queued IOs with an id that is a multiple of three.
    Withdraw(TenantId),
}

/// Whether [`Event::Withdraw`] takes this IO back.
pub(crate) fn is_withdrawn(io: &Io) -> bool {
    io.id.0.is_multiple_of(3)
}

/// The events of a world, one after the other.
pub(crate) struct Events {
    world: World,
    dice: Dice,
    next_id: u64,
    /// Microseconds; moves about, so that the switch sees all four states.
    latency_level: u64,
    /// Probability of arrivals against completions; moves about, so that tenants go idle and come back.
    arrivals_of_ten: u64,
}

impl World {
    pub(crate) fn config(&self) -> Config {
        let device = DeviceConstants {
            slots: self.slots,
            write_cost_worst: Cost::ratio(9, 1),
            rate_min: ByteRate::mib_per_sec(50),
            ..DeviceConstants::DCT983
        };
        // A world moves some 50 MB and has hardly ever nothing to do: the completion rate is measured and forgotten more often.
        let (completion_window, completion_idle_max) = (Bytes::mib(1), Nanos::micros(300));
        let seen = |config| GimbalConfig { completion_window, completion_idle_max, ..config };
        match self.variant {
            Variant::Gimbal => Config::Gimbal(seen(GimbalConfig::published(device))),
            Variant::OtherGimbal => Config::Gimbal(GimbalConfig {
                latency_weight: Halvings(4),
                bucket_depth: Bytes::kib(128),
                write_cost_step: Cost::ratio(1, 10),
                order: GimbalOrder::Text,
                ..seen(GimbalConfig::published(device))
            }),
            Variant::LevelCalibrated => Config::LevelCalibrated(CalibratedConfig {
                in_flight: InFlightLimits {
                    uniform: Bytes::kib(128 * u64::from(self.slots)),
                    mixed: Bytes::kib(256 * u64::from(self.slots)),
                    alone: Bytes::kib(512 * u64::from(self.slots)),
                    io_min: Bytes::kib(16),
                },
                lag_max: Bytes::kib(256),
                ..CalibratedConfig::new(device, DeviceCosts::DCT983)
            }),
        }
    }

    pub(crate) fn events(&self) -> Events {
        Events {
            world: *self,
            dice: Dice::new(self.seed),
            next_id: 0,
            latency_level: 200,
            arrivals_of_ten: 5,
        }
    }
}

impl Events {
    /// The next event, given how many IOs are in flight.
    pub(crate) fn next(&mut self, in_flight: usize) -> Event {
        let dice = &mut self.dice;
        if dice.roll(50) == 0 {
            self.latency_level = dice.pick(&[50, 200, 400, 900, 2500]);
            self.arrivals_of_ten = dice.pick(&[1, 4, 5, 6, 9]);
        }
        match dice.roll(100) {
            0..30 => {
                // The fragmentation is judged every 50 ms.
                let long =
                    if self.world.variant == Variant::LevelCalibrated { 20_000_000 } else { 1_000_000 };
                let longest = dice.pick(&[100, 10_000, long]);
                Event::Wait(Nanos(dice.roll(longest)))
            }
            30 => Event::Withdraw(TenantId(dice.roll(u64::from(self.world.tenants)) as u32)),
            _ if dice.roll(10) < self.arrivals_of_ten || in_flight == 0 => Event::Arrival(self.arrival()),
            _ => {
                let latency = Nanos::micros(self.latency_level / 2 + dice.roll(self.latency_level));
                let latency = (dice.roll(40) > 0).then_some(latency);
                Event::Completion { index: dice.roll(in_flight as u64) as usize, latency }
            }
        }
    }

    fn arrival(&mut self) -> Io {
        let dice = &mut self.dice;
        self.next_id += 1;
        let tenant = dice.roll(u64::from(self.world.tenants)) as u32;
        // Tenants have characters: small readers, large readers, writers, and one that does everything.
        let (kind, length) = match tenant % 4 {
            0 => (IoKind::Read, Bytes::kib(4)),
            1 => (IoKind::Read, Bytes::kib(128)),
            2 => (IoKind::Write, Bytes::kib(dice.pick(&[4, 128]))),
            _ => (
                dice.pick(&[IoKind::Read, IoKind::Write, IoKind::Management]),
                Bytes(512 * (1 + dice.pick(&[7, 40, 255, 2047]))),
            ),
        };
        let priority = Priority::new(dice.roll(4) as u8).expect("there are four classes");
        Io { id: IoId(self.next_id), tenant: TenantId(tenant), priority, kind, length, mark: Mark::default() }
    }
}
