//! A case: one random SSD, its condition and the tenants on it, all drawn from one seed.
//!
//! - *Groups* of tenants that always have more to do than their share (closed loops with deep queues): two to four, or
//!   one tenant alone (every eighth case). Their f-Util is judged.
//! - A *light* reader (three of four cases with writers or large reads): small reads at random moments, far fewer than its share. Its
//!   99th percentile is judged.
//! - Every fourth mix has weights 1 : 2 : 4.
//! - A *guest* (every third mix): a tenant with a queue as deep as those, but in bursts of 20 ms to 2 s. Its
//!   bandwidth in its bursts is judged.
//! - A *paced* group (every third mix): its applications ask for two to four times their fair share, and never for more. So they have more to do than
//!   their share, but may leave the SSD idle if they have it to themselves.
//!
//! On a clean SSD writes are large, and on a fragmented one they are small and random. Otherwise the condition of the
//! SSD, small as the model is, would change during the measurement, and with it the speed of each group alone. For the
//! same reason the tenants' writes have gone over a fragmented SSD before the case begins (workload-dependent
//! preconditioning): writes of 16 KiB leave it faster to read than writes of 4 KiB do, by up to 80 %.

use super::{AWAY, BACK, LEARN, MEASURE};
use crate::scheduler::Setup;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use sched::Share;
use sim::{Arrival, Bursts, ClientChoice, Network, Pattern, PolicyChoice, TenantSpec, Workload, World};
use ssd::{Condition, Image, Profile};
use std::fmt::Write;
use units::{ByteRate, Bytes, Instant, Nanos};

/// Length of a point of the series.
pub(super) const POINT: Nanos = Nanos::millis(5);
/// Upper bound for the time that buffers take to fill.
pub(super) const BUFFERS_FILL: Nanos = Nanos::secs(1);
/// Size of the writes that fragment an SSD.
const SMALLEST: Bytes = Bytes(ssd::SLOT_BYTES);
/// Number of times that the tenants' writes go over the SSD before a case begins.
const OVERWRITES: u32 = 3;
/// Separates the random numbers of the mix from those of the SSD.
const MIX: u64 = 0x6d69_7865;
/// Separates the random numbers of arrivals from those of the groups, so that the groups are the same however their IOs
/// arrive.
const ARRIVALS: u64 = 0x6172_7269;

/// Tenants with the same work.
#[derive(Clone, Debug)]
pub struct Group {
    /// The work of each of them.
    pub workload: Workload,
    /// Number of tenants.
    pub tenants: u32,
    /// The weight of each.
    pub weight: u32,
    /// Upper bound for the demand of each, in fair shares.
    pub pace: Option<f64>,
}

/// A tenant that is present in bursts, with more to do than its share.
#[derive(Clone, Debug)]
pub struct Guest {
    /// The work in a burst.
    pub workload: Workload,
    /// The times of the bursts.
    pub bursts: Bursts,
}

/// A part of some SSDs that no data sheet tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// A reserve of erased blocks, which takes writes faster than they are sustained.
    Reserve,
    /// Garbage collection that reads cannot pass.
    HoldsReads,
    /// Garbage collection on all dies at once, with nothing else meanwhile.
    Rounds,
    /// A mapping that is partly in memory.
    Mapping,
}

impl Inside {
    const ALL: [Inside; 4] = [Inside::Reserve, Inside::HoldsReads, Inside::Rounds, Inside::Mapping];

