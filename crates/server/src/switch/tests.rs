//! The switch between a real scheduler and a device that completes on command.

mod bounds;
mod clock;
mod copy;
mod erase;
mod extra_reads;

use super::*;
use crate::device::{DeviceIo, DeviceOp, Erase, Quote};
use crate::slab::steps;
use reactor::{Backend, Token};
use sched::{
    DeviceConstants, ExtraRead, Fifo, Flashfq, FlashfqConfig, Gimbal, GimbalConfig, LinearCost, Millitokens,
    Next, Priority, Reflex, ReflexConfig, SupplyPoint, Ticket, TokenRate,
};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};
use units::Bytes;

const ALICE: TenantId = TenantId(0);
const BOB: TenantId = TenantId(1);
const PAGE: u64 = 4096;

/// The state of the device that the test sees.
#[derive(Default)]
struct Bench {
    held: VecDeque<DeviceIo>,
    released: Vec<DeviceDone>,
    submitted: Vec<(u64, &'static str)>,
    contents: HashMap<u64, u8>,
    refuse: bool,
}

/// A device that holds every IO until the test releases it. Each page holds one repeated byte.
struct HeldDevice {
    bench: Rc<RefCell<Bench>>,
    clock: DeviceClock,
    /// Bytes erased for the cost of one.
    shortcut: u64,
}

impl Bench {
    /// Completes everything that is held.
    fn release(&mut self) {
        while let Some(io) = self.held.pop_front() {
            let refused = self.refuse.then(|| Err(io::ErrorKind::Other.into()));
            let buffer = match io.op {
                DeviceOp::Read(mut buffer) => {
                    for (page, bytes) in buffer.chunks_mut(PAGE as usize).enumerate() {
                        bytes
                            .fill(self.contents.get(&(io.offset / PAGE + page as u64)).copied().unwrap_or(0));
                    }
                    Some(buffer)
                }
                DeviceOp::Write { buffer, .. } => {
                    for (page, bytes) in buffer.chunks(PAGE as usize).enumerate() {
                        self.contents.insert(io.offset / PAGE + page as u64, bytes[0]);
                    }
                    Some(buffer)
                }
                _ => None,
            };
            let result = refused.unwrap_or(Ok(()));
            let latency = Nanos::micros(100);
            self.released.push(DeviceDone { tag: io.tag, result, buffer, latency, late: Nanos::ZERO });
        }
    }
}

impl Device for HeldDevice {
    fn clock(&self) -> DeviceClock {
        self.clock
    }

    fn quote(&self, _erase: Erase, _offset: u64, length: u64, most: Bytes) -> Quote {
        Quote::in_proportion(self.shortcut, length, most)
    }

    fn submit(&mut self, _now: Instant, _reactor: &mut Reactor, io: DeviceIo) {
        let name = match io.op {
            DeviceOp::Read(_) => "read",
            DeviceOp::Write { .. } => "write",
            DeviceOp::Flush => "flush",
            DeviceOp::Discard => "discard",
            DeviceOp::WriteZeroes => "zeroes",
        };
        let mut bench = self.bench.borrow_mut();
        bench.submitted.push((io.offset / PAGE, name));
        bench.held.push_back(io);
    }

    fn on_disk(
        &mut self,
        _now: Instant,
        _file: Token,
        _tag: u64,
        _result: io::Result<()>,
        _buffer: Option<IoBuffer>,
    ) {
        unreachable!("no disk here");
    }

    fn poll(&mut self, _now: Instant, _reactor: &mut Reactor) {}

    fn next_wake(&self) -> Option<Instant> {
        None
    }

    fn take_finished(&mut self, done: &mut Vec<DeviceDone>) {
        done.append(&mut self.bench.borrow_mut().released);
    }
}

/// A scheduler that lets at most `window` IOs out, and then wants something of its own.
struct Window {
    fifo: Fifo,
    window: usize,
    wishes: Arc<Mutex<Wishes>>,
}

/// Reads that a scheduler wants for itself, and their results.
#[derive(Default)]
struct Wishes {
    wants: VecDeque<ExtraRead>,
    /// The latency of each, if it was done.
    told: Vec<Option<Nanos>>,
}

impl Window {
    fn wishes(&self) -> MutexGuard<'_, Wishes> {
        self.wishes.lock().expect("no test panics with it")
    }
}

