//! Range locks that make Compare and Write atomic.
//!
//! ```text
//!   write            enter ──► device ──► leave             counted in its regions while it is on the device
//!   compare-write    enter ──► claims its region, waits until no write is counted there ──► device ──► leave
//!   any of them      enter, and the region is claimed ──► waits in the claim's line ──► goes on when the claim ends
//! ```
//!
//! Both are on the device's own thread, and all that reaches a device passes here: so a claim holds against every host, every
//! connection and every other SSD's thread.
//!
//! A device is cut into granules of 64 KiB, spread over a fixed number of regions, and only regions are kept. Two writes that
//! have nothing to do with each other may meet in one; then one of them waits for the other, no more. In return a write
//! costs a counter up and down for each granule, whatever else is under way, and a read nothing.
//!
//! Later IOs cannot overtake: an IO that finds a region claimed joins the line there. A write of several
//! regions goes through them in ascending order and keeps those that it has passed; a claim has one region, as a block lies in
//! one granule. So there is no deadlock. IOs that enter wait for the device only, as they have their memory already.
//!
//! Holds: while a Compare and Write is under way, no other write to its block is on the device
//!        (`no_write_comes_between_a_compare_and_its_write` in `switch/tests`), all IOs get through
//!        (`everybody_gets_through_and_none_beside_a_claim`), and in order (`what_waits_for_a_claim_goes_on_in_order`).

use super::ByteRange;
use std::collections::{HashMap, VecDeque};

const GRANULE: u64 = 64 << 10;
const REGIONS: u64 = 1024;
/// A write of more granules than this is taken to be in all regions, which is found out faster.
const GRANULES_MAX: u64 = 64;

/// Where an IO writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Footprint {
    /// Nowhere.
    Nothing,
    /// In one range.
    Range(ByteRange),
    /// In many places.
    Everywhere,
    /// In the block of this range, which it looks at first.
    Claim(ByteRange),
}

/// See the module. `W` is an IO that waits.
pub(super) struct Regions<W> {
    /// Writes that have passed a region and are not over.
    writers: Box<[u32]>,
    claims: HashMap<u64, Claim<W>>,
}

/// A region that a Compare and Write has, or will have when the writes there are over.
struct Claim<W> {
    /// The IO that holds the claim, until it goes to the device.
    holder: Option<W>,
    /// Those behind it.
    line: VecDeque<Waiting<W>>,
}

struct Waiting<W> {
    io: W,
    footprint: Footprint,
    /// It has passed its regions below this one.
    reached: u64,
}

impl<W> Regions<W> {
    /// Nothing under way.
    pub(super) fn new() -> Regions<W> {
        Regions { writers: vec![0; REGIONS as usize].into_boxed_slice(), claims: HashMap::new() }
    }

    /// An IO is about to go to the device: given back if it may go now, and kept if it has to wait. It must `leave` when it is over.
    #[inline]
    pub(super) fn enter(&mut self, io: W, footprint: Footprint) -> Option<W> {
        if self.claims.is_empty() && !matches!(footprint, Footprint::Claim(_)) {
            self.count(footprint, 1);
            return Some(io);
        }
        self.pass(Waiting { io, footprint, reached: 0 })
    }

    /// Goes on through the regions of an IO; it comes out at the end, unless it has to wait.
    #[cold]
    fn pass(&mut self, mut waiting: Waiting<W>) -> Option<W> {
        if let Footprint::Claim(range) = waiting.footprint {
            let region = region_of(range.offset);
            if let Some(claim) = self.claims.get_mut(&region) {
                claim.line.push_back(waiting);
                return None;
            }
            let is_quiet = self.writers[region as usize] == 0;
            let (holder, starts) = if is_quiet { (None, Some(waiting.io)) } else { (Some(waiting.io), None) };
            self.claims.insert(region, Claim { holder, line: VecDeque::new() });
            return starts;
        }
        while let Some(region) = waiting.footprint.region_from(waiting.reached) {
            waiting.reached = region;
            if let Some(claim) = self.claims.get_mut(&region) {
                claim.line.push_back(waiting);
                return None;
            }
            self.writers[region as usize] += 1;
            waiting.reached += 1;
        }
        Some(waiting.io)
    }

    /// An IO that went to the device is over. Those that may go there now are added to `free`.
    #[inline]
    pub(super) fn leave(&mut self, footprint: Footprint, free: &mut VecDeque<W>) {
        self.count(footprint, -1);
        if !self.claims.is_empty() {
            self.leave_to_claims(footprint, free);
        }
    }

