//! Activity of each tenant: its kind of work, and whether it takes all that it can get.
//!
//! A tenant is *busy* if it would take more than it gets: its IOs wait in the switch, or it sends an IO whenever one
//! has ended. And it must have several IOs outstanding, or get its fair share. Every other tenant asks for less than
//! its share: its kind of work need not be measured, and holding it back during a probe gains nothing. (A tenant whose
//! IOs come at random also has many outstanding on an SSD that others keep busy: `closed_loop` recognises it.)
//!
//! A period is short, and where many share a slow SSD a tenant is not served in each. One that was busy and has IOs outstanding still is.
//!
//! Holds: a tenant that asks for little is not busy, however many others are
//!        (`a_tenant_that_asks_for_little_is_not_busy`), and however many IOs it has outstanding
//!        (`a_tenant_whose_ios_come_at_random_is_not_busy`) or how long the SSD has paused
//!        (`a_tenant_that_waits_for_an_ssd_that_pauses_is_not_busy`); a busy tenant whose turn has not come stays busy
//!        (`a_busy_tenant_that_waits_for_its_turn_is_busy`).

use super::closed_loop::ClosedLoop;
use super::kind::Kind;
use crate::{Io, IoKind};
use alloc::vec::Vec;
use units::{Bytes, TenantId};

/// Number of IOs after which a tenant's kind is determined again.
const IOS: u32 = 256;
/// Part of its fair share with which a tenant counts as busy.
const BUSY: [u128; 2] = [3, 4];
/// Outstanding IOs on average, in halves, below which a tenant asks for little.
const OUTSTANDING: u64 = 5;
/// A tenant is busy from the second period in a row in which it seems to be, until the fifth in a row in which it does not.
const SEEMS: i8 = 3;
const SEEMED: i8 = 4;
const SEEMED_MOST: i8 = 8;
/// One that has long asked for less than its share is busy from the sixth period on: an SSD may pause for 100 ms, and as long as that and the
/// backlog last, any tenant's IOs wait.
const SEEMED_LEAST: i8 = -12;
/// Maximum number of periods for which a busy tenant that is not served still counts as busy. After that its IOs may hang.
const UNSERVED_MOST: u8 = 40;
/// A kind's share may exceed the fair one by one part in this number.
const UNEVEN: u64 = 16;

#[derive(Clone, Copy, Debug, Default)]
struct Book {
    kind: Kind,
    ios: u32,
    reads: u32,
    bytes: u64,
    /// Device time served in this period.
    served: u64,
    weight: u32,
    /// Outstanding IOs that those of this period found at arrival.
    outstanding: ClosedLoop,
    /// IOs that went to the SSD in this period, and how often that left the tenant with nothing to wait in the switch.
    submitted: u64,
    emptied: u64,
    /// The judged period in which it was last found busy.
    busy_in: u64,
    /// Number of the last judged periods in which it seemed to be busy, less those in which it did not.
    seemed: i8,
    /// Periods in a row in which it was busy and not served.
    unserved: u8,
    known: bool,
}

impl Book {
    /// Whether it has several IOs outstanding on average.
    fn is_deep(&self) -> bool {
        self.outstanding.is_deeper_than(OUTSTANDING)
    }

    /// Whether its IOs mostly wait in the switch.
    fn waits(&self) -> bool {
        self.emptied * 2 <= self.submitted
    }
}

/// Service of the busy tenants of one kind, and their weights.
#[derive(Clone, Copy, Debug, Default)]
struct Served {
    time: u64,
    weight: u64,
}

/// Service in excess of fair shares. A part of [`UNEVEN`] is no excess: a period is short.
fn excess(kinds: &[Served]) -> u64 {
    let all = |part: fn(&Served) -> u64| kinds.iter().map(|kind| u128::from(part(kind))).sum::<u128>();
    let (time, weights) = (all(|kind| kind.time), all(|kind| kind.weight).max(1));
    let fair = |weight: u64| (time * u128::from(weight) / weights) as u64;
    let over = |kind: &Served| {
        kind.time.saturating_sub(fair(kind.weight)).saturating_sub(fair(kind.weight) / UNEVEN)
    };
    kinds.iter().map(over).sum()
}