impl Policy for Window {
    fn on_arrival(&mut self, now: Instant, io: Io) -> Ticket {
        self.fifo.on_arrival(now, io)
    }
    fn next(&mut self, now: Instant) -> Next {
        let has_room = self.fifo.backlog().in_flight < self.window;
        match if has_room { self.fifo.next(now) } else { Next::Idle } {
            Next::Idle => self.wishes().wants.pop_front().map_or(Next::Idle, Next::Extra),
            next => next,
        }
    }
    fn on_extra_read(&mut self, _now: Instant, _read: ExtraRead, outcome: Outcome) {
        self.wishes().told.push(match outcome {
            Outcome::Success { latency } => Some(latency),
            Outcome::Failed => None,
        });
    }
    fn on_completion(&mut self, now: Instant, done: Done) -> sched::Credit {
        self.fifo.on_completion(now, done);
        sched::Credit(self.window as u32)
    }
    fn withdraw_one(&mut self, now: Instant, tenant: TenantId, ticket: Ticket) -> Io {
        self.fifo.withdraw_one(now, tenant, ticket)
    }
    fn withdraw(&mut self, now: Instant, tenant: TenantId, gone: &mut dyn FnMut(&Io) -> bool) {
        self.fifo.withdraw(now, tenant, gone);
    }
    fn forget(&mut self, _now: Instant, _tenant: TenantId) {}
    fn set_share(&mut self, _now: Instant, _tenant: TenantId, _share: Share) {}
    fn credit(&self, _tenant: TenantId) -> sched::Credit {
        sched::Credit(self.window as u32)
    }
    fn backlog(&self) -> sched::Backlog {
        self.fifo.backlog()
    }
}

fn window(window: usize) -> Box<dyn Policy> {
    Box::new(Window { fifo: Fifo::default(), window, wishes: Arc::default() })
}

struct World {
    switch: Switch<u32>,
    bench: Rc<RefCell<Bench>>,
    reactor: Reactor,
    /// Where reads get their buffers.
    pool: BufferPool,
    /// Where the test gets the buffers of writes.
    host: BufferPool,
    ended: Vec<(u32, Result<(), &'static str>, Option<u8>)>,
    /// Those that were counted as done.
    measured: Vec<u32>,
    now: Instant,
}

impl World {
    fn new(policy: Box<dyn Policy>, pool: Bytes) -> World {
        World::on_clock(policy, pool, DeviceClock::REAL)
    }

    fn on_clock(policy: Box<dyn Policy>, pool: Bytes, clock: DeviceClock) -> World {
        let bench = Rc::new(RefCell::new(Bench::default()));
        World {
            switch: Switch::new(
                policy,
                Box::new(HeldDevice { bench: Rc::clone(&bench), clock, shortcut: 1 }),
            ),
            bench,
            reactor: Reactor::new(Backend::Auto).expect("a reactor"),
            pool: BufferPool::new(pool),
            host: BufferPool::new(Bytes::mib(1)),
            ended: Vec::new(),
            measured: Vec::new(),
            now: Instant(1),
        }
    }

    fn arrive(&mut self, tag: u32, tenant: TenantId, work: Work) {
        self.now += Nanos(1);
        arrive(&mut self.switch, self.now, IoSlot::new(tenant, Priority::default(), work, tag));
    }

    /// Runs until no step is left at this moment.
    fn run(&mut self) {
        self.now += Nanos(1);
        self.run_once();
        while self.switch.wants_run() {
            self.run_once();
        }
    }

    fn run_once(&mut self) {
        self.switch.run(self.now, &mut self.reactor, &mut self.pool);
        for mut slot in ended(&mut self.switch) {
            self.measured.extend(slot.was_served().then_some(slot.owner));
            let first = slot.take_read().map(|buffer| buffer[0]);
            self.ended.push((slot.owner, slot.take_result().map_err(name), first));
        }
    }

