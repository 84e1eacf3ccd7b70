//! Level, before an SSD that takes a fixed time for each kind of IO.

extern crate std;
use super::probe::Probe;
use super::*;
use crate::Mark;
use crate::{IoId, Priority};
use std::collections::VecDeque;
use std::vec::Vec;
use units::ByteRate;

/// An SSD that does one IO after the other, as long as the queue allows: the time per IO depends on its way only.
pub(super) struct Ssd {
    pub(super) policy: Level,
    pub(super) now: Instant,
    /// Its IOs, since when and until when; extra reads, too.
    queue: VecDeque<(Result<Io, ExtraRead>, Instant, Instant)>,
    busy_until: Instant,
    pub(super) read: Nanos,
    pub(super) write: Nanos,
    /// Interval at which tenant 0 asks, and not whenever an IO has ended.
    pub(super) asks_every: Option<Nanos>,
    next_ask: Instant,
    pub(super) ended: [u64; 2],
    /// Latency of each IO of tenant 0, from the arrival on.
    pub(super) stays: Vec<Nanos>,
    arrived: std::collections::HashMap<IoId, Instant>,
    longest_wait: Nanos,
    last_end: [Instant; 2],
    most_in_flight: usize,
    next_id: u64,
}

impl Ssd {
    pub(super) fn new(read: Nanos, write: Nanos) -> Ssd {
        Ssd {
            policy: Level::new(),
            now: Instant::ZERO,
            queue: VecDeque::new(),
            busy_until: Instant::ZERO,
            read,
            write,
            asks_every: None,
            next_ask: Instant::ZERO,
            ended: [0; 2],
            stays: Vec::new(),
            arrived: std::collections::HashMap::new(),
            longest_wait: Nanos::ZERO,
            last_end: [Instant::ZERO; 2],
            most_in_flight: 0,
            next_id: 0,
        }
    }

    /// Tenant 0 reads, tenant 1 writes.
    fn ask(&mut self, tenant: u32) {
        let kind = if tenant == 0 { IoKind::Read } else { IoKind::Write };
        self.next_id += 1;
        let io = Io {
            id: IoId(self.next_id),
            tenant: TenantId(tenant),
            priority: Priority::default(),
            kind,
            length: Bytes::kib(4),
            mark: Mark::default(),
        };
        self.policy.on_arrival(self.now, io);
        if tenant == 0 {
            self.arrived.insert(io.id, self.now);
        }
    }

    fn decide(&mut self) -> Next {
        loop {
            match self.policy.next(self.now) {
                Next::Submit(io) if io.kind == IoKind::Read => self.queue_up(Ok(io), self.read),
                Next::Submit(io) => self.queue_up(Ok(io), self.write),
                Next::Extra(read) => self.queue_up(Err(read), self.read),
                other => return other,
            }
        }
    }

    fn queue_up(&mut self, what: Result<Io, ExtraRead>, takes: Nanos) {
        self.busy_until = self.busy_until.max(self.now) + takes;
        self.queue.push_back((what, self.now, self.busy_until));
        self.most_in_flight = self.most_in_flight.max(self.queue.len());
    }

    /// Returns the IO that has ended, if it was no extra read.
    fn end(&mut self, what: Result<Io, ExtraRead>, outcome: Outcome) -> Option<Io> {
        match what {
            Ok(io) => _ = self.policy.on_completion(self.now, Done { io, outcome }),
            Err(read) => self.policy.on_extra_read(self.now, read, outcome),
        }
        what.ok()
    }

    /// Nothing that the SSD has is done.
    fn fail_all(&mut self) {
        while let Some((what, ..)) = self.queue.pop_front() {
            self.end(what, Outcome::Failed);
        }
    }

    /// Closed loops of these depths.
    pub(super) fn run(&mut self, depths: [u32; 2], span: Nanos) {
        let end = self.now + span;
        for (tenant, depth) in depths.into_iter().enumerate() {
            (0..depth).for_each(|_| self.ask(tenant as u32));
        }
        while self.now < end {
            if let Some(gap) = self.asks_every
                && self.next_ask <= self.now
            {
                self.ask(0);
                self.next_ask = self.now + gap;
            }
            let wake = self.decide();
            let done = self.queue.front().map(|(.., at)| *at);
            let wake_at = if let Next::WakeAt(at) = wake { Some(at) } else { None };
            let asks = self.asks_every.map(|_| self.next_ask);
            let at = done.into_iter().chain(wake_at).chain(asks).min().expect("a closed loop never ends");
            self.now = at.max(self.now);
            if done.is_some_and(|done| done <= self.now) {
                let (what, submitted, _) = self.queue.pop_front().expect("it is in front");
                let outcome = Outcome::Success { latency: self.now.since(submitted) };
                let Some(io) = self.end(what, outcome) else { continue };
                let tenant = io.tenant.index();
                self.ended[tenant] += 1;
                self.longest_wait = self.longest_wait.max(self.now.since(self.last_end[tenant]));
                self.last_end[tenant] = self.now;
                if let Some(came) = self.arrived.remove(&io.id) {
                    self.stays.push(self.now.since(came));
                }
                if tenant != 0 || self.asks_every.is_none() {
                    self.ask(io.tenant.0);
                }
            }
        }
    }
}

#[test]
fn a_reader_and_a_writer_have_half_of_the_time_each_whatever_their_ios_take() {
    for (read, write) in [(2_000, 30_000), (20_000, 15_000), (300_000, 900_000)] {
        let mut ssd = Ssd::new(Nanos(read), Nanos(write));
        // Three probes of reads and two of writes take 2.5 s at most.
        ssd.run([64, 64], Nanos::secs(4));
        ssd.ended = [0; 2];
        ssd.run([0, 0], Nanos::secs(3));
        let [reads, writes] = [ssd.ended[0] * read, ssd.ended[1] * write];
        let gap = reads.abs_diff(writes) as f64 / reads.min(writes) as f64;
        assert!(gap < 0.05, "{reads} ns of reads, {writes} ns of writes: {gap:.3}");
    }
}