    /// Whether the SSD has it.
    pub fn is_in(self, profile: &Profile) -> bool {
        match self {
            Inside::Reserve => profile.collection.reserve.is_some(),
            Inside::HoldsReads => profile.collection.holds_reads,
            Inside::Rounds => profile.collection.in_rounds,
            Inside::Mapping => profile.mapping.is_some(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Inside::Reserve => "with a reserve",
            Inside::HoldsReads => "holds reads",
            Inside::Rounds => "collects in rounds",
            Inside::Mapping => "part of the mapping",
        }
    }
}

/// One case.
#[derive(Clone, Debug)]
pub struct Case {
    /// The seed that it was drawn from.
    pub seed: u64,
    /// The SSD.
    pub profile: Profile,
    /// The state of its flash.
    pub condition: Condition,
    /// Tenants with more to do than their share.
    pub groups: Vec<Group>,
    /// Rate of a light reader's small reads at random moments, in IOs per second.
    pub light: Option<u32>,
    /// A tenant of weight 1 that is present in bursts.
    pub guest: Option<Guest>,
    /// Whether the clients obey the credit that they get.
    pub obeys_credit: bool,
    /// The group of which the first tenant leaves and comes back.
    pub leaver: usize,
    /// Time under load before the measurement: [`LEARN`], or more for what a scheduler learns later.
    pub learn: Nanos,
}

pub(super) struct Dice(Xoshiro256PlusPlus);

impl Dice {
    pub(super) fn of(seed: u64) -> Dice {
        Dice(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// A seed for another purpose.
    pub(super) fn seed(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub(super) fn within(&mut self, least: u32, most: u32) -> u32 {
        let span = u64::from(most - least) + 1;
        least + ((u128::from(self.0.next_u64()) * u128::from(span)) >> 64) as u32
    }

    pub(super) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.within(0, all.len() as u32 - 1) as usize]
    }

    pub(super) fn one_in(&mut self, n: u32) -> bool {
        self.within(1, n) == 1
    }
}

impl Case {
    /// The case of a seed.
    pub fn of(seed: u64) -> Case {
        let profile = Profile::random(seed);
        let dice = &mut Dice::of(seed ^ MIX);
        let condition = dice.one_of(&[Condition::Clean, Condition::Fragmented]);
        let is_alone = dice.one_in(8);
        let count = if is_alone { 1 } else { dice.one_of(&[2, 2, 3, 3, 4]) };
        let is_weighted = !is_alone && dice.one_in(4);
        let mut groups: Vec<Group> = Vec::new();
        for n in 0..count {
            let workload = workload(condition, dice);
            let weight = if is_weighted { [1, 2, 4][n as usize % 3] } else { 1 };
            let tenants = if is_alone { 1 } else { dice.one_of(&[1, 1, 2, 4, 6]) };
            groups.push(Group { workload, tenants, weight, pace: None });
        }
        let is_heavy = groups.iter().any(|group| {
            let large = group.workload.sizes.only().is_some_and(|size| size >= Bytes::kib(64));
            group.workload.read_percent < 100 || large
        });
        let light_iops = dice.within(500, 3000);
        let light = (!is_alone && is_heavy && !dice.one_in(4)).then_some(light_iops);
        let obeys_credit = !dice.one_in(2);
        let leaver = dice.within(0, count - 1) as usize;
        let arrivals = &mut Dice::of(seed ^ ARRIVALS);
        let guest = (!is_alone && arrivals.one_in(3)).then(|| guest(condition, arrivals));
        if !is_alone && arrivals.one_in(3) {
            let paced = arrivals.within(0, count - 1) as usize;
            groups[paced].pace = Some(f64::from(arrivals.within(20, 40)) / 10.0);
        }
        Case { seed, profile, condition, groups, light, guest, obeys_credit, leaver, learn: LEARN }
    }

    /// Whether one tenant has the SSD to itself.
    pub fn is_alone(&self) -> bool {
        self.groups.len() == 1
    }

    /// Whether tenants have different weights.
    pub fn is_weighted(&self) -> bool {
        self.groups.iter().any(|group| group.weight != 1)
    }

    /// The SSD and the mix on one line.
    pub fn to_line(&self) -> String {
        let class = self.profile.description.split(" class ").nth(1).and_then(|rest| rest.split(',').next());
        let condition = if self.condition == Condition::Clean { "clean" } else { "fragmented" };
        let insides = Inside::ALL.into_iter().filter(|inside| inside.is_in(&self.profile));
        let insides: String = insides.map(|inside| format!(", {}", inside.name())).collect();
        let mut line = format!("{} {condition}{insides}:", class.unwrap_or("?"));
        for group in &self.groups {
            _ = write!(line, " {}x{}", group.tenants, what(&group.workload));
            if group.weight != 1 {
                _ = write!(line, " w{}", group.weight);
            }
            if let Some(pace) = group.pace {
                _ = write!(line, " paced {pace}");
            }
            line.push(',');
        }
        if let Some(iops) = self.light {
            _ = write!(line, " light {iops}/s,");
        }
        if let Some(Guest { workload, bursts }) = &self.guest {
            let [burst, pause] = [bursts.burst, bursts.pause].map(|time| time.0 / 1_000_000);
            _ = write!(line, " guest {} {burst} ms of {} ms,", what(workload), burst + pause);
        }
        line.push_str(if self.obeys_credit { " credit" } else { " no credit" });
        line
    }

