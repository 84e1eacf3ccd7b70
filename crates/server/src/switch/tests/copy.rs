//! Copies together with other tenants: their admission, and the service of a neighbour.

use super::*;
use crate::device::emulated::{Contents, EmulatedDevice};
use sched::Level;
use ssd::{Condition, Image, Profile, Ssd};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The way to a host and back.
const NETWORK: Nanos = Nanos::micros(20);
const PIECE: u64 = 64 << 10;
const GIB: u64 = 1 << 30;

/// The largest number of IOs that `policy` ever has on the device while a tenant has these outstanding, and a neighbour one read.
fn most_on_device(policy: Box<dyn Policy>, work: impl Fn(&mut World) -> Work) -> usize {
    let mut world = World::new(policy, Bytes::mib(16));
    world.host = BufferPool::new(Bytes::mib(16));
    for tag in 0..64 {
        let work = work(&mut world);
        world.arrive(tag, ALICE, work);
    }
    world.arrive(64, BOB, Work::Read(page(0)));
    let mut most = 0;
    while world.switch.ios.len() > 0 {
        world.run();
        most = most.max(world.bench.borrow().held.len());
        world.bench.borrow_mut().release();
        world.now += Nanos::micros(100);
    }
    most
}

#[test]
fn pieces_of_copies_are_let_in_like_writes_of_twice_their_length() {
    let policies: [fn() -> Box<dyn Policy>; 2] = [
        || Box::new(Level::new()),
        || Box::new(Gimbal::new(GimbalConfig::published(DeviceConstants::DCT983))),
    ];
    for policy in policies {
        let writes = most_on_device(policy(), |world| Work::Write {
            range: ByteRange { offset: 0, length: 2 * PIECE },
            buffer: world.host.take(2 * PIECE as usize),
            durable: false,
        });
        let copies = most_on_device(policy(), |_| copying(&[(0, 4 * PIECE / PAGE)], GIB / PAGE));
        assert!(writes < 64, "the scheduler keeps some waiting");
        assert_eq!(copies, writes);
    }
}

/// Work of a tenant that always has the same number of IOs outstanding.
#[derive(Clone, Copy, Debug)]
enum Load {
    Reads,
    /// Reads and writes of as much as a piece of a copy, in equal parts.
    Pieces,
    Copies,
}

/// Level before an SSD, in virtual time.
struct Run {
    switch: Switch<u32>,
    reactor: Reactor,
    pool: BufferPool,
    host: BufferPool,
    now: Instant,
    loads: [Load; 2],
    /// When a tenant sends its next IOs.
    arrivals: BinaryHeap<Reverse<(Instant, u32)>>,
    random: u64,
}

impl Run {
    /// A reader with one IO outstanding, together with 64 of `load`.
    fn new(profile: &str, condition: Condition, load: Load) -> Run {
        let profile = Profile::named(profile).expect("it comes with gimbal");
        let model = Ssd::from_image(&Image::new(&profile, condition, 1));
        let device = EmulatedDevice::new(model, DeviceClock::REAL, Contents::Nothing);
        let tenants = std::iter::once(0).chain([1; 64]);
        Run {
            switch: Switch::new(Box::new(Level::new()), Box::new(device)),
            reactor: Reactor::new(Backend::Auto).expect("a reactor"),
            pool: BufferPool::new(Bytes::mib(64)),
            host: BufferPool::new(Bytes::mib(64)),
            now: Instant(0),
            loads: [Load::Reads, load],
            arrivals: tenants.map(|tenant| Reverse((Instant(1), tenant))).collect(),
            random: 1,
        }
    }

    /// A multiple of `length` within the first GiB.
    fn place(&mut self, length: u64) -> ByteRange {
        let random = self.random.wrapping_mul(6_364_136_223_846_793_005);
        self.random = random.wrapping_add(1_442_695_040_888_963_407);
        ByteRange { offset: (self.random >> 33) % (GIB / length) * length, length }
    }

    fn work(&mut self, load: Load) -> Work {
        match load {
            Load::Reads => Work::Read(self.place(PAGE)),
            Load::Pieces => match self.place(PIECE) {
                range if self.random >> 63 == 0 => Work::Read(range),
                range => Work::Write { range, buffer: self.host.take(PIECE as usize), durable: false },
            },
            Load::Copies => {
                let (from, to) = (self.place(16 * PIECE), self.place(16 * PIECE));
                Work::Copy(Box::new(Copying::new(vec![from], GIB + to.offset, false, None)))
            }
        }
    }

    /// The IOs of the reader until `end`.
    fn reads_until(&mut self, end: Instant) -> u32 {
        let mut reads = 0;
        while self.now < end {
            let arrival = self.arrivals.peek().map(|Reverse((at, _))| *at);
            let next = self.switch.next_wake().into_iter().chain(arrival).min();
            self.now = self.now.max(next.expect("a closed loop never ends"));
            while self.arrivals.peek().is_some_and(|Reverse((at, _))| *at <= self.now) {
                let Reverse((_, tenant)) = self.arrivals.pop().expect("there is one");
                let work = self.work(self.loads[tenant as usize]);
                let slot = IoSlot::new(TenantId(tenant), Priority::default(), work, tenant);
                arrive(&mut self.switch, self.now, slot);
            }
            self.switch.run(self.now, &mut self.reactor, &mut self.pool);
            for mut slot in ended(&mut self.switch) {
                reads += u32::from(slot.owner == 0);
                slot.take_read().into_iter().for_each(|buffer| self.pool.give(buffer));
                if let Spent::One(buffer) = slot.work.take_buffers() {
                    self.host.give(buffer);
                }
                self.arrivals.push(Reverse((self.now + NETWORK, slot.owner)));
            }
        }
        reads
    }
}

/// From the first seconds on, in which nothing is known of the SSD.
#[test]
fn a_neighbour_of_copies_has_what_it_has_beside_the_same_reads_and_writes() {
    let two_seconds = Instant(2_000_000_000);
    for profile in ["dct983", "consumer-qlc", "consumer-slc"] {
        for condition in [Condition::Clean, Condition::Fragmented] {
            let [pieces, copies] = [Load::Pieces, Load::Copies]
                .map(|load| Run::new(profile, condition, load).reads_until(two_seconds));
            println!("{profile}, {condition:?}: {copies} reads beside copies, {pieces} beside as large IOs");
            assert!(copies * 4 >= pieces * 3, "{profile}, {condition:?}: {copies} and {pieces}");
        }
    }
}
