//! `kill -USR1`: statistics of the running target in its log, one line of JSON for each SSD.
//!
//! The system lets only root and the user that runs the target send it signals, so no host can ask. A line shows the
//! tenants with the most bytes, so its length is bounded, however many hosts connect; the sums are those of all
//! tenants.
//!
//! Elsewhere: `server::SsdStats` defines the numbers; docs/operations.md lists the fields.

use crate::log_writer::LogWriter;
use sched::BusyPeriod;
use serde_json::{Value, json};
use server::{AuxiliaryStats, Counters, Refusal, Remote, SsdStats, TenantStats, Transferred};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use units::{Instant, Nanos, Slowdown};

/// Number of tenants of an SSD that are shown by name.
const TENANTS_SHOWN: usize = 20;

/// A turn of an SSD's thread that takes this long: the device hangs in a system call.
const HANGS: Nanos = Nanos::secs(1);

/// Writes the lines to the log.
pub(crate) fn log(target: &Remote, log: &LogWriter) {
    let stats = target.stats();
    for ssd in stats.ssds {
        let level = if ssd.turn < HANGS { "INFO" } else { "WARN" };
        log.say(level, &format!("statistics {}", of_ssd(&ssd)));
    }
    let counted = Refusal::ALL.into_iter().map(|refusal| (refusal.name(), stats.refusals.of(refusal)));
    let counted: BTreeMap<&str, u64> = counted.filter(|(_, count)| *count > 0).collect();
    if !counted.is_empty() {
        log.say("INFO", &format!("statistics {}", json!({ "refusals": counted })));
    }
}

fn of_ssd(ssd: &SsdStats) -> Value {
    let mut busiest: Vec<&TenantStats> = ssd.tenants.iter().collect();
    busiest.sort_by_key(|tenant| Reverse(tenant.counters.reads.bytes + tenant.counters.writes.bytes));
    let shown: Vec<Value> = busiest.iter().take(TENANTS_SHOWN).map(|tenant| of_tenant(tenant)).collect();
    json!({
        "device": ssd.device,
        "queued": ssd.queued,
        "in_flight": ssd.in_flight,
        "hung": ssd.hung,
        "connections": ssd.connections,
        "memory_bytes": ssd.memory.get(),
        "hangs_ms": (ssd.turn >= HANGS).then(|| ssd.turn.get() / 1_000_000),
        "all": of_counters(&ssd.all),
        "tenants": ssd.tenants.len(),
        "busiest": shown,
        "busy": ssd.busy.as_ref().map(|busy| of_busy(ssd.at, busy)),
        "extra_reads": { "ios": ssd.extra_reads.ios, "bytes": ssd.extra_reads.bytes },
        "turns": { "cut": ssd.turns.cut, "longest_us": ssd.turns.longest.get() / 1000 },
        "auxiliary": ssd.auxiliary.as_ref().map(of_auxiliary),
    })
}

/// The busy period as JSON, with times on the device's clock.
fn of_busy(at: Instant, busy: &BusyPeriod) -> Value {
    let times = |slowdown: Slowdown| f64::from(slowdown.in_quarters()) / 4.0;
    json!({
        "since_ms": at.saturating_since(busy.since).get() / 1_000_000,
        "for_about_ms": busy.for_about.map(|rest| rest.get() / 1_000_000),
        "reads_slowdown": times(busy.reads),
        "writes_slowdown": times(busy.writes),
    })
}

fn of_tenant(tenant: &TenantStats) -> Value {
    let mut value = of_counters(&tenant.counters);
    let fields = value.as_object_mut().expect("it was made as one");
    fields.extend(metrics::identity(&tenant.tenant));
    value
}

fn of_counters(counters: &Counters) -> Value {
    json!({
        "reads": of_transferred(&counters.reads),
        "writes": of_transferred(&counters.writes),
        "others": counters.others,
        "errors": counters.errors,
    })
}

fn of_transferred(transferred: &Transferred) -> Value {
    let latency = &transferred.total_latency;
    let micros = |time: Option<Nanos>| time.map(|time| time.get() / 1000);
    json!({
        "ios": transferred.ios,
        "bytes": transferred.bytes,
        "mean_us": micros(latency.mean()),
        "p50_us": micros(latency.quantile(500)),
        "p99_us": micros(latency.quantile(990)),
        "p999_us": micros(latency.quantile(999)),
    })
}

fn of_auxiliary(store: &AuxiliaryStats) -> Value {
    let (counters, foresight) = (&store.counters, &store.foresight);
    json!({
        "diverted": counters.diverted,
        "diverted_bytes": counters.diverted_bytes,
        "returned_bytes": counters.returned_bytes,
        "served": counters.served,
        "pending_bytes": counters.pending_bytes,
        "has_failed": store.has_failed,
        "room_bytes": store.room.get(),
        "is_exhausted": store.is_exhausted,
        "foreseen": foresight.right,
        "unforeseen": foresight.unforeseen,
        "needless": foresight.needless,
    })
}
