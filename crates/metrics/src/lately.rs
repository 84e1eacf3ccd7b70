//! The statistics of an interval, for those who look: `gimbal top`, the dashboard.

use server::{Counters, SsdStats, Stats, TenantName, TenantStats, Transferred};
use std::cmp::Reverse;
use std::collections::HashMap;

/// `now` with the histograms of the time since `before`, and of each SSD the `tenants_max` tenants that moved most bytes in it, those with IOs that
/// wait or are on the SSD before idle ones. All other numbers are as in `now`.
pub fn lately(now: Stats, before: &Stats, tenants_max: usize) -> Stats {
    let of: HashMap<&str, &SsdStats> = before.ssds.iter().map(|ssd| (&*ssd.device, ssd)).collect();
    let ssds = now.ssds.into_iter().map(|ssd| {
        let before = of.get(&*ssd.device).copied();
        of_ssd(ssd, before, tenants_max)
    });
    Stats { ssds: ssds.collect(), ..now }
}

fn of_ssd(mut ssd: SsdStats, before: Option<&SsdStats>, tenants_max: usize) -> SsdStats {
    let nothing = Counters::default();
    let tenants = before.map_or(&[][..], |before| &before.tenants);
    let of: HashMap<&TenantName, &Counters> = tenants.iter().map(|it| (&it.tenant, &it.counters)).collect();
    let then = |tenant: &TenantStats| of.get(&tenant.tenant).copied().unwrap_or(&nothing);
    ssd.tenants.sort_by_key(|tenant| {
        let is_active = tenant.view.is_some_and(|view| view.queued + view.in_flight > 0);
        let moved = bytes(&tenant.counters).saturating_sub(bytes(then(tenant)));
        (Reverse(moved), Reverse(is_active), Reverse(bytes(&tenant.counters)))
    });
    ssd.tenants.truncate(tenants_max);
    for tenant in &mut ssd.tenants {
        let before = of.get(&tenant.tenant).copied().unwrap_or(&nothing);
        keep_new(&mut tenant.counters, before);
    }
    keep_new(&mut ssd.all, before.map_or(&nothing, |before| &before.all));
    ssd
}

fn bytes(counters: &Counters) -> u64 {
    counters.reads.bytes + counters.writes.bytes
}

/// Takes what was there before out of the histograms.
fn keep_new(now: &mut Counters, before: &Counters) {
    let since = |now: &mut Transferred, before: &Transferred| {
        now.device_latency = now.device_latency.since(&before.device_latency);
        now.total_latency = now.total_latency.since(&before.total_latency);
    };
    since(&mut now.reads, &before.reads);
    since(&mut now.writes, &before.writes);
}
