//! The numbers of one SSD, where every thread can read them.
//!
//! ```text
//!   thread of the SSD ── writes ──►  Board  ◄── reads ── whoever wants to look
//!                                     ├─ gauges and counters of the SSD      every turn
//!                                     ├─ state of the scheduler              every `INTERVAL` (`pipeline::publishing`)
//!                                     └─ a `Record` for each tenant          counters with every IO, state every `INTERVAL`
//! ```
//!
//! A reader never wakes the thread of the SSD, and never keeps it waiting for longer than a list is copied: the thread takes the lock of the list only when a
//! tenant comes or goes, and skips a state that is just being read.
//!
//! Holds: a tenant that gives up its number leaves its counts in the SSD's (`counts_of_tenants_that_went_stay`).

use super::beat::Pulse;
use super::slow::{SlowIo, Slowest};
use super::{
    AuxiliaryStats, Counters, ExtraReadStats, FileStats, SsdStats, TenantStats, Transferred, TurnStats, Waits,
};
use crate::device::DeviceClock;
use crate::tenants::TenantName;
use measures::{Counter, Gauge, Histogram, SharedHistogram};
use sched::{BusyPeriod, IoKind, SsdView, TenantView, Wait};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use units::{Bytes, Instant, Nanos};

/// The histograms that are kept for each tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TenantDetail {
    /// Total latency: the time in the switch and on the device.
    #[default]
    Total,
    /// The time on the device, too.
    Device,
}

/// The IOs of one tenant, by one writer.
pub(crate) struct Record {
    pub(crate) name: TenantName,
    reads: Moved,
    writes: Moved,
    others: Counter,
    errors: Counter,
    last: Mutex<Look>,
    waits: SharedWaits,
}

/// The state of a tenant when it was looked at.
#[derive(Clone, Copy, Default)]
pub(crate) struct Look {
    /// On the machine's clock.
    pub(crate) at: Instant,
    /// Its state in the scheduler.
    pub(crate) view: Option<TenantView>,
    /// Whether reads of it wait for memory.
    pub(crate) waits_for_memory: bool,
}

/// The cells of [`Waits`], in nanoseconds.
#[derive(Default)]
struct SharedWaits {
    share: Counter,
    limit: Counter,
    device: Counter,
    memory: Counter,
    credit: Counter,
}

impl SharedWaits {
    /// The state of a look held for `span`.
    fn add(&self, look: &Look, span: Nanos) {
        let span = span.get();
        if look.waits_for_memory {
            self.memory.add(span);
        }
        let Some(view) = look.view else { return };
        match view.waits_for {
            Some(Wait::Share) => self.share.add(span),
            Some(Wait::Limit) => self.limit.add(span),
            Some(Wait::Device) => self.device.add(span),
            None => {}
        }
        if view.has_used_up_its_credit() {
            self.credit.add(span);
        }
    }

    fn stats(&self) -> Waits {
        Waits {
            share: Nanos(self.share.get()),
            limit: Nanos(self.limit.get()),
            device: Nanos(self.device.get()),
            memory: Nanos(self.memory.get()),
            credit: Nanos(self.credit.get()),
        }
    }
}

/// IOs of one kind. Histograms are made at the first one.
#[derive(Default)]
struct Moved {
    ios: Counter,
    bytes: Counter,
    total: OnceLock<Box<SharedHistogram>>,
    device: OnceLock<Box<SharedHistogram>>,
}

impl Moved {
    fn stats(&self) -> Transferred {
        let copy = |histogram: &OnceLock<Box<SharedHistogram>>| {
            histogram.get().map_or_else(Histogram::default, |histogram| histogram.snapshot())
        };
        Transferred {
            ios: self.ios.get(),
            bytes: self.bytes.get(),
            device_latency: copy(&self.device),
            total_latency: copy(&self.total),
        }
    }
}

impl Record {
    fn new(name: TenantName) -> Record {
        let (reads, writes) = Default::default();
        let (others, errors, last, waits) = Default::default();
        Record { name, reads, writes, others, errors, last, waits }
    }

    /// Replaces the state, unless somebody is reading it. The former one has held until now.
    pub(crate) fn publish(&self, look: Look) {
        if let Ok(mut last) = self.last.try_lock() {
            self.waits.add(&last, look.at.saturating_since(last.at));
            *last = look;
        }
    }

    /// Counts an IO that the device has failed.
    pub(crate) fn count_error(&self) {
        self.errors.add(1);
    }

    fn counters(&self) -> Counters {
        Counters {
            reads: self.reads.stats(),
            writes: self.writes.stats(),
            others: self.others.get(),
            errors: self.errors.get(),
        }
    }