/// A tenant waits only for a probe of the other's work, and for the IOs in flight.
#[test]
fn no_probe_keeps_anybody_waiting_longer_than_its_length() {
    let mut ssd = Ssd::new(Nanos::micros(3), Nanos::micros(20));
    ssd.run([64, 64], Nanos::secs(4));
    let in_flight = Nanos::millis(10);
    assert!(ssd.longest_wait <= probe::LONGEST + in_flight, "{:?}", ssd.longest_wait);
}

#[test]
fn one_tenant_may_have_more_in_the_ssd_than_it_needs() {
    let mut ssd = Ssd::new(Nanos::micros(10), Nanos::micros(10));
    ssd.run([3000, 0], Nanos::secs(1));
    ssd.most_in_flight = 0;
    ssd.run([0, 0], Nanos::secs(1));
    ssd.decide();
    // More than any SSD needs for reads of 4 KiB. The rest waits in the switch, where it delays no tenant.
    assert!((1200..1300).contains(&ssd.most_in_flight), "{}", ssd.most_in_flight);
}

#[test]
fn a_probe_of_an_idle_kind_ends_soon() {
    let mut ssd = Ssd::new(Nanos::micros(3), Nanos::micros(20));
    ssd.run([64, 64], Nanos::secs(1));
    let now = ssd.now;
    // All that is in flight ends, and all that is queued is taken back; then only the reader has work.
    ssd.fail_all();
    for id in [0, 1] {
        ssd.policy.withdraw(now, TenantId(id), &mut |_| true);
    }
    ssd.ask(0);
    let rules = ssd.policy.drr.rules_mut();
    assert!(rules.books.is_busy(TenantId(0)), "else it would not have to wait for a probe");
    rules.probe = Some(Probe::new(now, rules.books.kind(TenantId(1)), Nanos::ZERO, 0, [2, 1]));
    let soon = now + probe::QUIET;
    assert_eq!(ssd.policy.next(now), Next::WakeAt(soon), "its IOs may be on their way");
    assert_eq!(ssd.policy.next(now + Nanos(probe::QUIET.0 / 2)), Next::WakeAt(soon));
    assert!(matches!(ssd.policy.next(soon), Next::Submit(_)), "nobody else has anything to do");
    assert!(ssd.policy.drr.rules().probe.is_none());
}

#[test]
fn all_books_are_empty_when_all_has_ended() {
    let mut ssd = Ssd::new(Nanos::micros(3), Nanos::micros(20));
    ssd.run([64, 64], Nanos::millis(300));
    let now = ssd.now;
    for id in [0, 1] {
        ssd.policy.withdraw(now, TenantId(id), &mut |_| true);
    }
    ssd.fail_all();
    assert_eq!((ssd.policy.backlog(), ssd.policy.extra_reads), (Backlog::default(), 0));
    for id in [0, 1] {
        ssd.policy.forget(now, TenantId(id));
    }
    assert!(ssd.policy.drr.rules().held.is_empty());
}

/// The reader has four IOs, all in the SSD, which does not end them; the writer is not served much more meanwhile.
#[test]
fn others_wait_for_a_tenant_whose_ios_are_all_in_the_ssd() {
    let mut ssd = Ssd::new(Nanos::micros(10), Nanos::micros(10));
    ssd.run([4, 256], Nanos::secs(4));
    assert!(ssd.policy.drr.rules().books.is_busy(TenantId(0)) && ssd.policy.drr.rules().probe.is_none());
    let (mut kept, mut written) = (Vec::new(), Nanos::ZERO);
    loop {
        ssd.decide();
        let Some((what, _, at)) = ssd.queue.pop_front() else { break };
        let io = what.expect("there is no probe");
        ssd.now = ssd.now.max(at);
        if io.tenant == TenantId(0) {
            kept.push(io);
            continue;
        }
        written += ssd.write;
        assert!(written < Nanos::millis(20), "the writer goes on and on");
        let latency = Nanos::micros(100);
        ssd.policy.on_completion(ssd.now, Done { io, outcome: Outcome::Success { latency } });
        ssd.ask(1);
    }
    assert_eq!(kept.len(), 4);
    // The IOs may never end. Once they are overdue, the others go on.
    ssd.policy.on_overdue(ssd.now, TenantId(0));
    assert!(matches!(ssd.policy.next(ssd.now), Next::Submit(_)));
}

/// The reader's share would be a hundredth. Its reservation holds while others wait for probes, and those see enough all the same.
#[test]
fn a_reservation_is_kept_whatever_is_in_the_ssd_and_whoever_is_probed() {
    let mut ssd = Ssd::new(Nanos::micros(3), Nanos::micros(20));
    let reserved = ByteRate(50_000_000);
    ssd.policy.set_share(ssd.now, TenantId(0), Share { reservation: Some(reserved), ..Share::EQUAL });
    ssd.policy.set_share(ssd.now, TenantId(1), Share { weight: 99, ..Share::EQUAL });
    // Probes of reads give the reader the SSD for a while; its service during them is not held against it.
    ssd.run([64, 64], Nanos::secs(4));
    ssd.ended = [0; 2];
    ssd.run([0, 0], Nanos::secs(3));
    let rate = ssd.ended[0] * 4096 / 3;
    assert!(rate >= reserved.0 * 95 / 100, "{rate} bytes per second");
    let learnt = ssd.policy.learnt().expect("there were probes");
    assert_eq!(learnt.prices.len(), 2, "{learnt:?}");
}