    #[cold]
    fn leave_to_claims(&mut self, footprint: Footprint, free: &mut VecDeque<W>) {
        if let Footprint::Claim(range) = footprint {
            return self.end_claim(region_of(range.offset), free);
        }
        let mut from = 0;
        while let Some(region) = footprint.region_from(from) {
            from = region + 1;
            if self.writers[region as usize] == 0
                && let Some(claim) = self.claims.get_mut(&region)
            {
                free.extend(claim.holder.take());
            }
        }
    }

    /// A claim is over: those in its line go on, until one of them claims the region again.
    fn end_claim(&mut self, region: u64, free: &mut VecDeque<W>) {
        let mut line = self.claims.remove(&region).expect("a claim ends once").line;
        while let Some(waiting) = line.pop_front() {
            free.extend(self.pass(waiting));
            if let Some(next) = self.claims.get_mut(&region) {
                next.line = line;
                return;
            }
        }
    }

    #[inline]
    fn count(&mut self, footprint: Footprint, change: i32) {
        let add =
            |count: &mut u32| *count = count.checked_add_signed(change).expect("who leaves has entered");
        match footprint {
            Footprint::Nothing | Footprint::Claim(_) => {}
            Footprint::Range(range) if granules(range) <= GRANULES_MAX => {
                let (first, last) = (range.offset / GRANULE, last_granule(range));
                (first..=last).for_each(|granule| add(&mut self.writers[(granule % REGIONS) as usize]));
            }
            Footprint::Range(_) | Footprint::Everywhere => self.writers.iter_mut().for_each(add),
        }
    }
}

impl Footprint {
    /// The first of a write's regions from `from` on.
    fn region_from(self, from: u64) -> Option<u64> {
        match self {
            Footprint::Nothing | Footprint::Claim(_) => None,
            Footprint::Range(range) if granules(range) <= GRANULES_MAX => {
                let (first, last) = (region_of(range.offset), last_granule(range) % REGIONS);
                let wraps = first > last;
                match from {
                    _ if from >= REGIONS => None,
                    // From the lowest region to `last`, and from `first` to the highest.
                    _ if wraps && from <= last => Some(from),
                    _ if from <= first => Some(first),
                    _ if wraps || from <= last => Some(from),
                    _ => None,
                }
            }
            Footprint::Range(_) | Footprint::Everywhere => (from < REGIONS).then_some(from),
        }
    }
}

#[inline]
fn granules(range: ByteRange) -> u64 {
    last_granule(range) - range.offset / GRANULE + 1
}

#[inline]
fn last_granule(range: ByteRange) -> u64 {
    (range.offset + range.length.saturating_sub(1)) / GRANULE
}