    fn stats(&self) -> TenantStats {
        TenantStats {
            tenant: self.name.clone(),
            view: lock(&self.last).view,
            counters: self.counters(),
            waits: self.waits.stats(),
        }
    }
}

/// The records of all tenants.
#[derive(Clone, Default)]
struct Directory {
    records: Vec<Arc<Record>>,
    /// Counts of tenants whose numbers others have got.
    retired: Counters,
}

/// The numbers that take a while to collect.
#[derive(Clone, Copy, Default)]
pub(crate) struct State {
    /// The measurements of the scheduler.
    pub(crate) view: Option<SsdView>,
    /// The busy period.
    pub(crate) busy: Option<BusyPeriod>,
    /// The auxiliary store.
    pub(crate) auxiliary: Option<AuxiliaryStats>,
    /// The files of a directory.
    pub(crate) files: Option<FileStats>,
    /// The scheduler's own reads.
    pub(crate) extra_reads: ExtraReadStats,
    /// Turns that were cut.
    pub(crate) turns: TurnStats,
}

/// See the module.
pub(crate) struct Board {
    device: String,
    clock: DeviceClock,
    detail: TenantDetail,
    pulse: Pulse,
    /// IOs that wait in the scheduler, and those on the device.
    pub(crate) queued: Gauge,
    pub(crate) in_flight: Gauge,
    /// IOs on the device that are overdue.
    pub(crate) hung: Gauge,
    /// Whether nothing has happened since the state was published: 1 or 0.
    pub(crate) current: Gauge,
    /// Connections of its subsystems, every `INTERVAL`, as the next.
    pub(crate) connections: Gauge,
    /// Bytes in use.
    pub(crate) memory: Gauge,
    /// The slowest IOs of late.
    pub(crate) slow: Slowest,
    /// How late completions were noticed, on the device's clock.
    pub(crate) late: SharedHistogram,
    /// Time on the device of reads and of writes, on its clock.
    device_latency: [SharedHistogram; 2],
    state: Mutex<State>,
    directory: Mutex<Arc<Directory>>,
}

impl Board {
    /// The board of a device.
    pub(crate) fn new(device: String, clock: DeviceClock, detail: TenantDetail, pulse: Pulse) -> Board {
        let (queued, in_flight, hung, current, connections, memory) = Default::default();
        let (late, slow, device_latency, state, directory) = Default::default();
        Board {
            device,
            clock,
            detail,
            pulse,
            queued,
            in_flight,
            hung,
            current,
            connections,
            memory,
            slow,
            late,
            device_latency,
            state,
            directory,
        }
    }

    /// The device, and its slowest IOs of the last minute.
    pub(crate) fn slow_ios(&self, now: Instant) -> (String, Vec<SlowIo>) {
        (self.device.clone(), self.slow.list(now))
    }

    /// Whether its thread goes on.
    pub(crate) fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// The record of a new tenant.
    pub(crate) fn enter(&self, name: TenantName) -> Arc<Record> {
        let record = Arc::new(Record::new(name));
        Arc::make_mut(&mut *lock(&self.directory)).records.push(Arc::clone(&record));
        record
    }

    /// A tenant gives up its number: its counts become the SSD's.
    pub(crate) fn retire(&self, record: &Arc<Record>) {
        let mut directory = lock(&self.directory);
        let directory = Arc::make_mut(&mut *directory);
        directory.records.retain(|other| !Arc::ptr_eq(other, record));
        directory.retired.add(&record.counters());
    }

    /// Counts an IO that has ended well.
    #[inline]
    pub(crate) fn count(&self, record: &Record, kind: IoKind, length: Bytes, device: Nanos, total: Nanos) {
        let (moved, of_device) = match kind {
            IoKind::Read => (&record.reads, &self.device_latency[0]),
            IoKind::Write => (&record.writes, &self.device_latency[1]),
            IoKind::Management => return record.others.add(1),
        };
        moved.ios.add(1);
        moved.bytes.add(length.get());
        of_device.record(device);
        moved.total.get_or_init(Box::default).record(total);
        if self.detail == TenantDetail::Device {
            moved.device.get_or_init(Box::default).record(device);
        }
    }

    /// Replaces the state, unless somebody is reading it.
    pub(crate) fn publish(&self, state: State) {
        if let Ok(mut kept) = self.state.try_lock() {
            *kept = state;
        }
    }