/// The activity of all tenants.
#[derive(Clone, Debug, Default)]
pub(super) struct Books {
    books: Vec<Book>,
    /// The tenants that were served in this period.
    served: Vec<TenantId>,
    /// Those that were busy in the last period.
    busy: Vec<TenantId>,
    /// Periods judged.
    judged: u64,
}

/// The tenants of a period.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Present {
    /// Busy tenants of each kind.
    pub(super) busy: [u32; Kind::COUNT],
    /// Their weights, summed up.
    pub(super) weights: [u64; Kind::COUNT],
    /// For each kind's busy tenants: the sum of the outstanding IOs that their IOs found on arrival, and the number of
    /// these IOs.
    pub(super) found: [[u64; 2]; Kind::COUNT],
    /// Tenants that were served.
    pub(super) tenants: usize,
    /// Device time that was served to tenants that write.
    pub(super) written: u64,
    /// Whether a busy tenant rarely has IOs queued here, so that ordering cannot enforce its share.
    pub(super) is_beyond_reach: bool,
    /// Device time served to kinds of busy tenants beyond their fair shares of the service that all these kinds had.
    pub(super) excess: u64,
}

impl Present {
    /// The kinds with busy tenants.
    pub(super) fn kinds(&self) -> impl Iterator<Item = Kind> + '_ {
        Kind::all().filter(|kind| self.busy[kind.index()] > 0)
    }
}

impl Books {
    pub(super) fn grow(&mut self, tenants: usize) {
        self.books.resize(tenants, Book::default());
    }

    #[inline]
    pub(super) fn kind(&self, id: TenantId) -> Kind {
        self.books[id.index()].kind
    }

    /// The mean size of the tenant's IOs, if it has sent enough.
    pub(super) fn length(&self, id: TenantId) -> Option<Bytes> {
        self.books.get(id.index()).filter(|book| book.known).map(|book| book.kind.length())
    }

    /// Whether the tenant was busy in the last period that was judged. A tenant that was away then is not.
    #[inline]
    pub(super) fn is_busy(&self, id: TenantId) -> bool {
        let busy_in = self.books[id.index()].busy_in;
        busy_in > 0 && busy_in == self.judged
    }

    /// Counts an IO of the tenant that has arrived and found this many others of it outstanding.
    #[inline]
    pub(super) fn on_arrival(&mut self, io: &Io, outstanding: usize) {
        let book = &mut self.books[io.tenant.index()];
        book.outstanding.on_arrival(outstanding);
        book.ios += 1;
        book.reads += u32::from(io.kind == IoKind::Read);
        book.bytes = book.bytes.saturating_add(io.length.0);
        if book.ios >= IOS || !book.known {
            book.kind = match book.known {
                true => book.kind.or(book.ios, book.reads, book.bytes),
                false => Kind::of(book.ios, book.reads, book.bytes),
            };
            if book.ios >= IOS {
                (book.ios, book.reads, book.bytes, book.known) = (0, 0, 0, true);
            }
        }
    }

    /// An IO that was charged `cost` goes to the SSD.
    #[inline]
    pub(super) fn on_submit(&mut self, id: TenantId, cost: Bytes, weight: u32) {
        let book = &mut self.books[id.index()];
        if book.served == 0 {
            self.served.push(id);
        }
        (book.served, book.weight) = (book.served + cost.0, weight);
        book.submitted += 1;
    }

    /// Notes that the IO was the tenant's last one in the switch, though its client may send more.
    #[inline]
    pub(super) fn on_emptied(&mut self, id: TenantId) {
        self.books[id.index()].emptied += 1;
    }

    /// Takes out the busy tenants that were not served in this period.
    pub(super) fn take_unserved(&mut self) -> Vec<TenantId> {
        let mut busy = core::mem::take(&mut self.busy);
        let books = &mut self.books;
        busy.retain(|id| {
            let book = &mut books[id.index()];
            book.unserved = if book.submitted == 0 { book.unserved + 1 } else { 0 };
            (1..=UNSERVED_MOST).contains(&book.unserved)
        });
        busy
    }

    /// Keeps a tenant of [`Books::take_unserved`], which has IOs outstanding, as busy as before.
    pub(super) fn keep(&mut self, id: TenantId) {
        self.served.push(id);
    }