fn region_of(offset: u64) -> u64 {
    offset / GRANULE % REGIONS
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 4096;

    fn at(granule: u64, block: u64) -> ByteRange {
        ByteRange { offset: granule * GRANULE + block * BLOCK, length: BLOCK }
    }

    struct World {
        regions: Regions<u32>,
        /// On the device.
        out: Vec<(u32, Footprint)>,
        footprints: HashMap<u32, Footprint>,
        next: u32,
    }

    impl World {
        fn new() -> World {
            World { regions: Regions::new(), out: Vec::new(), footprints: HashMap::new(), next: 0 }
        }

        /// Its name, and whether it may go at once.
        fn enter(&mut self, footprint: Footprint) -> (u32, bool) {
            let io = self.next;
            self.next += 1;
            self.footprints.insert(io, footprint);
            let went = self.regions.enter(io, footprint).is_some();
            if went {
                self.start(io);
            }
            (io, went)
        }

        fn start(&mut self, io: u32) {
            let footprint = self.footprints[&io];
            let meets = |one: ByteRange, other: ByteRange| {
                one.offset < other.offset + other.length && other.offset < one.offset + one.length
            };
            let conflicts = |one: Footprint, other: Footprint| match (one, other) {
                (Footprint::Claim(block), Footprint::Range(range) | Footprint::Claim(range)) => {
                    meets(block, range)
                }
                (Footprint::Claim(_), Footprint::Everywhere) => true,
                _ => false,
            };
            for (other, theirs) in &self.out {
                assert!(
                    !conflicts(footprint, *theirs) && !conflicts(*theirs, footprint),
                    "{io} {footprint:?} is on the device with {other} {theirs:?}"
                );
            }
            self.out.push((io, footprint));
        }

        /// Those that may go then.
        fn leave(&mut self, io: u32) -> VecDeque<u32> {
            let index = self.out.iter().position(|(other, _)| *other == io).expect("it is on the device");
            let (_, footprint) = self.out.remove(index);
            let mut free = VecDeque::new();
            self.regions.leave(footprint, &mut free);
            free.iter().for_each(|io| self.start(*io));
            free
        }
    }

    #[test]
    fn what_waits_for_a_claim_goes_on_in_order() {
        let mut world = World::new();
        let (write, claim) = (Footprint::Range(at(3, 1)), Footprint::Claim(at(3, 1)));
        let (first, second) = (world.enter(write).0, world.enter(Footprint::Range(at(3, 2))).0);
        let (lock, went) = world.enter(claim);
        assert!(!went, "two writes are on the device");
        let (third, went) = world.enter(write);
        assert!(!went, "it comes after the claim");
        let (lock_again, _) = world.enter(claim);
        let (fourth, _) = world.enter(write);
        assert!(world.enter(Footprint::Range(at(4, 1))).1, "another region");
        assert_eq!(world.leave(first), [0; 0]);
        assert_eq!(world.leave(second), [lock]);
        assert_eq!(world.leave(lock), [third], "and the next claim waits for it");
        assert_eq!(world.leave(third), [lock_again]);
        assert_eq!(world.leave(lock_again), [fourth]);
        assert_eq!(world.leave(fourth), [0; 0]);
        assert!(world.regions.claims.is_empty() && world.regions.writers[3] == 0);
    }

    #[test]
    fn a_write_everywhere_waits_for_every_claim_and_they_for_it() {
        let mut world = World::new();
        let (one, went) = world.enter(Footprint::Claim(at(1, 0)));
        assert!(went);
        let (other, _) = world.enter(Footprint::Claim(at(2, 0)));
        let (discard, went) = world.enter(Footprint::Everywhere);
        assert!(!went);
        let (long, went) = world.enter(Footprint::Range(ByteRange { offset: 0, length: 1 << 40 }));
        assert!(!went);
        let mut free = world.leave(one);
        free.extend(world.leave(other));
        free.make_contiguous().sort_unstable();
        assert_eq!(free, [discard, long]);
        let (late, went) = world.enter(Footprint::Claim(at(7, 0)));
        assert!(!went);
        assert_eq!(world.leave(long), [0; 0]);
        assert_eq!(world.leave(discard), [late]);
        world.leave(late);
        assert_eq!((world.regions.writers[0], world.regions.claims.len()), (0, 0));
    }

    /// Those who come later do not overtake, neither claims those who write in many places, nor writes a claim.
    #[test]
    fn nobody_is_overtaken_for_ever() {
        let mut world = World::new();
        let wide = Footprint::Range(ByteRange { offset: 0, length: 2 * GRANULE });
        let claims = [0, 1].map(|granule| Footprint::Claim(at(granule, 0)));
        let mut held = claims.map(|claim| world.enter(claim).0);
        let (victim, went) = world.enter(wide);
        assert!(!went);
        let mut turns = 0;
        while !world.out.iter().any(|(io, _)| *io == victim) {
            for region in 0..2 {
                let next = world.enter(claims[region]).0;
                if world.out.iter().any(|(io, _)| *io == held[region]) {
                    world.leave(held[region]);
                    held[region] = next;
                }
            }
            turns += 1;
            assert!(turns < 10, "claims that came later go before a write");
        }
        let mut world = World::new();
        let mut writes = vec![world.enter(wide).0];
        let (lock, went) = world.enter(claims[1]);
        assert!(!went);
        writes.push(world.enter(wide).0);
        assert_eq!(world.leave(writes[0]), [lock], "a write that came later waits");
        assert_eq!(world.leave(lock), [writes[1]]);
    }

    /// Every IO gets to the device in any order of events, and none together with a claim of its block.
    #[test]
    fn everybody_gets_through_and_none_beside_a_claim() {
        let mut seed = 9u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for _ in 0..200 {
            let mut world = World::new();
            let mut waiting = 0;
            for _ in 0..200 {
                if random(3) > 0 || world.out.is_empty() {
                    // The last regions and, beyond the end, the first again.
                    let range = at(REGIONS - 2 + random(4), random(3));
                    let footprint = match random(8) {
                        0..=2 => Footprint::Claim(range),
                        3 => Footprint::Everywhere,
                        4 => Footprint::Range(ByteRange { length: 3 * GRANULE, ..range }),
                        5 => Footprint::Nothing,
                        _ => Footprint::Range(range),
                    };
                    waiting += u32::from(!world.enter(footprint).1);
                } else {
                    let io = world.out[random(world.out.len() as u64) as usize].0;
                    waiting -= world.leave(io).len() as u32;
                }
            }
            while !world.out.is_empty() {
                let io = world.out[random(world.out.len() as u64) as usize].0;
                waiting -= world.leave(io).len() as u32;
            }
            assert_eq!((waiting, world.regions.claims.len()), (0, 0));
            assert!(world.regions.writers.iter().all(|count| *count == 0));
        }
    }
}
