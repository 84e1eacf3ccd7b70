//! Claims about whole loads: tenants that keep a fixed number of IOs outstanding, in front of a device with a few
//! identical units. Not a model of an SSD: just something that queues.

use sched::{
    DeviceConstants, Done, Gimbal, GimbalConfig, Io, IoId, IoKind, Mark, Next, Outcome, Policy, Priority,
    Share,
};
use std::collections::BTreeMap;
use units::{ByteRate, Bytes, Instant, Nanos, TenantId};

/// One tenant's load.
#[derive(Clone, Copy)]
struct Load {
    kind: IoKind,
    length: Bytes,
    depth: u32,
    share: Share,
}

fn reader(length: Bytes, depth: u32) -> Load {
    Load { kind: IoKind::Read, length, depth, share: Share::EQUAL }
}

fn writer(length: Bytes, depth: u32) -> Load {
    Load { kind: IoKind::Write, ..reader(length, depth) }
}

/// What a tenant got.
#[derive(Clone, Copy, Debug, Default)]
struct Got {
    bytes: u64,
    ios: u64,
    wait_max: Nanos,
}

/// Runs the loads for `span` under Gimbal as published.
fn serve(loads: &[Load], span: Nanos) -> (Gimbal, Vec<Got>) {
    serve_with(GimbalConfig::paper(DeviceConstants::DCT983), loads, span)
}

/// Runs the loads for `span`; an IO of `length` holds one of 8 units for 50 µs and 1 ns per byte.
fn serve_with(config: GimbalConfig, loads: &[Load], span: Nanos) -> (Gimbal, Vec<Got>) {
    const UNITS: usize = 8;
    let mut gimbal = Gimbal::new(config);
    let mut got = vec![Got::default(); loads.len()];
    let mut arrived = BTreeMap::new();
    let mut units = [Instant::ZERO; UNITS];
    let mut completions: BTreeMap<(Instant, IoId), (Io, Instant)> = BTreeMap::new();
    let mut now = Instant::ZERO;
    let arrive = |gimbal: &mut Gimbal, arrived: &mut BTreeMap<IoId, Instant>, now, tenant: usize| {
        let (id, load) = (IoId(arrived.len() as u64), loads[tenant]);
        let (priority, mark) = (Priority::default(), Mark::default());
        let tenant = TenantId(tenant as u32);
        gimbal.on_arrival(now, Io { id, tenant, priority, kind: load.kind, length: load.length, mark });
        arrived.insert(id, now);
    };
    for (tenant, load) in loads.iter().enumerate() {
        gimbal.set_share(now, TenantId(tenant as u32), load.share);
        for _ in 0..load.depth {
            arrive(&mut gimbal, &mut arrived, now, tenant);
        }
    }
    while now < Instant::ZERO + span {
        let wake = loop {
            match gimbal.next(now) {
                Next::Submit(io) => {
                    let unit = units.iter_mut().min().expect("there are units");
                    *unit = (*unit).max(now) + Nanos::micros(50) + Nanos(io.length.0);
                    completions.insert((*unit, io.id), (io, now));
                }
                Next::WakeAt(moment) => break moment,
                Next::Idle => break Instant::FAR_FUTURE,
            }
        };
        let completion = completions.first_key_value().map_or(Instant::FAR_FUTURE, |((at, _), _)| *at);
        now = wake.min(completion);
        assert!(now < Instant::FAR_FUTURE, "idle for ever: {:?}", gimbal.backlog());
        if completion == now {
            let (_, (io, submitted)) = completions.pop_first().expect("one is due");
            let outcome = Outcome::Success { latency: now.since(submitted) };
            gimbal.on_completion(now, Done { io, outcome });
            let tenant = io.tenant.index();
            got[tenant].bytes += io.length.0;
            got[tenant].ios += 1;
            got[tenant].wait_max = got[tenant].wait_max.max(now.since(arrived[&io.id]));
            arrive(&mut gimbal, &mut arrived, now, tenant);
        }
    }
    (gimbal, got)
}

#[test]
fn tenants_of_one_kind_get_the_same() {
    let (_, got) = serve(&[reader(Bytes::kib(4), 32); 6], Nanos::millis(500));
    let (least, most) = (got.iter().map(|got| got.bytes).min(), got.iter().map(|got| got.bytes).max());
    assert!(most <= least.map(|least| least + least / 100), "{got:?}");
}