    /// Ends a period. With `judge`, its service decides which tenants are busy; without, the last judgement stays.
    pub(super) fn on_period(&mut self, judge: bool) -> Present {
        let (mut all, mut weights) = (0u64, 0u64);
        for id in &self.served {
            let book = &self.books[id.index()];
            all += book.served;
            weights += u64::from(book.weight);
        }
        self.judged += u64::from(judge);
        let judged = self.judged;
        let mut present = Present { tenants: self.served.len(), ..Present::default() };
        let mut by_kind = [Served::default(); Kind::COUNT];
        self.busy.clear();
        for id in self.served.drain(..) {
            let book = &mut self.books[id.index()];
            if judge && book.submitted == 0 {
                book.busy_in = judged;
            } else if judge {
                let fair = u128::from(all) * u128::from(book.weight);
                let has_its_part = u128::from(book.served) * u128::from(weights) * BUSY[1] >= fair * BUSY[0];
                let seems_busy =
                    (has_its_part || book.is_deep()) && (book.waits() || book.outstanding.is_closed());
                let least = if has_its_part { book.seemed.min(0) } else { SEEMED_LEAST };
                book.seemed = if seems_busy {
                    (book.seemed + SEEMS).min(SEEMED_MOST)
                } else {
                    (book.seemed - 1).max(least)
                };
                book.busy_in = if book.seemed >= SEEMED { judged } else { 0 };
            }
            if book.kind.writes() {
                present.written += book.served;
            }
            if book.busy_in > 0 && book.busy_in == judged {
                self.busy.push(id);
                let kind = book.kind.index();
                present.busy[kind] += 1;
                present.weights[kind] += u64::from(book.weight);
                let [found, ios] = book.outstanding.found();
                present.found[kind] = [present.found[kind][0] + found, present.found[kind][1] + ios];
                by_kind[kind].time += book.served;
                by_kind[kind].weight += u64::from(book.weight);
                present.is_beyond_reach |= !book.waits();
            }
            (book.served, book.submitted, book.emptied) = (0, 0, 0);
            book.outstanding = ClosedLoop::default();
        }
        present.excess = excess(&by_kind);
        present
    }