    /// Runs until nothing moves any more, completing whatever reaches the device.
    fn settle(&mut self) {
        while self.switch.ios.len() > 0 {
            self.bench.borrow_mut().release();
            self.run();
        }
    }

    fn submitted(&self) -> Vec<(u64, &'static str)> {
        self.bench.borrow().submitted.clone()
    }

    fn tags(&self) -> Vec<u32> {
        self.ended.iter().map(|(tag, ..)| *tag).collect()
    }

    fn page_of(&mut self, byte: u8) -> IoBuffer {
        let mut buffer = self.host.take(PAGE as usize).expect("the test takes few");
        buffer.fill(byte);
        buffer
    }
}

fn arrive(switch: &mut Switch<u32>, now: Instant, slot: IoSlot<u32>) {
    let key = switch.ios.insert(slot);
    switch.arrive(now, key);
}

/// The slots of IOs that ended.
fn ended(switch: &mut Switch<u32>) -> Vec<IoSlot<u32>> {
    let mut keys = Vec::new();
    switch.take_ended(&mut keys);
    keys.into_iter().map(|key| switch.ios.remove(key).expect("it ended once")).collect()
}

fn name(failure: Failure) -> &'static str {
    match failure {
        Failure::Device(_) => "device",
        Failure::Unread(_) => "unread",
        Failure::Copy { range, is_read: true, .. } => ["copy 0 unread", "copy 1 unread"][range as usize],
        Failure::Copy { range, is_read: false, .. } => {
            ["copy 0 unwritten", "copy 1 unwritten"][range as usize]
        }
        Failure::Miscompare => "miscompare",
        Failure::Withdrawn => "withdrawn",
    }
}

fn page(number: u64) -> ByteRange {
    ByteRange { offset: number * PAGE, length: PAGE }
}

#[test]
fn what_was_written_is_read_compared_and_verified() {
    let mut world = World::new(window(1), Bytes::mib(1));
    let buffer = Some(world.page_of(7));
    world.arrive(0, ALICE, Work::Write { range: page(3), buffer, durable: true });
    world.arrive(1, ALICE, Work::Read(page(3)));
    let (same, other) = (world.page_of(7), world.page_of(8));
    world.arrive(2, ALICE, Work::Compare { range: page(3), expected: same });
    world.arrive(3, ALICE, Work::Compare { range: page(3), expected: other });
    world.arrive(4, ALICE, Work::Verify(ByteRange { offset: 0, length: 300 << 10 }));
    world.run();
    world.settle();
    let expected = [
        (0, Ok(()), None),
        (1, Ok(()), Some(7)),
        (2, Ok(()), None),
        (3, Err("miscompare"), None),
        (4, Ok(()), None),
    ];
    assert_eq!(world.ended, expected);
    assert_eq!(
        world.measured,
        [0, 1, 2, 3, 4],
        "a comparison that finds a difference was a read like any other"
    );
    assert_eq!((world.pool.lent(), world.host.lent()), (Bytes::ZERO, Bytes::ZERO));
}

fn compare_and_write(world: &mut World, number: u64, expected: u8, written: u8) -> Work {
    let halves = Halves { expected: world.page_of(expected), written: Some(world.page_of(written)) };
    Work::CompareAndWrite { range: page(number), halves: Box::new(halves), durable: false }
}

fn write(world: &mut World, number: u64, byte: u8) -> Work {
    Work::Write { range: page(number), buffer: Some(world.page_of(byte)), durable: false }
}

