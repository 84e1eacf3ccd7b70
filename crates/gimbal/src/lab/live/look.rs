//! Snapshots of the switch during a live run: the state of its scheduler, the time of IOs on the device, and the delay
//! until their completion was noticed.
//!
//! One snapshot at the end of each interval. Counters of the switch only grow, so results are differences of two
//! snapshots.

use super::plan::host_of;
use loadgen::{Direction, Interval};
use measures::Histogram;
use sched::{BusyPeriod, SsdView};
use server::{Counters, ServerHandle, SsdStats, TenantName, TenantStats, Transferred};
use std::collections::HashMap;
use units::Nanos;

/// The difference of two snapshots.
#[derive(Clone, Debug)]
pub(super) struct Added {
    /// By tenant and direction: mean time on the device, on its clock.
    pub(super) device: Vec<[Option<Nanos>; 2]>,
    /// The state of the scheduler at the second snapshot.
    pub(super) view: Option<SsdView>,
    /// The busy period of the SSD at the second snapshot; `None` if the SSD is as fast as usual.
    pub(super) busy: Option<BusyPeriod>,
}

/// The difference between the last snapshot and the first of the measured part.
#[derive(Clone, Debug)]
pub(super) struct Whole {
    /// By tenant.
    pub(super) tenants: Vec<Counters>,
    /// The delay until completions were noticed, on the device's clock.
    pub(super) late: Histogram,
}

/// The switch's counters at one moment.
#[derive(Debug)]
struct Books {
    /// By tenant.
    tenants: Vec<Counters>,
    late: Histogram,
}

/// A sequence of snapshots.
pub(super) struct Looks<'s> {
    server: &'s ServerHandle,
    tenants: usize,
    /// The last snapshot, and the last one before the measured part.
    last: Books,
    begin: Option<Books>,
    /// The difference between snapshots, for each interval.
    pub(super) added: Vec<Added>,
}

impl Books {
    fn nothing(tenants: usize) -> Books {
        Books { tenants: vec![Counters::default(); tenants], late: Histogram::default() }
    }

    fn of(ssd: SsdStats, tenants: usize) -> Books {
        let mut by_name: HashMap<TenantName, Counters> =
            ssd.tenants.into_iter().map(|TenantStats { tenant, counters, .. }| (tenant, counters)).collect();
        let name = |tenant| TenantName::Host(host_of(tenant).into());
        let tenants = (0..tenants).map(|tenant| by_name.remove(&name(tenant)).unwrap_or_default());
        Books { tenants: tenants.collect(), late: ssd.late }
    }
}

impl<'s> Looks<'s> {
    /// For a switch that has served no IO yet.
    pub(super) fn new(server: &'s ServerHandle, tenants: usize) -> Looks<'s> {
        Looks { server, tenants, last: Books::nothing(tenants), begin: None, added: Vec::new() }
    }

    /// Takes a snapshot at the end of an interval; `counts` says whether the interval belongs to the measured part.
    pub(super) fn look(&mut self, counts: bool) {
        let Some(ssd) = self.server.stats().ssds.into_iter().next() else { return };
        let (view, busy) = (ssd.view, ssd.busy);
        let now = Books::of(ssd, self.tenants);
        let device = now.tenants.iter().zip(&self.last.tenants).map(|(now, before)| {
            TRANSFERS.map(|way| {
                let [now, before] = [now, before].map(|counters| &transferred(counters, way).device_latency);
                now.since(before).mean()
            })
        });
        self.added.push(Added { device: device.collect(), view, busy });
        let before = std::mem::replace(&mut self.last, now);
        if counts && self.begin.is_none() {
            self.begin = Some(before);
        }
    }

    /// The differences of all intervals, and that of the whole measured part.
    pub(super) fn whole(self) -> (Vec<Added>, Whole) {
        let begin = self.begin.unwrap_or_else(|| Books::nothing(self.tenants));
        let tenants = self.last.tenants.iter().zip(&begin.tenants).map(|(now, before)| since(now, before));
        (self.added, Whole { tenants: tenants.collect(), late: self.last.late.since(&begin.late) })
    }
}

/// The middle of an interval, as time since the start of the run. It decides on which side of a border the interval
/// counts.
pub(super) fn middle(interval: &Interval) -> Nanos {
    interval.end.saturating_sub(Nanos(interval.span.0 / 2))
}

/// The directions that move data; experiments have no others.
pub(super) const TRANSFERS: [Direction; 2] = [Direction::Read, Direction::Write];

/// One direction of a tenant's counters.
pub(super) fn transferred(counters: &Counters, way: Direction) -> &Transferred {
    match way {
        Direction::Read => &counters.reads,
        Direction::Write => &counters.writes,
        Direction::Trim => panic!("experiments deallocate nothing"),
    }
}

fn since(now: &Counters, before: &Counters) -> Counters {
    let transferred = |now: &Transferred, before: &Transferred| Transferred {
        ios: now.ios - before.ios,
        bytes: now.bytes - before.bytes,
        device_latency: now.device_latency.since(&before.device_latency),
        total_latency: now.total_latency.since(&before.total_latency),
    };
    Counters {
        reads: transferred(&now.reads, &before.reads),
        writes: transferred(&now.writes, &before.writes),
        others: now.others - before.others,
        errors: now.errors - before.errors,
    }
}