    pub(super) fn forget(&mut self, id: TenantId) {
        self.served.retain(|served| *served != id);
        self.busy.retain(|busy| *busy != id);
        self.books[id.index()] = Book::default();
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::{IoId, Mark, Priority};

    const SERVED: Bytes = Bytes(1000);

    struct Test {
        books: Books,
        present: Present,
    }

    impl Test {
        fn new(tenants: usize) -> Test {
            let mut books = Books::default();
            books.grow(tenants);
            Test { books, present: Present::default() }
        }

        /// Serves a tenant of this weight this much in a period, in IOs that each find this many outstanding.
        fn serve(&mut self, id: u32, served: Bytes, weight: u32, found: &[usize]) {
            let (tenant, priority, mark) = (TenantId(id), Priority::default(), Mark(1));
            let io = Io { id: IoId(0), tenant, priority, kind: IoKind::Read, length: Bytes::kib(4), mark };
            for outstanding in found {
                self.books.on_arrival(&io, *outstanding);
                self.books.on_submit(tenant, Bytes(served.0 / found.len() as u64), weight);
                self.books.on_emptied(tenant);
            }
        }

        fn busy(&mut self, period: impl Fn(&mut Test)) -> std::vec::Vec<bool> {
            for _ in 0..2 {
                period(self);
                self.present = self.books.on_period(true);
            }
            (0..self.books.books.len() as u32).map(|id| self.books.is_busy(TenantId(id))).collect()
        }
    }

    #[test]
    fn a_tenant_that_asks_for_little_is_not_busy() {
        let mut test = Test::new(5);
        let busy = test.busy(|test| {
            (0..4).for_each(|id| test.serve(id, SERVED, 1, &[7; 10]));
            test.serve(4, Bytes(500), 1, &[0; 10]);
        });
        assert_eq!(busy, [true, true, true, true, false]);
        assert_eq!(test.present.tenants, 5);
        assert_eq!(test.books.on_period(true).tenants, 0, "a period starts with nothing");
    }

    #[test]
    fn a_tenant_whose_ios_come_at_random_is_not_busy() {
        let busy = Test::new(3).busy(|test| {
            test.serve(0, SERVED, 1, &[31; 10]);
            // As many on average.
            test.serve(1, SERVED, 1, &[20, 44, 25, 38, 31, 12, 40, 29, 36, 35]);
            // A closed loop that sends two at once.
            test.serve(2, SERVED, 1, &[30, 31, 30, 31, 30, 31]);
        });
        assert_eq!(busy, [true, false, true]);
    }

    #[test]
    fn a_tenant_that_waits_for_an_ssd_that_pauses_is_not_busy() {
        let mut test = Test::new(2);
        // All wait in a pause, and then the first has more than its part until its backlog is gone.
        let mut period = |served, found: &[usize]| {
            test.serve(0, SERVED, 1, &[7; 10]);
            test.serve(1, served, 1, found);
            test.books.on_period(true);
            (0..2).map(|id| test.books.is_busy(TenantId(id))).collect::<std::vec::Vec<_>>()
        };
        for _ in 0..20 {
            period(Bytes(300), &[0, 1, 0, 2, 1, 0, 1, 2, 0, 3]);
        }
        for waits in 1..=5 {
            assert_eq!(period(SERVED, &[20; 10]), [true, false], "{waits} periods");
        }
        assert_eq!(period(SERVED, &[20; 10]), [true, true], "it goes on");
    }

    #[test]
    fn a_tenant_with_a_deep_queue_is_busy_however_little_it_is_charged() {
        for outstanding in [1, 4] {
            let busy = Test::new(2).busy(|test| {
                test.serve(0, SERVED, 1, &[1; 8]);
                test.serve(1, Bytes(80), 1, &[outstanding; 8]);
            });
            assert_eq!(busy, [true, outstanding == 4]);
        }
    }

    #[test]
    fn a_weight_raises_what_is_fair() {
        for (served, expected) in [(3000, true), (2000, false)] {
            let busy = Test::new(2).busy(|test| {
                test.serve(0, SERVED, 1, &[1; 10]);
                test.serve(1, Bytes(served), 9, &[1; 10]);
            });
            assert_eq!(busy[1], expected, "{served} of {}", served + 1000);
        }
    }

    #[test]
    fn busy_is_what_was_busy_in_most_of_the_last_periods() {
        let mut test = Test::new(1);
        test.serve(0, SERVED, 1, &[7; 10]);
        test.books.on_period(true);
        assert!(!test.books.is_busy(TenantId(0)), "one period is too little");
        test.busy(|test| test.serve(0, SERVED, 1, &[7; 10]));
        for pause in 1..=6 {
            test.serve(0, SERVED, 1, &[0, 9]);
            test.books.on_period(true);
            assert_eq!(test.books.is_busy(TenantId(0)), pause <= 4, "{pause} periods");
        }
    }

    #[test]
    fn a_busy_tenant_that_waits_for_its_turn_is_busy() {
        let mut test = Test::new(2);
        test.busy(|test| (0..2).for_each(|id| test.serve(id, SERVED, 1, &[3; 10])));
        let mut busy_for = |has_any: bool| {
            let is_busy = |test: &mut Test| {
                test.serve(0, SERVED, 1, &[3; 10]);
                let waiting = test.books.take_unserved();
                waiting.into_iter().filter(|_| has_any).for_each(|id| test.books.keep(id));
                test.books.on_period(true).busy.iter().sum::<u32>() == 2
            };
            (0..1000).take_while(|_| is_busy(&mut test)).count()
        };
        assert_eq!(busy_for(true), usize::from(UNSERVED_MOST), "its IOs hang");
        assert_eq!(busy_for(false), 0);
        test.busy(|test| test.serve(1, SERVED, 1, &[3; 10]));
        assert!(test.books.is_busy(TenantId(1)), "it is served again");
    }

    #[test]
    fn what_one_kind_has_beyond_its_fair_share_is_excess() {
        let served = |kinds: &[(u64, u64)]| {
            let kinds: std::vec::Vec<Served> =
                kinds.iter().map(|(time, weight)| Served { time: *time, weight: *weight }).collect();
            excess(&kinds)
        };
        assert_eq!(served(&[(1600, 1), (1600, 1)]), 0);
        assert_eq!(served(&[(1700, 1), (1500, 1)]), 0, "a sixteenth more is no excess");
        assert_eq!(served(&[(2400, 1), (800, 1)]), 700);
        assert_eq!(served(&[(2400, 3), (800, 1)]), 0, "three times the weight");
        assert_eq!(served(&[(u64::MAX / 2, 1), (0, u64::MAX)]), u64::MAX / 2);
        assert_eq!(served(&[]), 0);
    }
}
