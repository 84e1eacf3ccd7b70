//! ReFlex's claims: reservations are kept whatever others do; tokens that are not reserved or not used are shared
//! equally.

use crate::loads::{Got, Load, reader, serve_by, writer};
use sched::{
    Admitted, Io, IoId, IoKind, Mark, Millitokens, Next, Percentile, Policy, Priority, ReadOnlyLoad, Reflex,
    ReflexConfig, Refused, Share, Slo, SupplyPoint, TokenRate,
};
use units::{Bytes, Instant, Nanos, TenantId};

/// Tokens per second without a bound on latency, and at the strictest.
const SUPPLY: u64 = 120_000;
const SUPPLY_STRICT: u64 = 60_000;

/// Writes cost three times as much as reads; a load without writes has twice the supply.
pub(crate) fn small_device() -> ReflexConfig {
    let point = |micros, rate| SupplyPoint {
        latency_p95: Nanos::micros(micros),
        mixed: TokenRate::tokens_per_sec(rate),
        read_only: TokenRate::tokens_per_sec(2 * rate),
    };
    let supply = vec![point(500, SUPPLY_STRICT), point(1000, SUPPLY)];
    let config = ReflexConfig::new(Millitokens::TOKEN, Millitokens::tokens(3), supply);
    ReflexConfig { read_only_load: ReadOnlyLoad::Declared, ..config }
}

pub(crate) fn slo(iops: u64, read_percent: u8, micros: u64) -> Share {
    let (percentile, latency) = (Percentile::P95, Nanos::micros(micros));
    let slo = Slo { iops, read_percent, percentile, latency };
    Share { slo: Some(slo), ..Share::EQUAL }
}

fn serve(loads: &[Load]) -> Vec<Got> {
    serve_by(Reflex::new(small_device()), loads, Nanos::secs(1)).1
}

/// Whole tokens that a tenant spent.
fn tokens(load: &Load, got: &Got) -> u64 {
    small_device().cost(load.kind, load.length).0 * got.ios / 1000
}

fn assert_near(found: u64, expected: u64, per_cent: u64) {
    assert!(found.abs_diff(expected) * 100 <= expected * per_cent, "{found} instead of {expected}");
}

#[test]
fn best_effort_tenants_spend_the_same_whatever_they_do() {
    let loads = [
        reader(Bytes::kib(4), 64),
        writer(Bytes::kib(4), 32),
        reader(Bytes::kib(64), 8),
        writer(Bytes::kib(16), 8),
    ];
    for (load, got) in loads.iter().zip(serve(&loads)) {
        assert_near(tokens(load, &got), SUPPLY / 4, 2);
    }
}

#[test]
fn a_weight_is_worth_its_share_of_the_tokens() {
    let mut loads = [reader(Bytes::kib(4), 64); 3];
    loads[1].share.weight = 2;
    loads[2].share.weight = 5;
    for (load, got) in loads.iter().zip(serve(&loads)) {
        assert_near(tokens(load, &got), SUPPLY / 8 * u64::from(load.share.weight), 2);
    }
}

#[test]
fn a_latency_critical_tenant_gets_its_reservation_and_the_others_the_rest() {
    let critical = Load { share: slo(70_000, 100, 1000), ..reader(Bytes::kib(4), 64) };
    let loads = [critical, writer(Bytes::kib(4), 64), reader(Bytes::kib(4), 64)];
    let got = serve(&loads);
    assert_near(got[0].ios, 70_000, 1);
    for tenant in 1..3 {
        assert_near(tokens(&loads[tenant], &got[tenant]), (SUPPLY - 70_000) / 2, 2);
    }
}

#[test]
fn what_a_latency_critical_tenant_does_not_use_goes_to_the_others() {
    let lazy = Load { share: slo(70_000, 100, 1000), think: Nanos::millis(1), ..reader(Bytes::kib(4), 1) };
    let loads = [lazy, reader(Bytes::kib(4), 64)];
    let got = serve(&loads);
    assert_near(got[0].ios + got[1].ios, SUPPLY, 2);
}

#[test]
fn without_best_effort_tenants_the_critical_share_what_is_left() {
    let critical = |iops| Load { share: slo(iops, 50, 1000), ..reader(Bytes::kib(4), 64) };
    let got = serve(&[critical(20_000), critical(10_000)]);
    // Half of them could be writes, so 20 000 reserve 40 000 tokens and 10 000 half of that; 60 000 are left for both.
    assert_near(got[0].ios, 70_000, 1);
    assert_near(got[1].ios, 50_000, 1);
}

#[test]
fn the_strictest_bound_decides_for_everybody() {
    let strict = Load { share: slo(1_000, 100, 500), ..reader(Bytes::kib(4), 64) };
    let got = serve(&[strict, reader(Bytes::kib(4), 64)]);
    assert_near(got[0].ios + got[1].ios, SUPPLY_STRICT, 1);
}

