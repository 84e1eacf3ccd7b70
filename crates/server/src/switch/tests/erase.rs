//! Erasures are charged their cost at any length, and let other tenants in between.

use super::*;
use crate::switch::erase::{COST_MIN, Erasure, PIECE_MAX};
use sched::Level;
use units::ByteRate;

/// Reads 2 bytes, writes or zeroes 1 byte per nanosecond, one IO after the other.
#[derive(Default)]
struct Serial {
    /// The completions of its IOs, in order, with the operation and the time.
    queue: VecDeque<(Instant, Instant, DeviceIo)>,
    done: Vec<DeviceDone>,
    time: Rc<RefCell<Time>>,
}

/// The device time that went to reads and to erasures.
#[derive(Clone, Copy, Debug, Default)]
struct Time {
    reads: Nanos,
    erasures: Nanos,
}

impl Device for Serial {
    fn clock(&self) -> DeviceClock {
        DeviceClock::REAL
    }

    fn quote(&self, _erase: Erase, _offset: u64, length: u64, most: Bytes) -> Quote {
        Quote::in_proportion(1, length, most)
    }

    fn submit(&mut self, now: Instant, _reactor: &mut Reactor, io: DeviceIo) {
        let mut time = self.time.borrow_mut();
        let takes = match io.op {
            DeviceOp::Read(_) => {
                let takes = Nanos::micros(5) + Nanos(io.length / 2);
                time.reads += takes;
                takes
            }
            _ => {
                let takes = Nanos::micros(5) + Nanos(io.length);
                time.erasures += takes;
                takes
            }
        };
        let free = self.queue.back().map_or(now, |(end, ..)| *end);
        self.queue.push_back((free + takes, now, io));
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

    fn poll(&mut self, now: Instant, _reactor: &mut Reactor) {
        while let Some((end, submitted, io)) = self.queue.pop_front_if(|(end, ..)| *end <= now) {
            let buffer = match io.op {
                DeviceOp::Read(buffer) => Some(buffer),
                _ => None,
            };
            let latency = end.since(submitted);
            self.done.push(DeviceDone { tag: io.tag, result: Ok(()), buffer, latency, late: Nanos::ZERO });
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        self.queue.front().map(|(end, ..)| *end)
    }

    fn take_finished(&mut self, done: &mut Vec<DeviceDone>) {
        done.append(&mut self.done);
    }
}

/// The use of a second in which Alice zeroes 64 MiB at a time, four at once, and Bob reads (or not), after three in which the scheduler
/// learnt the cost of both.
fn a_second(alice: Share, bob_reads: bool) -> Time {
    let time = Rc::new(RefCell::new(Time::default()));
    let device = Serial { time: Rc::clone(&time), ..Serial::default() };
    let mut switch: Switch<u32> = Switch::new(Box::new(Level::new()), Box::new(device));
    let mut reactor = Reactor::new(Backend::Auto).expect("a reactor");
    let mut pool = BufferPool::new(Bytes::mib(16));
    let begin = Instant(1_000_000_000);
    switch.set_share(begin, ALICE, alice).expect("no objective to refuse");
    let slot = |tenant: TenantId| {
        let work = match tenant {
            ALICE => Work::WriteZeroes { range: ByteRange { offset: 0, length: 64 << 20 }, durable: false },
            _ => Work::Read(ByteRange { offset: 0, length: 32 << 10 }),
        };
        IoSlot::new(tenant, Priority::default(), work, tenant.0)
    };
    (0..4).for_each(|_| arrive(&mut switch, begin, slot(ALICE)));
    let readers = if bob_reads { 32 } else { 0 };
    (0..readers).for_each(|_| arrive(&mut switch, begin, slot(BOB)));
    let mut now = begin;
    let (learnt, end) = (begin + Nanos::secs(3), begin + Nanos::secs(4));
    while now < end {
        switch.run(now, &mut reactor, &mut pool);
        let again = ended(&mut switch);
        let is_quiet = again.is_empty();
        for mut ended in again {
            ended.take_read().into_iter().for_each(|buffer| pool.give(buffer));
            arrive(&mut switch, now, slot(ended.tenant()));
        }
        if is_quiet {
            let before = now;
            now = switch.next_wake().expect("something is under way").max(now + Nanos(1));
            if before < learnt && now >= learnt {
                *time.borrow_mut() = Time::default();
            }
        }
    }
    *time.borrow()
}

#[test]
fn who_zeroes_without_end_gets_a_share_of_the_device_and_no_more() {
    let Time { reads, erasures } = a_second(Share::EQUAL, true);
    let percent = erasures.get() * 100 / (reads + erasures).get();
    assert!((10..=55).contains(&percent), "{percent} % of the device's time went to zeroing");
}

#[test]
fn a_limit_in_bytes_counts_what_is_zeroed() {
    let limit_rate = Some(ByteRate::mib_per_sec(50));
    let Time { erasures, .. } = a_second(Share { limit_rate, ..Share::EQUAL }, false);
    // 128 KiB pieces of 5 µs and a nanosecond per byte.
    let bytes = erasures.get() * (128 << 10) / ((128 << 10) + 5000);
    assert!(bytes.abs_diff(50 << 20) < 1 << 20, "{bytes} bytes were zeroed in a second");
}

#[test]
fn others_go_between_the_pieces_of_a_long_erasure() {
    let mut world = World::new(window(1), Bytes::mib(1));
    let range = ByteRange { offset: 0, length: 300 << 10 };
    world.arrive(0, ALICE, Work::WriteZeroes { range, durable: true });
    world.arrive(1, BOB, Work::Read(page(1000)));
    world.run();
    world.settle();
    assert_eq!(
        world.submitted(),
        [(0, "zeroes"), (1000, "read"), (32, "zeroes"), (64, "zeroes"), (0, "flush")]
    );
    assert_eq!(world.tags(), [1, 0]);
    assert_eq!(world.switch.policy().backlog(), sched::Backlog::default());
}

#[test]
fn what_is_left_of_an_erasure_survives_a_change_of_scheduler_and_can_be_taken_back() {
    let mut world = World::new(window(1), Bytes::mib(1));
    let range = ByteRange { offset: 0, length: 300 << 10 };
    world.arrive(0, ALICE, Work::Deallocate(vec![range]));
    world.run();
    world.switch.replace_policy(world.now, window(1));
    world.bench.borrow_mut().release();
    world.run();
    assert_eq!(
        world.submitted(),
        [(0, "discard"), (32, "discard")],
        "the second piece is the new scheduler's"
    );
    assert!(world.switch.station.retired() == 0);
    world.arrive(1, BOB, Work::Read(page(7)));
    world.bench.borrow_mut().release();
    world.run();
    // Bob's read is on the device, the third piece is queued.
    let (io, _) = world.switch.ios.iter().next().expect("it has not ended");
    assert!(world.switch.withdraw(world.now, io));
    assert_eq!(world.switch.ios.remove(io).map(|slot| slot.owner), Some(0));
    world.settle();
    assert_eq!(world.submitted().last(), Some(&(7, "read")));
    assert_eq!(world.switch.policy().backlog(), sched::Backlog::default());
}

#[test]
fn an_error_ends_an_erasure_at_the_piece_where_it_came() {
    let mut world = World::new(window(1), Bytes::mib(1));
    world.arrive(
        0,
        ALICE,
        Work::WriteZeroes { range: ByteRange { offset: 0, length: 1 << 20 }, durable: true },
    );
    world.run();
    world.bench.borrow_mut().release();
    world.run();
    world.bench.borrow_mut().refuse = true;
    world.settle();
    assert_eq!(world.submitted().len(), 2);
    assert_eq!(world.ended, [(0, Err("device"), None)]);
}

/// Any ranges, at any price: Deallocate takes up to 256 of them, each up to all of a namespace.
#[test]
fn the_pieces_are_the_whole() {
    let mut seed = 11u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    for shortcut in [1, 16, 256] {
        let device = HeldDevice { bench: Rc::default(), clock: DeviceClock::REAL, shortcut };
        for _ in 0..100 {
            let count = 1 + random(256);
            let mut begin = 0;
            let longest = [1, 8, 1000, 100_000][random(4) as usize];
            let ranges: Vec<ByteRange> = (0..count)
                .map(|_| {
                    let offset = begin + 512 * random(100);
                    let length = 512 * (1 + random(longest));
                    begin = offset + length;
                    ByteRange { offset, length }
                })
                .collect();
            let (mut erasure, mut steps, mut total) = (Erasure::default(), Vec::new(), Bytes::ZERO);
            loop {
                let cost = erasure.plan(&device, Erase::Forget, &ranges);
                assert!(cost >= COST_MIN && cost <= PIECE_MAX, "a piece costs {cost}");
                total += cost;
                while let Some(step) = erasure.step(&ranges) {
                    steps.push(step);
                    erasure.on_step(&ranges);
                }
                if erasure.is_last_piece(&ranges) {
                    break;
                }
            }
            // Steps that follow one another are one range again.
            let mut joined: Vec<ByteRange> = Vec::new();
            for step in steps {
                let is_begin = ranges.iter().any(|range| range.offset == step.offset);
                match joined.last_mut().filter(|_| !is_begin) {
                    Some(last) if last.offset + last.length == step.offset => last.length += step.length,
                    _ => joined.push(step),
                }
            }
            assert_eq!(joined, ranges);
            let whole: u64 = ranges.iter().map(|range| range.length.div_ceil(shortcut)).sum();
            let least = COST_MIN.get() * count;
            assert!(total.get() >= whole.max(least), "{total} for {whole} bytes in {count} ranges");
            assert!(
                total.get() <= whole + 2 * least + whole / 16,
                "{total} for {whole} bytes in {count} ranges"
            );
        }
    }
}