#[test]
fn a_compare_and_write_writes_only_what_was_expected_to_be_there() {
    let mut world = World::new(window(1), Bytes::mib(1));
    let works = [
        write(&mut world, 3, 7),
        compare_and_write(&mut world, 3, 7, 8),
        compare_and_write(&mut world, 3, 7, 9),
        Work::Read(page(3)),
    ];
    for (tag, work) in (0..).zip(works) {
        world.arrive(tag, ALICE, work);
    }
    world.run();
    world.settle();
    assert_eq!(
        world.ended,
        [(0, Ok(()), None), (1, Ok(()), None), (2, Err("miscompare"), None), (3, Ok(()), Some(8))]
    );
    let steps = ["write", "read", "write", "read", "read"].map(|step| (3, step));
    assert_eq!(world.submitted(), steps);
    assert_eq!((world.pool.lent(), world.host.lent()), (Bytes::ZERO, Bytes::ZERO));
}

/// Whatever is on the device already, and whatever comes meanwhile, of whomever.
#[test]
fn no_write_comes_between_a_compare_and_its_write() {
    let mut world = World::new(window(64), Bytes::mib(1));
    let first = write(&mut world, 3, 7);
    world.arrive(0, BOB, first);
    world.run();
    let lock = compare_and_write(&mut world, 3, 7, 8);
    let late = write(&mut world, 3, 9);
    let again = compare_and_write(&mut world, 3, 9, 10);
    world.arrive(1, ALICE, lock);
    world.arrive(2, BOB, late);
    world.arrive(3, ALICE, again);
    world.arrive(4, BOB, Work::Read(page(3)));
    world.arrive(5, BOB, Work::Deallocate(vec![page(3), page(40)]));
    let elsewhere = write(&mut world, 100, 1);
    world.arrive(6, BOB, elsewhere);
    world.run();
    assert_eq!(
        world.submitted(),
        [(3, "write"), (3, "read"), (100, "write")],
        "reads and writes elsewhere go on; the compare waits for the write that is on the device"
    );
    world.settle();
    let of_page: Vec<&str> =
        world.submitted().iter().filter(|(page, _)| *page == 3).map(|(_, step)| *step).collect();
    assert_eq!(
        of_page,
        ["write", "read", "read", "write", "write", "read", "write", "discard"],
        "each compare and its write are beside each other"
    );
    let results: Vec<(u32, Result<(), &str>)> =
        world.ended.iter().map(|(tag, result, _)| (*tag, *result)).collect();
    for tag in 0..7 {
        assert!(results.contains(&(tag, Ok(()))), "{tag}: {results:?}");
    }
    assert_eq!((world.pool.lent(), world.host.lent()), (Bytes::ZERO, Bytes::ZERO));
}

#[test]
fn a_compare_that_cannot_be_read_writes_nothing_and_lets_the_others_go_on() {
    let mut world = World::new(window(64), Bytes::mib(1));
    world.bench.borrow_mut().refuse = true;
    let (lock, after) = (compare_and_write(&mut world, 3, 0, 8), write(&mut world, 3, 9));
    world.arrive(0, ALICE, lock);
    world.arrive(1, BOB, after);
    world.run();
    world.bench.borrow_mut().release();
    world.bench.borrow_mut().refuse = false;
    world.run();
    world.settle();
    assert_eq!(world.ended, [(0, Err("unread"), None), (1, Ok(()), None)]);
    assert_eq!(world.submitted(), [(3, "read"), (3, "write")]);
    assert_eq!((world.pool.lent(), world.host.lent()), (Bytes::ZERO, Bytes::ZERO));
}

fn copying(sources: &[(u64, u64)], to: u64) -> Work {
    let range = |&(number, pages): &(u64, u64)| ByteRange { offset: number * PAGE, length: pages * PAGE };
    Work::Copy(Box::new(Copying::new(sources.iter().map(range).collect(), to * PAGE, false, None)))
}