#[test]
fn an_io_larger_than_the_bucket_does_not_starve() {
    let loads = [reader(Bytes::kib(4), 32), reader(Bytes::mib(2), 1), writer(Bytes::mib(2), 1)];
    let (_, got) = serve(&loads, Nanos::secs(2));
    for (tenant, got) in got.iter().enumerate() {
        assert!(got.ios > 10 && got.wait_max < Nanos::millis(400), "tenant {tenant}: {got:?}");
    }
}

#[test]
fn one_io_at_a_time_is_not_held_up_by_a_crowd() {
    let mut loads = vec![reader(Bytes::kib(128), 16); 7];
    loads.push(reader(Bytes::kib(4), 1));
    let (_, got) = serve(&loads, Nanos::millis(500));
    // Ahead of it lie at most a slot of each of the others and what is in the units.
    assert!(got[7].wait_max < Nanos::millis(4), "{:?}", got[7]);
}

#[test]
fn a_byte_limit_holds_beside_idle_capacity() {
    let limit_rate = Some(ByteRate::mib_per_sec(20));
    let limited = Load { share: Share { limit_rate, ..Share::EQUAL }, ..reader(Bytes::kib(4), 32) };
    let (_, got) = serve(&[limited], Nanos::secs(1));
    let expected = Bytes::mib(20).0;
    assert!(got[0].bytes.abs_diff(expected) < expected / 50, "{got:?}");
}

#[test]
fn an_io_limit_holds_beside_idle_capacity() {
    let limited =
        Load { share: Share { limit_iops: Some(700), ..Share::EQUAL }, ..reader(Bytes::kib(4), 32) };
    let (_, got) = serve(&[limited], Nanos::secs(1));
    assert!(got[0].ios.abs_diff(700) <= 5, "{got:?}");
}

#[test]
fn a_reservation_is_met_in_a_crowd() {
    let reserved = ByteRate::mib_per_sec(600);
    let mut loads = vec![reader(Bytes::kib(128), 8); 12];
    let (_, without) = serve(&loads, Nanos::secs(1));
    loads[0].share.reservation = Some(reserved);
    let (_, with) = serve(&loads, Nanos::secs(1));
    let bytes = [without[0].bytes, with[0].bytes];
    assert!(bytes[0] < reserved.0 * 3 / 4, "nothing was missing without a reservation: {bytes:?}");
    assert!(bytes[1] >= reserved.0 * 99 / 100, "{bytes:?}");
}

#[test]
fn a_weight_is_worth_its_share_of_the_bandwidth() {
    let mut loads = [reader(Bytes::kib(128), 16); 2];
    loads[1].share.weight = 3;
    let (_, got) = serve(&loads, Nanos::secs(1));
    let (light, heavy) = (got[0].bytes * 3, got[1].bytes);
    assert!(light.abs_diff(heavy) < heavy / 10, "{got:?}");
}

#[test]
fn writes_that_the_device_absorbs_become_as_cheap_as_reads() {
    let (gimbal, _) = serve(&[writer(Bytes::kib(4), 1)], Nanos::millis(1700));
    let view = gimbal.ssd_view(Instant::ZERO + Nanos::secs(2)).expect("Gimbal measures the SSD");
    assert_eq!(view.write_cost, sched::Cost::ONE);
}

#[test]
fn tenants_that_are_out_of_slots_most_of_the_time_get_equal_bytes_too() {
    // A slot of small IOs holds the units longer than a slot of one large IO.
    let loads = [reader(Bytes::kib(4), 256), reader(Bytes::kib(128), 64), reader(Bytes::kib(512), 64)];
    let ratio = |config| {
        let (_, got) = serve_with(config, &loads, Nanos::secs(1));
        let bytes = got.iter().map(|got| got.bytes);
        bytes.clone().max().unwrap_or(0) as f64 / bytes.min().unwrap_or(0) as f64
    };
    let paper = ratio(GimbalConfig::paper(DeviceConstants::DCT983));
    let fair = ratio(GimbalConfig::fair(DeviceConstants::DCT983));
    assert!(paper > 1.5, "nothing was wrong without the bounded lead: {paper}");
    assert!(fair < 1.05, "{fair}");
}