    /// The case with the rates of its paced group, whose fair share follows from the speed of each group's kind of work
    /// `alone`.
    pub(super) fn paced(&self, alone: &[f64]) -> Case {
        let mut case = self.clone();
        for (n, group) in case.groups.iter_mut().enumerate() {
            let rate = |pace: f64| ByteRate((pace * self.fair_share(n, alone, 0.0)).max(1.0) as u64);
            group.workload.rate_max = group.pace.map(rate);
        }
        case
    }

    /// Number of tenants in the groups.
    pub(super) fn tenants(&self) -> usize {
        self.groups.iter().map(|group| group.tenants as usize).sum()
    }

    /// The position of the guest in the results.
    pub(super) fn guest_place(&self) -> usize {
        self.tenants()
    }

    /// The fraction of the time from `from` to `until` in which the guest is present.
    pub(super) fn guest_is_there(&self, from: Nanos, until: Nanos) -> f64 {
        let Some(Guest { bursts: Bursts { burst, pause }, .. }) = self.guest else { return 0.0 };
        let before = |at: Nanos| {
            let period = burst + pause;
            at.0 / period.0 * burst.0 + (at.0 % period.0).min(burst.0)
        };
        (before(until) - before(from)) as f64 / (until.0 - from.0) as f64
    }

    /// The positions of each group's tenants in the results.
    pub(super) fn places(&self) -> Vec<std::ops::Range<usize>> {
        let mut first = 0;
        self.groups
            .iter()
            .map(|group| {
                let range = first..first + group.tenants as usize;
                first = range.end;
                range
            })
            .collect()
    }

    /// The times at which the tenant leaves and comes back.
    pub(super) fn away(&self) -> (Instant, Instant) {
        let from = Instant::ZERO + self.learn + MEASURE;
        (from, from + AWAY)
    }

    /// The SSD before the tenants come, in the state in which their writes leave it in the long run.
    pub(super) fn image(&self) -> Image {
        self.conditioned(&self.profile, self.condition)
    }

    /// An SSD with this profile and condition, in the state in which the tenants' writes leave it in the long run.
    pub(super) fn conditioned(&self, profile: &Profile, condition: Condition) -> Image {
        let image = Image::new(profile, condition, self.seed);
        let written = self.written();
        // Small writes do not change a fragmented SSD, and large ones do not change a clean one.
        let is_settled = condition == Condition::Clean || written.iter().all(|(size, _)| *size <= SMALLEST);
        if is_settled { image } else { image.overwritten(&written, OVERWRITES) }
    }

    /// The sizes of the tenants' writes, each with its approximate part of the bytes if shares are fair.
    fn written(&self) -> Vec<(Bytes, u64)> {
        let part = |workload: &Workload, shares: u64| {
            let size = workload.sizes.only().unwrap_or(SMALLEST);
            (size, u64::from(100 - workload.read_percent) * shares)
        };
        let group = |group: &Group| part(&group.workload, 100 * u64::from(group.tenants * group.weight));
        let guest = |Guest { workload, bursts: Bursts { burst, pause } }: &Guest| {
            part(workload, 100 * burst.0 / (burst.0 + pause.0))
        };
        let all = self.groups.iter().map(group).chain(self.guest.iter().map(guest));
        all.filter(|(_, part)| *part > 0).collect()
    }

    /// The case under a scheduler.
    pub(super) fn world(&self, setup: &Setup) -> World {
        let mut tenants = self.specs();
        tenants[self.places()[self.leaver].start].away = Some(self.away());
        self.world_of(setup, tenants, Nanos::ZERO, self.learn + MEASURE + AWAY + BACK)
    }

    /// The same until the end of the measured time, for a scheduler with which the judged one is compared.
    pub(super) fn baseline(&self, setup: &Setup) -> World {
        self.world_of(setup, self.specs(), Nanos::ZERO, self.learn + MEASURE)
    }

    /// As many tenants as in the groups, all with this work, without a scheduler: the maximum of the SSD for that kind
    /// of work.
    pub(super) fn alone(&self, workload: &Workload) -> World {
        let setup = Setup { policy: PolicyChoice::none(), auxiliary: None, clients: ClientChoice::Credits };
        let tenants = (0..self.tenants()).map(|_| TenantSpec::new("alone", workload.clone())).collect();
        // A cache, and flash that was never written, fill for as long as under the mix, and a reserve is used up. On a fragmented SSD
        // without these only the buffer fills; and after a longer time, writes of one size would leave the SSD in another state
        // than the writes of all tenants do.
        let has_more = self.profile.slc.blocks_per_die > 0 || self.profile.collection.reserve.is_some();
        let fills = self.condition == Condition::Clean || has_more;
        let warm_up = if fills { self.learn } else { BUFFERS_FILL };
        self.world_of(&setup, tenants, warm_up, MEASURE)
    }