#[test]
fn a_copy_moves_every_byte_and_queues_up_for_each_piece() {
    // One buffer of 64 KiB: no piece holds another one's memory.
    let mut world = World::new(window(1), Bytes::kib(64));
    for number in 0..40 {
        world.bench.borrow_mut().contents.insert(number, number as u8 + 1);
    }
    world.arrive(0, ALICE, copying(&[(0, 20), (30, 3)], 100));
    world.arrive(1, BOB, Work::Read(page(0)));
    world.run();
    world.settle();
    let expected: Vec<u8> = (1..=20).chain(31..=33).collect();
    let copied: Vec<u8> = (0..23)
        .map(|number| world.bench.borrow().contents.get(&(100 + number)).copied().unwrap_or(0))
        .collect();
    assert_eq!(copied, expected);
    assert_eq!(world.bench.borrow().contents.get(&123), None);
    let steps = [
        (0, "read"),
        (100, "write"),
        (0, "read"),
        (16, "read"),
        (116, "write"),
        (30, "read"),
        (120, "write"),
    ];
    assert_eq!(world.submitted(), steps, "the other tenant's read goes in between");
    assert_eq!(world.tags(), [1, 0]);
    assert_eq!(world.pool.lent(), Bytes::ZERO);
    assert_eq!(world.switch.policy().backlog(), sched::Backlog::default());
}

#[test]
fn a_copy_that_fails_says_how_far_it_came() {
    let mut world = World::new(window(1), Bytes::mib(1));
    world.arrive(0, ALICE, copying(&[(0, 1), (5, 1)], 100));
    world.run();
    // Read and written; the read of the second range is dropped.
    for _ in 0..2 {
        world.bench.borrow_mut().release();
        world.run();
    }
    world.bench.borrow_mut().refuse = true;
    world.settle();
    assert_eq!(world.ended, [(0, Err("copy 1 unread"), None)]);
    assert_eq!(world.pool.lent(), Bytes::ZERO);
    assert_eq!(world.switch.policy().backlog(), sched::Backlog::default());
}

#[test]
fn a_copy_goes_on_when_the_scheduler_changes() {
    let mut world = World::new(window(1), Bytes::mib(1));
    world.bench.borrow_mut().contents.insert(17, 9);
    world.arrive(0, ALICE, copying(&[(0, 40)], 100));
    world.run();
    world.switch.replace_policy(world.now, window(3));
    world.bench.borrow_mut().release();
    world.run();
    world.bench.borrow_mut().release();
    world.run();
    assert!(world.switch.station.retired() == 0, "the old one had a piece, which is over");
    world.settle();
    assert_eq!(world.bench.borrow().contents.get(&117), Some(&9));
    assert_eq!((world.tags(), world.switch.policy().backlog()), (vec![0], sched::Backlog::default()));
}

#[test]
fn an_io_of_several_steps_takes_them_one_after_the_other() {
    let mut world = World::new(window(2), Bytes::mib(1));
    world.arrive(0, ALICE, Work::Deallocate(vec![page(1), page(5), page(9)]));
    world.arrive(1, ALICE, Work::WriteZeroes { range: page(2), durable: true });
    world.run();
    assert_eq!(world.submitted(), [(1, "discard"), (2, "zeroes")]);
    world.settle();
    assert_eq!(
        world.submitted(),
        [(1, "discard"), (2, "zeroes"), (5, "discard"), (2, "flush"), (9, "discard")]
    );
    assert_eq!(world.tags(), [1, 0]);
}

#[test]
fn a_device_error_reaches_the_host_and_returns_the_buffers() {
    let mut world = World::new(window(8), Bytes::mib(1));
    world.bench.borrow_mut().refuse = true;
    let buffer = Some(world.page_of(1));
    world.arrive(0, ALICE, Work::Write { range: page(0), buffer, durable: false });
    world.arrive(1, ALICE, Work::Read(page(0)));
    world.arrive(2, ALICE, Work::Deallocate(vec![page(0), page(1)]));
    world.run();
    world.settle();
    assert!(world.ended.iter().all(|(_, result, read)| *result == Err("device") && read.is_none()));
    assert_eq!(world.tags(), [0, 1, 2]);
    assert!(world.measured.is_empty());
    assert_eq!((world.pool.lent(), world.host.lent()), (Bytes::ZERO, Bytes::ZERO));
}