#[test]
fn a_load_that_is_seen_not_to_write_has_more_tokens() {
    let observed =
        ReflexConfig { read_only_load: ReadOnlyLoad::Observed(Nanos::millis(10)), ..small_device() };
    let load = |writes: u32| {
        let trickle = Load { think: Nanos::millis(2), ..writer(Bytes::kib(4), 1) };
        let mut loads = vec![reader(Bytes::kib(4), 64)];
        loads.extend(vec![trickle; writes as usize]);
        serve_by(Reflex::new(observed.clone()), &loads, Nanos::secs(1)).1[0].ios
    };
    let most = 8 * 1_000_000_000 / (50_000 + 4096);
    assert_near(load(0), most, 1);
    assert!(load(1) < SUPPLY, "{}", load(1));
}

#[test]
fn a_refused_objective_is_best_effort() {
    let mut reflex = Reflex::new(small_device());
    let now = Instant::ZERO;
    reflex.set_share(now, TenantId(0), slo(100_000, 100, 1000));
    reflex.set_share(now, TenantId(2), Share::EQUAL);
    let too_much = slo(30_000, 100, 1000);
    let (asked, reserved) = (TokenRate::tokens_per_sec(30_000), TokenRate::tokens_per_sec(100_000));
    let supply = TokenRate::tokens_per_sec(SUPPLY);
    let refused = Refused::TooMuch { asked, reserved, supply };
    assert_eq!(reflex.admission(TenantId(1), &too_much), Err(refused));
    reflex.set_share(now, TenantId(1), too_much);
    assert_eq!((reflex.reserved(TenantId(0)), reflex.reserved(TenantId(1))), (Some(reserved), None));
    reflex.forget(now, TenantId(0));
    assert_eq!(reflex.admission(TenantId(1), &too_much), Ok(Admitted::Promised), "the other has gone");
}

fn io(id: u64, tenant: u32, kind: IoKind, length: Bytes) -> Io {
    let (priority, mark) = (Priority::default(), Mark::default());
    Io { id: IoId(id), tenant: TenantId(tenant), priority, kind, length, mark }
}

fn submitted(reflex: &mut Reflex, now: Instant) -> (usize, Next) {
    let mut count = 0;
    loop {
        match reflex.next(now) {
            Next::Submit(_) => count += 1,
            other => return (count, other),
        }
    }
}

#[test]
fn the_instant_at_which_a_head_can_be_paid_is_named() {
    let mut reflex = Reflex::new(small_device());
    let now = Instant(77);
    reflex.on_arrival(now, io(0, 0, IoKind::Write, Bytes::kib(8)));
    // Two units of a write, three tokens each, at 120 000 tokens per second.
    assert_eq!(reflex.next(now), Next::WakeAt(now + Nanos::micros(50)));
    reflex.on_arrival(now, io(1, 1, IoKind::Read, Bytes::kib(4)));
    assert_eq!(reflex.next(now), Next::WakeAt(now + Nanos(16_667)), "half of that rate, one token");
}

#[test]
fn a_latency_critical_tenant_may_burst_to_its_limit_and_save_only_a_little() {
    let config = small_device();
    let mut reflex = Reflex::new(config.clone());
    reflex.set_share(Instant::ZERO, TenantId(0), slo(40_000, 100, 1000));
    reflex.set_share(Instant::ZERO, TenantId(1), Share::EQUAL);
    let burst = |reflex: &mut Reflex, now| {
        for id in 0..200 {
            reflex.on_arrival(now, io(id, 0, IoKind::Read, Bytes::kib(4)));
        }
        submitted(reflex, now)
    };
    let idle = reflex.clone();
    let (count, next) = burst(&mut reflex, Instant::ZERO);
    assert_eq!((count, next), (50, Next::WakeAt(Instant(1))), "NEG_LIMIT is 50 tokens");
    // POS_LIMIT is what 75 µs earn: 3 tokens.
    for pause in [Nanos::micros(74), Nanos::secs(10)] {
        let (count, _) = burst(&mut idle.clone(), Instant::ZERO + pause);
        assert!((51..=53).contains(&count), "{count} after {pause}");
    }
}

#[test]
fn what_is_spent_came_in() {
    // No tenant has saved anything: best effort only, and at no time may more go than the supply has brought.
    let mut reflex = Reflex::new(small_device());
    let mut spent = 0;
    let mut now = Instant::ZERO;
    for id in 0..3000 {
        let (tenant, kind) = ((id % 7) as u32, if id % 3 == 0 { IoKind::Write } else { IoKind::Read });
        reflex.on_arrival(now, io(id, tenant, kind, Bytes::kib(4 << (id % 4))));
    }
    let mut last = now;
    loop {
        match reflex.next(now) {
            Next::Submit(io) => {
                spent += u128::from(small_device().cost(io.kind, io.length).0);
                let came_in = u128::from(SUPPLY) * u128::from(now.0) / 1_000_000;
                assert!(spent <= came_in, "{spent} thousandths spent of {came_in} at {now:?}");
                last = now;
            }
            Next::Extra(read) => panic!("{read:?}, though it measures nothing"),
            Next::WakeAt(moment) => now = moment,
            Next::Idle => break,
        }
    }
    assert_eq!(reflex.backlog().queued, 0);
    assert_near(spent as u64, SUPPLY * last.0 / 1_000_000, 1);
}