    /// The tenants of the groups.
    pub(super) fn group_specs(&self) -> Vec<TenantSpec> {
        let mut tenants = Vec::new();
        for (n, group) in self.groups.iter().enumerate() {
            for _ in 0..group.tenants {
                tenants.push(TenantSpec {
                    share: Share { weight: group.weight, ..Share::EQUAL },
                    obeys_credit: self.obeys_credit,
                    ..TenantSpec::new(format!("group {}", n + 1), group.workload.clone())
                });
            }
        }
        tenants
    }

    /// The tenants: the groups, the guest, the light reader. The light reader is two tenants, one after the other, so
    /// that the latencies of the second are those of the measured time.
    fn specs(&self) -> Vec<TenantSpec> {
        let mut tenants = self.group_specs();
        if let Some(Guest { workload, bursts }) = &self.guest {
            let workload = Workload { bursts: Some(*bursts), ..workload.clone() };
            tenants
                .push(TenantSpec { obeys_credit: self.obeys_credit, ..TenantSpec::new("guest", workload) });
        }
        let Some(iops) = self.light else { return tenants };
        let small = Workload::closed(1, Bytes::kib(4), 100, Pattern::Random);
        let light = TenantSpec::new("light", Workload { arrival: Arrival::Open { iops }, ..small });
        let (middle, end) = (Instant::ZERO + self.learn, Instant::ZERO + self.learn + MEASURE);
        tenants.push(TenantSpec { stop: middle, obeys_credit: self.obeys_credit, ..light.clone() });
        tenants.push(TenantSpec { start: middle, stop: end, obeys_credit: self.obeys_credit, ..light });
        tenants
    }

    /// A world with these tenants on the case's SSD.
    pub(super) fn world_of(
        &self,
        setup: &Setup,
        tenants: Vec<TenantSpec>,
        warm_up: Nanos,
        duration: Nanos,
    ) -> World {
        World {
            seed: self.seed,
            profile: self.profile.clone(),
            condition: self.condition,
            policy: setup.policy.clone(),
            auxiliary: None,
            clients: setup.clients.clone(),
            network: Network::RDMA_100G,
            tenants,
            warm_up,
            duration,
            interval: POINT,
        }
    }
}

/// Draws work that leaves an SSD in this condition as it is.
pub(super) fn workload(condition: Condition, dice: &mut Dice) -> Workload {
    let way = dice.one_of(&[100, 100, 100, 0, 0, 70, 30]);
    let kib = match (way, condition) {
        (100, _) => dice.one_of(&[4, 4, 8, 16, 32, 64, 128, 128, 256]),
        (_, Condition::Clean) => dice.one_of(&[64, 128, 128, 256]),
        (_, Condition::Fragmented) => dice.one_of(&[4, 4, 8, 16]),
    };
    let pattern =
        if kib >= 64 { dice.one_of(&[Pattern::Random, Pattern::Sequential]) } else { Pattern::Random };
    let depth = if kib >= 64 { dice.one_of(&[4, 8, 16]) } else { dice.one_of(&[32, 64, 128]) };
    Workload::closed(depth, Bytes::kib(kib), way, pattern)
}

/// Draws work with a queue that is always full, and the bursts in which it is present.
fn guest(condition: Condition, dice: &mut Dice) -> Guest {
    let workload = workload(condition, dice);
    let mut time = || Nanos::millis(dice.one_of(&[20, 50, 100, 200, 500, 1000, 2000]));
    let bursts = Bursts { burst: time(), pause: time() };
    Guest { workload, bursts }
}

/// Describes kind, size and depth of a closed loop.
fn what(workload: &Workload) -> String {
    let Workload { read_percent, pattern, sizes, arrival, .. } = workload;
    let way = match (read_percent, pattern) {
        (100, Pattern::Random) => "randread".to_owned(),
        (100, Pattern::Sequential) => "read".to_owned(),
        (0, Pattern::Random) => "randwrite".to_owned(),
        (0, Pattern::Sequential) => "write".to_owned(),
        (percent, _) => format!("rw{percent}"),
    };
    let Arrival::Closed { depth } = arrival else {
        unreachable!("only the light reader is not a closed loop")
    };
    format!("{way} {}k qd{depth}", sizes.only().map_or(0, |size| size.0 >> 10))
}