#[test]
fn reads_that_wait_for_memory_go_on_when_a_buffer_comes_back() {
    let mut world = World::new(window(64), Bytes(2 * PAGE));
    (0..7).for_each(|tag| world.arrive(tag, ALICE, Work::Read(page(u64::from(tag)))));
    world.run();
    assert_eq!(world.submitted().len(), 2, "two buffers fit");
    world.settle();
    assert_eq!(world.tags(), [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_withdrawn_io_never_reaches_the_device() {
    let mut world = World::new(window(4), Bytes(2 * PAGE));
    for tag in 0..8 {
        let tenant = if tag % 2 == 0 { ALICE } else { BOB };
        world.arrive(tag, tenant, Work::Read(page(u64::from(tag))));
    }
    world.run();
    // Two are on the device, two wait for memory, four are queued.
    let ios: Vec<Key> =
        world.switch.ios.iter().filter(|(_, slot)| slot.tenant() == ALICE).map(|(key, _)| key).collect();
    let (switch, now) = (&mut world.switch, world.now);
    let withdrawn = ios.into_iter().filter(|io| switch.withdraw(now, *io)).collect::<Vec<_>>();
    let tags = withdrawn.into_iter().map(|io| switch.ios.remove(io).expect("it has its slot").owner);
    assert_eq!(tags.collect::<Vec<_>>(), [2, 4, 6]);
    world.settle();
    assert_eq!(world.submitted(), [(0, "read"), (1, "read"), (3, "read"), (5, "read"), (7, "read")]);
    assert_eq!(world.tags(), [0, 1, 3, 5, 7]);
    assert_eq!(world.switch.policy().backlog(), sched::Backlog::default());
}

#[test]
fn an_io_taken_back_between_two_steps_takes_no_other() {
    let mut world = World::new(window(2), Bytes::mib(1));
    world.arrive(0, ALICE, Work::Deallocate(vec![page(1), page(5), page(9)]));
    world.arrive(1, ALICE, Work::WriteZeroes { range: page(2), durable: true });
    world.arrive(2, ALICE, Work::WriteZeroes { range: page(3), durable: false });
    world.run();
    let ios: Vec<Key> = world.switch.ios.iter().map(|(key, _)| key).collect();
    let ended: Vec<bool> = ios.iter().map(|io| world.switch.withdraw(world.now, *io)).collect();
    assert_eq!(ended, [false, false, true], "two are on the device, one is queued");
    world.switch.ios.free(ios[2]);
    ios[..2].iter().for_each(|io| world.switch.stop(*io));
    world.settle();
    assert_eq!(world.submitted(), [(1, "discard"), (2, "zeroes")]);
    assert_eq!(world.ended, [(0, Err("withdrawn"), None), (1, Err("withdrawn"), None)]);
    assert_eq!(world.switch.policy().backlog(), sched::Backlog::default());
}

/// A tenant on the device, waiting for memory, and queued; a few and many of them.
#[test]
fn a_withdrawal_costs_no_more_the_more_ios_there_are() {
    let most_of = |ios: u32| {
        let mut world = World::new(window(ios as usize / 2), Bytes(2 * PAGE));
        (0..ios).for_each(|tag| world.arrive(tag, ALICE, Work::Read(page(u64::from(tag)))));
        world.run();
        let mut keys: Vec<Key> = world.switch.ios.iter().map(|(key, _)| key).collect();
        keys.sort_by_key(|key| key.to_bits().wrapping_mul(0x2545_f491_4f6c_dd1d));
        let mut most = 0;
        for key in keys {
            let before = steps::so_far();
            let has_ended = world.switch.withdraw(world.now, key);
            most = most.max(steps::so_far() - before);
            if has_ended {
                world.switch.ios.free(key);
            }
        }
        assert_eq!(world.switch.ios.len(), 2, "two are on the device");
        world.settle();
        most
    };
    let (few, many) = (most_of(1 << 10), most_of(1 << 16));
    assert_eq!(few, many);
}

#[test]
fn nothing_is_lost_when_the_scheduler_changes() {
    let mut world = World::new(window(2), Bytes::mib(1));
    for tag in 0..10 {
        let tenant = if tag % 3 == 0 { ALICE } else { BOB };
        world.arrive(tag, tenant, Work::Read(page(u64::from(tag))));
    }
    world.run();
    world.switch.replace_policy(world.now, window(3));
    world.run();
    assert_eq!(world.submitted().len(), 5, "two of the old scheduler, three of the new");
    world.switch.replace_policy(world.now, Box::new(Fifo::default()));
    assert_eq!(world.switch.station.retired(), 2);
    world.run();
    world.settle();
    assert_eq!(world.tags(), (0..10).collect::<Vec<_>>());
    assert!(world.switch.station.retired() == 0);
    assert_eq!(world.switch.policy().backlog(), sched::Backlog::default());
}

/// All schedulers by turns, with IOs of several tenants and classes queued and in flight each time.
#[test]
fn order_within_a_class_survives_a_change_of_scheduler_and_slots_come_back() {
    const TENANTS: u32 = 3;
    const ROUNDS: u32 = 12;
    const ARRIVALS: u32 = 60;
    let gimbal =
        || -> Box<dyn Policy> { Box::new(Gimbal::new(GimbalConfig::published(DeviceConstants::DCT983))) };
    let point = |rate| SupplyPoint { latency_p95: Nanos::millis(1), mixed: rate, read_only: rate };
    let supply = vec![point(TokenRate::tokens_per_sec(100_000_000))];
    let reflex = || -> Box<dyn Policy> {
        let (read, write) = (Millitokens::TOKEN, Millitokens::tokens(10));
        Box::new(Reflex::new(ReflexConfig::new(read, write, supply.clone())))
    };
    let cost = LinearCost { base: Nanos(1000), per_kib: Nanos(100) };
    let flashfq = || -> Box<dyn Policy> {
        let (throttle, anticipation) = (Nanos::micros(10), Nanos(5));
        Box::new(Flashfq::new(FlashfqConfig { reads: cost, writes: cost, depth: 5, throttle, anticipation }))
    };
    let mut world = World::new(window(5), Bytes::mib(64));
    let mut expected: HashMap<(u32, u32), Vec<u64>> = HashMap::new();
    for tag in 0..ROUNDS * ARRIVALS {
        let (tenant, class) = (tag * 7 % 11 % TENANTS, tag * 5 % 13 % 2);
        world.now += Nanos(1);
        let priority = Priority::new(class as u8 + 1).expect("there are four classes");
        let work = Work::Read(page(u64::from(tag)));
        arrive(&mut world.switch, world.now, IoSlot::new(TenantId(tenant), priority, work, tag));
        expected.entry((tenant, class)).or_default().push(u64::from(tag));
        if tag % ARRIVALS == ARRIVALS / 2 {
            world.run();
            let next = match tag / ARRIVALS % 4 {
                0 => gimbal(),
                1 => reflex(),
                2 => flashfq(),
                _ => window(5),
            };
            world.switch.replace_policy(world.now, next);
        }
        if tag.is_multiple_of(15) {
            world.bench.borrow_mut().release();
            world.run();
        }
    }
    world.switch.replace_policy(world.now, gimbal());
    world.settle();
    for ((tenant, class), arrived) in expected {
        let is_of = |tag: u64| (tag * 7 % 11 % u64::from(TENANTS), tag * 5 % 13 % 2);
        let dispatched: Vec<u64> = world.submitted().iter().map(|(page, _)| *page).collect();
        let of_class = dispatched.into_iter().filter(|&tag| is_of(tag) == (tenant.into(), class.into()));
        assert_eq!(of_class.collect::<Vec<_>>(), arrived, "tenant {tenant}, class {class}");
        let view = world.switch.policy().tenant_view(TenantId(tenant)).expect("Gimbal has seen the tenant");
        assert_eq!((view.slots_busy, view.queued, view.in_flight), (0, 0, 0));
    }
    let mut tags = world.tags();
    tags.sort_unstable();
    assert_eq!(tags, (0..ROUNDS * ARRIVALS).collect::<Vec<_>>(), "every IO ended once");
    assert!(world.switch.station.retired() == 0);
    assert_eq!(world.switch.policy().backlog(), sched::Backlog::default());
}
