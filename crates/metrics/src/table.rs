//! The table: every measure once.

use measures::Histogram;
use sched::Congestion;
use server::config::AccessState;
use server::{Refusal, SsdStats, Stats, TenantStats, Transferred};
use units::Nanos;

/// The kind of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It rises and falls.
    Gauge,
    /// A histogram of durations, in seconds.
    Histogram,
}

/// The value of a sample.
#[derive(Clone, Copy, Debug)]
pub enum Value<'s> {
    /// A number, in the unit of the measure.
    Number(f64),
    /// A whole number.
    Count(u64),
    /// Durations.
    Histogram(&'s Histogram),
}

/// One value of a measure, with the value of its own label, if it has one.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'s> {
    /// The value of the label [`Measure::label`]; empty without one.
    pub label: &'s str,
    /// The value.
    pub value: Value<'s>,
}

/// Where a measure's values are found. The functions leave values out that there are not.
#[derive(Clone, Copy)]
pub enum Source {
    /// The target as a whole.
    Target(for<'s> fn(&'s Stats, &mut Vec<Sample<'s>>)),
    /// Each SSD: label `device`.
    Device(for<'s> fn(&'s SsdStats, &mut Vec<Sample<'s>>)),
    /// Each tenant of each SSD: labels `device`, and `host`, or `subsystem` and `namespace`.
    Tenant(for<'s> fn(&'s TenantStats, &mut Vec<Sample<'s>>)),
}

/// One row.
#[derive(Clone, Copy)]
pub struct Measure {
    /// The name as a metric, with its unit.
    pub name: &'static str,
    /// The kind.
    pub kind: Kind,
    /// The label that tells its samples apart; empty if there is one sample.
    pub label: &'static str,
    /// One line for people.
    pub help: &'static str,
    /// Where its values are found.
    pub source: Source,
}

impl Measure {
    /// The name in JSON: without the part that says where it belongs, and without `_total`.
    pub fn field(&self) -> &'static str {
        let prefix = match self.source {
            Source::Target(_) => "gimbal_",
            Source::Device(_) => "gimbal_device_",
            Source::Tenant(_) => "gimbal_tenant_",
        };
        let field = self.name.strip_prefix(prefix).unwrap_or(self.name);
        field.strip_suffix("_total").unwrap_or(field)
    }
}

fn count<'s>(to: &mut Vec<Sample<'s>>, label: &'s str, value: u64) {
    to.push(Sample { label, value: Value::Count(value) });
}

fn number(to: &mut Vec<Sample<'_>>, label: &'static str, value: f64) {
    to.push(Sample { label, value: Value::Number(value) });
}

fn seconds(to: &mut Vec<Sample<'_>>, label: &'static str, value: Nanos) {
    number(to, label, value.as_secs_f64());
}

/// Samples of reads and of writes.
fn by_op(to: &mut Vec<Sample<'_>>, [reads, writes]: [&Transferred; 2], of: fn(&Transferred) -> u64) {
    count(to, "read", of(reads));
    count(to, "write", of(writes));
}

/// Histograms of reads and of writes, if there were any.
fn histograms<'s>(to: &mut Vec<Sample<'s>>, [reads, writes]: [&'s Histogram; 2]) {
    for (label, histogram) in [("read", reads), ("write", writes)] {
        if histogram.count() > 0 {
            to.push(Sample { label, value: Value::Histogram(histogram) });
        }
    }
}

macro_rules! rows {
    ($($source:ident $name:literal $kind:ident [$label:literal] $help:literal: $of:expr;)*) => {
        &[$(Measure { name: $name, kind: Kind::$kind, label: $label, help: $help, source: Source::$source($of) }),*]
    };
}

/// All measures.
pub const TABLE: &[Measure] = rows! {
    Target "gimbal_build_info" Gauge ["version"] "The version that runs, as a label; always 1":
        |_, to| count(to, env!("CARGO_PKG_VERSION"), 1);
    Target "gimbal_connections" Gauge [""] "Connections whose hosts are known, on all threads":
        |stats, to| count(to, "", stats.acceptor.connections);
    Target "gimbal_handshakes" Gauge [""] "Connections whose hosts are not known yet":
        |stats, to| count(to, "", stats.acceptor.handshakes);
    Target "gimbal_accepted_total" Counter [""] "Connections that were accepted":
        |stats, to| count(to, "", stats.acceptor.accepted);
    Target "gimbal_refused_total" Counter ["reason"] "Hosts that did not prove who they are, by reason (docs/identity.md)":
        |stats, to| Refusal::ALL.into_iter().for_each(|refusal| count(to, refusal.name(), stats.refusals.of(refusal)));
    Target "gimbal_drained" Gauge [""] "1 while the target is drained for maintenance: hosts may use no namespace":
        |stats, to| count(to, "", u64::from(stats.is_drained));
    Target "gimbal_group_state" Gauge ["group"] "Access state of a group of namespaces: 1 optimized, 2 non-optimized, 3 inaccessible, 4 persistent loss":
        |stats, to| stats.groups.iter().for_each(|(name, state)| count(to, name, access(*state)));
    Target "gimbal_turn_seconds" Gauge [""] "The longest time that a thread has been in its present turn; seconds mean that a device hangs":
        |stats, to| seconds(to, "", longest_turn(stats));

    Device "gimbal_device_ios_total" Counter ["op"] "IOs that ended with success, of all tenants there ever were":
        |ssd, to| {
            by_op(to, [&ssd.all.reads, &ssd.all.writes], |moved| moved.ios);
            count(to, "other", ssd.all.others);
        };
    Device "gimbal_device_bytes_total" Counter ["op"] "Bytes that IOs moved":
        |ssd, to| by_op(to, [&ssd.all.reads, &ssd.all.writes], |moved| moved.bytes);
    Device "gimbal_device_errors_total" Counter [""] "IOs that the SSD failed":
        |ssd, to| count(to, "", ssd.all.errors);
    Device "gimbal_device_io_seconds" Histogram ["op"] "Time of an IO on the SSD, on the SSD's clock":
        |ssd, to| histograms(to, [&ssd.all.reads.device_latency, &ssd.all.writes.device_latency]);
    Device "gimbal_device_switch_io_seconds" Histogram ["op"] "Time of an IO in the switch and on the SSD":
        |ssd, to| histograms(to, [&ssd.all.reads.total_latency, &ssd.all.writes.total_latency]);
    Device "gimbal_device_queued_ios" Gauge [""] "IOs that wait in the scheduler":
        |ssd, to| count(to, "", ssd.queued as u64);
    Device "gimbal_device_in_flight_ios" Gauge [""] "IOs on the SSD":
        |ssd, to| count(to, "", ssd.in_flight as u64);
    Device "gimbal_device_hung_ios" Gauge [""] "IOs that have been on the SSD for longer than limits.hang_after":
        |ssd, to| count(to, "", ssd.hung as u64);
    Device "gimbal_device_flush_failed" Gauge [""] "1 after a flush has failed: what was written before may be lost":
        |ssd, to| count(to, "", u64::from(ssd.flush_failed));
    Device "gimbal_device_turn_seconds" Gauge [""] "The time that the present turn of the SSD's thread has taken so far":
        |ssd, to| seconds(to, "", ssd.turn);
    Device "gimbal_device_connections" Gauge [""] "Connections of its subsystems":
        |ssd, to| count(to, "", ssd.connections as u64);
    Device "gimbal_device_memory_bytes" Gauge [""] "Memory in use of its thread for data of IOs":
        |ssd, to| count(to, "", ssd.memory.get());
    Device "gimbal_device_known_tenants" Gauge [""] "Tenants that are remembered":
        |ssd, to| count(to, "", ssd.tenants.len() as u64);
    Device "gimbal_device_active_tenants" Gauge [""] "Tenants with IOs that wait or are on the SSD":
        |ssd, to| if let Some(view) = ssd.view { count(to, "", view.active_tenants as u64) };
    Device "gimbal_device_busy" Gauge [""] "1 while the SSD is slower than usual, whatever is done (docs/busy-periods.md)":
        |ssd, to| count(to, "", u64::from(ssd.busy.is_some()));
    Device "gimbal_device_busy_slowdown_ratio" Gauge ["op"] "How many times slower than usual IOs are, while it is busy":
        |ssd, to| if let Some(busy) = ssd.busy {
            number(to, "read", f64::from(busy.reads.in_quarters()) / 4.0);
            number(to, "write", f64::from(busy.writes.in_quarters()) / 4.0);
        };
    Device "gimbal_device_congestion" Gauge ["op"] "State of the SSD as the scheduler sees it: 0 underused, 1 avoidance, 2 congested, 3 overloaded":
        |ssd, to| if let Some(view) = ssd.view {
            [("read", view.reads), ("write", view.writes)].into_iter().for_each(|(label, monitor)| {
                monitor.state.into_iter().for_each(|state| count(to, label, level(state)));
            });
        };
    Device "gimbal_device_latency_seconds" Gauge ["op"] "Moving average of the time on the SSD, as the scheduler keeps it":
        |ssd, to| if let Some(view) = ssd.view {
            [("read", view.reads), ("write", view.writes)].into_iter().for_each(|(label, monitor)| {
                monitor.ewma.into_iter().for_each(|ewma| seconds(to, label, ewma));
            });
        };
    Device "gimbal_device_latency_threshold_seconds" Gauge ["op"] "The threshold of congestion":
        |ssd, to| if let Some(view) = ssd.view {
            seconds(to, "read", view.reads.threshold);
            seconds(to, "write", view.writes.threshold);
        };
    Device "gimbal_device_write_cost_ratio" Gauge [""] "Price of a written byte, in bytes read":
        |ssd, to| if let Some(view) = ssd.view {
            number(to, "", f64::from(view.write_cost.fixed()) / f64::from(sched::Cost::SCALE));
        };
    Device "gimbal_device_target_rate_bytes" Gauge [""] "The rate at which the scheduler lets IOs through, in bytes per second":
        |ssd, to| ssd.view.and_then(|view| view.pacing).into_iter().for_each(|pacing| {
            count(to, "", pacing.target_rate.get());
        });
    Device "gimbal_device_time_in_flight_bytes" Gauge ["what"] "Device time in flight, counted in bytes read, and its limit":
        |ssd, to| ssd.view.and_then(|view| view.time_in_flight).into_iter().for_each(|time| {
            count(to, "in_flight", time.in_flight.get());
            count(to, "limit", time.limit.get());
        });
    Device "gimbal_device_fragmentation_ratio" Gauge [""] "Estimated fragmentation of the flash: 0 clean, 1 overwritten at random for long":
        |ssd, to| ssd.view.and_then(|view| view.fragmentation).into_iter().for_each(|fragmentation| {
            number(to, "", fragmentation.as_f64());
        });
    Device "gimbal_device_probe_ios_total" Counter [""] "Reads of the scheduler's own, which measure the SSD":
        |ssd, to| count(to, "", ssd.extra_reads.ios);
    Device "gimbal_device_probe_bytes_total" Counter [""] "Bytes of those":
        |ssd, to| count(to, "", ssd.extra_reads.bytes);
    Device "gimbal_device_turns_cut_total" Counter [""] "Turns of its thread that had more to do at once than one turn may":
        |ssd, to| count(to, "", ssd.turns.cut);
    Device "gimbal_device_auxiliary_diverted_bytes_total" Counter [""] "Bytes written to the auxiliary store instead of the SSD":
        |ssd, to| ssd.auxiliary.into_iter().for_each(|store| count(to, "", store.counters.diverted_bytes));
    Device "gimbal_device_auxiliary_returned_bytes_total" Counter [""] "Bytes written back from the auxiliary store":
        |ssd, to| ssd.auxiliary.into_iter().for_each(|store| count(to, "", store.counters.returned_bytes));
    Device "gimbal_device_auxiliary_pending_bytes" Gauge [""] "Bytes in the auxiliary store that the SSD does not have":
        |ssd, to| ssd.auxiliary.into_iter().for_each(|store| count(to, "", store.counters.pending_bytes));
    Device "gimbal_device_auxiliary_failed" Gauge [""] "1 after the auxiliary store has failed":
        |ssd, to| ssd.auxiliary.into_iter().for_each(|store| count(to, "", u64::from(store.has_failed)));
    Device "gimbal_device_files" Gauge [""] "Files of a directory that are in use":
        |ssd, to| ssd.files.into_iter().for_each(|files| count(to, "", files.files as u64));
    Device "gimbal_device_holds_total" Counter [""] "Times that writes of a file have waited for a snapshot":
        |ssd, to| ssd.files.into_iter().for_each(|files| count(to, "", files.holds));
    Device "gimbal_device_hold_seconds_total" Counter [""] "Time in which they have waited":
        |ssd, to| ssd.files.into_iter().for_each(|files| seconds(to, "", files.held));
    Device "gimbal_device_holds_expired_total" Counter [""] "Of these, those that have ended by their time limit, without a snapshot":
        |ssd, to| ssd.files.into_iter().for_each(|files| count(to, "", files.expired));

    Tenant "gimbal_tenant_ios_total" Counter ["op"] "IOs that ended with success":
        |tenant, to| {
            by_op(to, [&tenant.counters.reads, &tenant.counters.writes], |moved| moved.ios);
            count(to, "other", tenant.counters.others);
        };
    Tenant "gimbal_tenant_bytes_total" Counter ["op"] "Bytes that IOs moved":
        |tenant, to| by_op(to, [&tenant.counters.reads, &tenant.counters.writes], |moved| moved.bytes);
    Tenant "gimbal_tenant_errors_total" Counter [""] "IOs that the SSD failed":
        |tenant, to| count(to, "", tenant.counters.errors);
    Tenant "gimbal_tenant_io_seconds" Histogram ["op"] "Time of an IO in the switch and on the SSD":
        |tenant, to| {
            let counters = &tenant.counters;
            histograms(to, [&counters.reads.total_latency, &counters.writes.total_latency]);
        };
    Tenant "gimbal_tenant_wait_seconds_total" Counter ["why"] "Time in which at least one IO waited, by reason: share, limit, device, memory, credit":
        |tenant, to| {
            let waits = &tenant.waits;
            seconds(to, "share", waits.share);
            seconds(to, "limit", waits.limit);
            seconds(to, "device", waits.device);
            seconds(to, "memory", waits.memory);
            seconds(to, "credit", waits.credit);
        };
    Tenant "gimbal_tenant_queued_ios" Gauge [""] "IOs that wait in the scheduler":
        |tenant, to| if let Some(view) = tenant.view { count(to, "", view.queued as u64) };
    Tenant "gimbal_tenant_in_flight_ios" Gauge [""] "IOs on the SSD":
        |tenant, to| if let Some(view) = tenant.view { count(to, "", view.in_flight as u64) };
    Tenant "gimbal_tenant_credit_ios" Gauge [""] "IOs that it may have outstanding":
        |tenant, to| if let Some(view) = tenant.view { count(to, "", u64::from(view.credit.0)) };
    Tenant "gimbal_tenant_slots" Gauge ["what"] "Virtual slots with an IO on the SSD, and those that it may use now":
        |tenant, to| if let Some(view) = tenant.view.filter(|view| view.slots_allotted > 0) {
            count(to, "busy", u64::from(view.slots_busy));
            count(to, "allotted", u64::from(view.slots_allotted));
        };
    Tenant "gimbal_tenant_lag_bytes" Gauge [""] "How far the least-served tenant with backlog is behind this one, in weighted bytes":
        |tenant, to| if let Some(view) = tenant.view { count(to, "", view.service_lag.get()) };
    Tenant "gimbal_tenant_slo_kept" Gauge [""] "Whether its objective of latency is kept: 1 yes, 0 no; none without one, or before it is known":
        |tenant, to| if let Some(kept) = objective(tenant) { count(to, "", u64::from(kept)) };
    Tenant "gimbal_tenant_slo_latency_seconds" Gauge [""] "The percentile of latency that its objective is about":
        |tenant, to| if let Some(latency) = tenant.view.and_then(|view| view.objective?.latency) { seconds(to, "", latency) };
};

/// The longest present turn of any thread.
fn longest_turn(stats: &Stats) -> Nanos {
    let ssds = stats.ssds.iter().map(|ssd| ssd.turn);
    let turns = ssds.chain(stats.threads.iter().map(|thread| thread.turn)).chain([stats.acceptor.turn]);
    turns.max().unwrap_or_default()
}

/// The number of a state in the log page Asymmetric Namespace Access of NVM Express Base.
fn access(state: AccessState) -> u64 {
    match state {
        AccessState::Optimized => 1,
        AccessState::NonOptimized => 2,
        AccessState::Inaccessible => 3,
        AccessState::PersistentLoss => 4,
    }
}

fn level(state: Congestion) -> u64 {
    match state {
        Congestion::Underutilised => 0,
        Congestion::Avoidance => 1,
        Congestion::Congested => 2,
        Congestion::Overloaded => 3,
    }
}

/// Whether the objective of a tenant is kept; `None` without one, or before it is known.
fn objective(tenant: &TenantStats) -> Option<bool> {
    use sched::ObjectiveState::{Kept, Lost, Missed, Refused, Unknown};
    match tenant.view?.objective?.state {
        Unknown => None,
        Kept => Some(true),
        Missed | Lost | Refused(_) => Some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_have_base_units_and_say_their_kind() {
        let mut seen = HashSet::new();
        for measure in TABLE {
            let Measure { name, kind, help, .. } = *measure;
            assert!(seen.insert(name), "{name} is there twice");
            assert_eq!(name.ends_with("_total"), kind == Kind::Counter, "{name}");
            assert_eq!(
                name.ends_with("_seconds") && kind == Kind::Histogram,
                kind == Kind::Histogram,
                "{name}"
            );
            assert!(!help.is_empty() && !help.ends_with('.'), "{name}: {help}");
        }
    }
}
