//! A run has an end, whatever a device does within a submission.

use super::*;
use crate::device::NullDevice;

/// Ends everything within its submission, and counts submissions.
#[derive(Default)]
struct PromptDevice {
    null: NullDevice,
    submissions: Rc<RefCell<usize>>,
}

impl Device for PromptDevice {
    fn clock(&self) -> DeviceClock {
        self.null.clock()
    }
    fn quote(&self, erase: Erase, offset: u64, length: u64, most: Bytes) -> Quote {
        self.null.quote(erase, offset, length, most)
    }
    fn submit(&mut self, now: Instant, reactor: &mut Reactor, io: DeviceIo) {
        *self.submissions.borrow_mut() += 1;
        self.null.submit(now, reactor, io);
    }
    fn on_disk(
        &mut self,
        now: Instant,
        file: reactor::Token,
        tag: u64,
        result: io::Result<()>,
        buffer: Option<IoBuffer>,
    ) {
        self.null.on_disk(now, file, tag, result, buffer);
    }
    fn poll(&mut self, now: Instant, reactor: &mut Reactor) {
        self.null.poll(now, reactor);
    }
    fn next_wake(&self) -> Option<Instant> {
        self.null.next_wake()
    }
    fn take_finished(&mut self, done: &mut Vec<DeviceDone>) {
        self.null.take_finished(done);
    }
}

/// A world on such a device, and its number of submissions.
fn world(policy: Box<dyn Policy>) -> (World, Rc<RefCell<usize>>) {
    let mut world = World::new(window(1), Bytes::mib(1));
    let device = PromptDevice::default();
    let submissions = Rc::clone(&device.submissions);
    world.switch = Switch::new(policy, Box::new(device));
    (world, submissions)
}

#[test]
fn a_run_ends_though_the_device_ends_everything_at_once() {
    // A probe that only time ends: here the scheduler wants more reads than any run could do.
    let wishes = Arc::<Mutex<Wishes>>::default();
    let policy = Window { fifo: Fifo::default(), window: 8, wishes: Arc::clone(&wishes) };
    let (mut world, submissions) = world(Box::new(policy));
    world.arrive(0, ALICE, Work::Read(page(7)));
    let read = ExtraRead { tenant: ALICE, length: Bytes(PAGE) };
    wishes.lock().expect("no test panics with it").wants.extend(vec![read; 100_000]);
    for _ in 0..100 {
        world.run_once();
        assert!(std::mem::take(&mut *submissions.borrow_mut()) <= Turn::STEPS_MAX);
        assert!(world.switch.wants_run(), "the rest is for the next run");
    }
    world.arrive(1, BOB, Work::Read(page(8)));
    world.run_once();
    world.run_once();
    assert_eq!(world.tags(), [0, 1], "another tenant is served meanwhile");
}

#[test]
fn a_run_ends_whatever_is_deallocated() {
    let (mut world, submissions) = world(window(64));
    for tag in 0..100 {
        let ranges = (0..256).map(|range| ByteRange { offset: range << 40, length: 1 << 40 }).collect();
        world.arrive(tag, ALICE, Work::Deallocate(ranges));
    }
    world.run_once();
    assert!(*submissions.borrow() <= Turn::STEPS_MAX, "{}", submissions.borrow());
    world.arrive(100, BOB, Work::Read(page(0)));
    for _ in 0..8 {
        world.run_once();
    }
    assert_eq!(world.tags(), [100], "a read does not wait for the end of the world");
}

#[test]
fn a_run_ends_though_many_writes_wait_for_one_claim() {
    let mut world = World::new(window(1024), Bytes::mib(1));
    world.host = BufferPool::new(Bytes::mib(16));
    let lock = compare_and_write(&mut world, 3, 0, 1);
    world.arrive(0, ALICE, lock);
    world.run();
    for tag in 1..1000 {
        let work = write(&mut world, 3, tag as u8);
        world.arrive(tag, BOB, work);
    }
    world.run();
    assert_eq!(world.submitted().len(), 1, "all writes wait for the compare and write");
    for _ in 0..2 {
        world.bench.borrow_mut().release();
        world.run_once();
    }
    assert!(world.submitted().len() <= 2 + Turn::STEPS_MAX, "{}", world.submitted().len());
    world.settle();
    assert_eq!(world.tags().len(), 1000);
}
