//! Loads in a closed loop: tenants that keep a fixed number of IOs outstanding, in front of a device with a few identical
//! units. Not a model of an SSD: just something that queues.

use sched::{Done, Io, IoId, IoKind, Mark, Next, Outcome, Policy, Priority, Share};
use std::collections::BTreeMap;
use units::{Bytes, Instant, Nanos, TenantId};

/// Units of the device.
const UNITS: usize = 8;

/// One tenant's load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub kind: IoKind,
    pub length: Bytes,
    pub depth: u32,
    /// From the end of an IO to the arrival of the next.
    pub think: Nanos,
    pub share: Share,
}

pub(crate) fn reader(length: Bytes, depth: u32) -> Load {
    Load { kind: IoKind::Read, length, depth, think: Nanos::ZERO, share: Share::EQUAL }
}

pub(crate) fn writer(length: Bytes, depth: u32) -> Load {
    Load { kind: IoKind::Write, ..reader(length, depth) }
}

/// Service of a tenant.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Got {
    pub bytes: u64,
    pub ios: u64,
    /// From arrival to completion.
    pub wait_max: Nanos,
}

/// For how long an IO holds one of the units.
fn occupied(length: Bytes) -> Nanos {
    Nanos::micros(50) + Nanos(length.0)
}

/// Runs the loads for `span`; an IO of `length` holds one of 8 units for 50 µs and 1 ns per byte.
pub(crate) fn serve_by<P: Policy>(mut policy: P, loads: &[Load], span: Nanos) -> (P, Vec<Got>) {
    let mut got = vec![Got::default(); loads.len()];
    let mut arrived = BTreeMap::new();
    let mut units = [Instant::ZERO; UNITS];
    let mut completions: BTreeMap<(Instant, IoId), (Io, Instant)> = BTreeMap::new();
    let mut arrivals: BTreeMap<(Instant, usize), u32> = BTreeMap::new();
    let mut now = Instant::ZERO;
    for (tenant, load) in loads.iter().enumerate() {
        policy.set_share(now, TenantId(tenant as u32), load.share);
        arrivals.insert((now, tenant), load.depth);
    }
    while now < Instant::ZERO + span {
        while let Some(entry) = arrivals.first_entry()
            && entry.key().0 == now
        {
            let ((_, tenant), count) = entry.remove_entry();
            for _ in 0..count {
                let (id, load) = (IoId(arrived.len() as u64), loads[tenant]);
                let (priority, mark) = (Priority::default(), Mark::default());
                let tenant = TenantId(tenant as u32);
                let io = Io { id, tenant, priority, kind: load.kind, length: load.length, mark };
                policy.on_arrival(now, io);
                arrived.insert(id, now);
            }
        }
        let wake = loop {
            match policy.next(now) {
                Next::Submit(io) => {
                    let unit = units.iter_mut().min().expect("there are units");
                    *unit = (*unit).max(now) + occupied(io.length);
                    completions.insert((*unit, io.id), (io, now));
                }
                Next::Extra(_) => unreachable!("only one that measures the SSD wants more"),
                Next::WakeAt(moment) => break moment,
                Next::Idle => break Instant::FAR_FUTURE,
            }
        };
        let completion = completions.first_key_value().map_or(Instant::FAR_FUTURE, |((at, _), _)| *at);
        let arrival = arrivals.first_key_value().map_or(Instant::FAR_FUTURE, |((at, _), _)| *at);
        now = wake.min(completion).min(arrival);
        assert!(now < Instant::FAR_FUTURE, "idle for ever: {:?}", policy.backlog());
        if completion == now {
            let (_, (io, submitted)) = completions.pop_first().expect("one is due");
            let outcome = Outcome::Success { latency: now.since(submitted) };
            policy.on_completion(now, Done { io, outcome });
            let tenant = io.tenant.index();
            got[tenant].bytes += io.length.0;
            got[tenant].ios += 1;
            got[tenant].wait_max = got[tenant].wait_max.max(now.since(arrived[&io.id]));
            *arrivals.entry((now + loads[tenant].think, tenant)).or_default() += 1;
        }
    }
    (policy, got)
}