    /// A copy of everything; the device knows whether a flush has failed.
    pub(crate) fn stats(&self, now: Instant, flush_failed: bool) -> SsdStats {
        let directory = Arc::clone(&lock(&self.directory));
        let state = *lock(&self.state);
        let tenants: Vec<TenantStats> = directory.records.iter().map(|record| record.stats()).collect();
        let mut all = directory.retired.clone();
        tenants.iter().for_each(|tenant| all.add(&tenant.counters));
        let [reads, writes] = &self.device_latency;
        all.reads.device_latency = reads.snapshot();
        all.writes.device_latency = writes.snapshot();
        SsdStats {
            device: self.device.clone(),
            at: self.clock.to_device(now),
            turn: self.pulse.turn(now),
            is_current: self.current.get() == 1,
            view: state.view,
            busy: state.busy,
            queued: self.queued.get() as usize,
            in_flight: self.in_flight.get() as usize,
            hung: self.hung.get() as usize,
            flush_failed,
            late: self.late.snapshot(),
            connections: self.connections.get() as usize,
            memory: Bytes(self.memory.get()),
            extra_reads: state.extra_reads,
            turns: state.turns,
            auxiliary: state.auxiliary,
            files: state.files,
            all,
            tenants,
        }
    }
}

/// Takes a lock. A thread that panicked with it left plain numbers behind, which are whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::beat::Beat;
    use super::*;
    use sched::Credit;

    fn board(detail: TenantDetail) -> Board {
        Board::new("a".to_owned(), DeviceClock::REAL, detail, Beat::new().1)
    }

    fn host_of(nqn: &str) -> TenantName {
        TenantName::Host(nqn.into())
    }

    fn count(board: &Board, record: &Record, times: u64) {
        for _ in 0..times {
            board.count(record, IoKind::Read, Bytes(4096), Nanos::micros(80), Nanos::micros(100));
        }
    }

    #[test]
    fn counts_of_tenants_that_went_stay() {
        let board = board(TenantDetail::Total);
        let [a, b] = ["a", "b"].map(|host| board.enter(host_of(host)));
        count(&board, &a, 3);
        count(&board, &b, 4);
        a.count_error();
        board.retire(&a);
        let again = board.enter(host_of("a"));
        count(&board, &again, 5);
        let stats = board.stats(Instant(1), false);
        let hosts: Vec<_> =
            stats.tenants.iter().map(|t| (t.tenant.to_string(), t.counters.reads.ios)).collect();
        assert_eq!(hosts, [("b".to_owned(), 4), ("a".to_owned(), 5)]);
        let all = &stats.all;
        assert_eq!((all.reads.ios, all.reads.bytes, all.errors), (12, 12 * 4096, 1));
        assert_eq!((all.reads.total_latency.count(), all.reads.device_latency.count()), (12, 12));
    }

    #[test]
    fn the_time_on_the_device_is_kept_by_tenant_only_if_asked_for() {
        for (detail, expected) in [(TenantDetail::Total, 0), (TenantDetail::Device, 2)] {
            let board = board(detail);
            let record = board.enter(host_of("a"));
            count(&board, &record, 2);
            let stats = board.stats(Instant(1), false);
            assert_eq!(stats.tenants[0].counters.reads.device_latency.count(), expected);
            assert_eq!(stats.all.reads.device_latency.mean(), Some(Nanos::micros(80)));
        }
    }

    #[test]
    fn a_reason_to_wait_counts_from_one_look_to_the_next() {
        let board = board(TenantDetail::Total);
        let record = board.enter(host_of("a"));
        let view = |waits_for| TenantView {
            queued: 3,
            in_flight: 1,
            slots_busy: 1,
            slots_allotted: 1,
            credit: Credit(4),
            service_lag: Bytes::ZERO,
            waits_for,
            objective: None,
        };
        let look = |millis: u64, waits_for, waits_for_memory| {
            let at = Instant::ZERO + Nanos::millis(millis);
            record.publish(Look { at, view: Some(view(waits_for)), waits_for_memory });
        };
        look(1000, Some(Wait::Share), false);
        look(1010, Some(Wait::Limit), true);
        look(1013, Some(Wait::Device), false);
        look(1014, None, false);
        record.publish(Look { at: Instant::ZERO + Nanos::millis(1020), ..Look::default() });
        record.publish(Look { at: Instant::ZERO + Nanos::secs(9), ..Look::default() });
        let [share, limit, device, memory, credit] = [10, 3, 1, 3, 20].map(Nanos::millis);
        assert_eq!(
            board.stats(Instant(1), false).tenants[0].waits,
            Waits { share, limit, device, memory, credit }
        );
    }

    /// 4,096 tenants on 16 SSDs that have all read and written.
    #[test]
    fn a_tenant_takes_at_most_three_and_a_half_kilobytes_and_few_bytes_before_its_first_io() {
        let idle = size_of::<Record>();
        let busy = idle + 2 * size_of::<SharedHistogram>();
        assert!(idle <= 400 && busy <= 3 * 1024 + 900, "{idle} and {busy} bytes");
    }
}
