//! A scheduler's own reads reach the device, end, and do not disturb others.

use super::*;

struct Test {
    world: World,
    wishes: Arc<Mutex<Wishes>>,
}

impl Test {
    fn new(pool: Bytes) -> Test {
        let wishes = Arc::<Mutex<Wishes>>::default();
        let policy = Window { fifo: Fifo::default(), window: 8, wishes: Arc::clone(&wishes) };
        Test { world: World::new(Box::new(policy), pool), wishes }
    }

    /// Alice reads this page, and then the scheduler wants `count` reads near it, of this length.
    fn want(&mut self, at: u64, count: usize, length: u64) {
        self.world.arrive(0, ALICE, Work::Read(page(at)));
        let read = ExtraRead { tenant: ALICE, length: Bytes(length) };
        self.wishes.lock().expect("no test panics with it").wants.extend(vec![read; count]);
        self.world.run();
    }

    fn told(&self) -> Vec<Option<Nanos>> {
        self.wishes.lock().expect("no test panics with it").told.clone()
    }
}

#[test]
fn extra_reads_are_near_the_last_read_and_end_once() {
    let far = 1 << 20;
    let mut test = Test::new(Bytes::mib(1));
    test.want(far, 100, PAGE);
    let submitted = test.world.submitted();
    assert_eq!(submitted.len(), 101);
    let places: Vec<u64> = submitted.iter().map(|(page, _)| *page).collect();
    assert!(places.iter().all(|page| (far - 32768..=far).contains(page)), "{places:?}");
    assert!(places.iter().max() > places.iter().min().map(|least| least + 16384).as_ref(), "{places:?}");
    test.world.settle();
    assert_eq!(test.told(), [Some(Nanos::micros(100)); 100]);
    assert_eq!(test.world.tags(), [0], "nobody else is told");
    assert!(test.world.switch.is_empty() && test.world.pool.lent() == Bytes::ZERO);

    assert_eq!(test.world.switch.extra_reads(), ExtraReadStats { ios: 100, bytes: 100 * PAGE });

    // At the start of the device there is nothing before.
    test.want(0, 2, PAGE);
    assert_eq!(test.world.submitted()[101..], [(0, "read"); 3]);
    test.world.bench.borrow_mut().refuse = true;
    test.world.settle();
    assert_eq!(test.told()[100..], [None; 2], "what the device fails is told");
}

#[test]
fn an_extra_read_that_cannot_be_done_is_told_at_once() {
    let mut test = Test::new(Bytes::kib(8));
    test.want(0, 1, 2 * PAGE);
    assert_eq!((test.world.submitted().len(), test.told()), (1, vec![None]), "the device begins before it");
    test.want(7, 2, PAGE);
    assert_eq!(test.told(), [None; 3], "no buffer is left");
    test.world.settle();
    assert_eq!((test.told().len(), test.world.pool.lent()), (3, Bytes::ZERO));
}

/// A scheduler measures reads of one size, and its tenant reads another one since.
#[test]
fn an_extra_read_may_be_longer_or_shorter_than_the_last_read() {
    let mut test = Test::new(Bytes::mib(1));
    let whole = 64 << 10;
    for length in [PAGE / 2, 2 * PAGE, whole] {
        test.want(whole / PAGE - 1, 1, length);
    }
    test.world.settle();
    assert_eq!(test.told(), [Some(Nanos::micros(100)); 3]);
    let too_long = 1 << 40;
    test.want(too_long / PAGE, 1, too_long);
    assert_eq!(test.told()[3..], [None], "no buffer is so long");
}

/// To the scheduler all of these are reads.
#[test]
fn whatever_only_reads_has_a_place_for_extra_reads() {
    let works: [fn(ByteRange) -> Work; 3] = [Work::Read, Work::Verify, |range| Work::Compare {
        range,
        expected: BufferPool::new(Bytes::mib(1)).take(PAGE as usize).expect("it is empty"),
    }];
    for work in works {
        let mut test = Test::new(Bytes::mib(1));
        test.world.arrive(0, ALICE, work(ByteRange { offset: 0, length: PAGE }));
        let read = ExtraRead { tenant: ALICE, length: Bytes(PAGE) };
        test.wishes.lock().expect("no test panics with it").wants.push_back(read);
        test.world.run();
        test.world.settle();
        assert_eq!(test.told(), [Some(Nanos::micros(100))]);
    }
}

#[test]
fn a_scheduler_that_was_replaced_is_not_told_and_the_switch_waits_for_its_reads() {
    let mut test = Test::new(Bytes::mib(1));
    test.want(7, 2, PAGE);
    test.world.switch.replace_policy(Instant(100), window(1));
    let alices = test.world.bench.borrow_mut().held.pop_front().expect("it is on the device");
    test.world.bench.borrow_mut().release();
    test.world.bench.borrow_mut().held.push_back(alices);
    test.world.run();
    assert!(test.told().is_empty() && !test.world.switch.is_empty());
    test.world.settle();
    assert!(test.world.switch.is_empty() && test.world.pool.lent() == Bytes::ZERO);
}
