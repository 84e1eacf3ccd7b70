//! Constants of the schedulers: most often the usual ones.

use crate::input::Input;
use crate::policy::{LATENCY_MAX, any_number, gimbal, level_calibrated};
use sched::{
    BfqConfig, FlashfqConfig, GimbalConfig, GimbalOrder, IoCostConfig, IoCostQos, IoCostRates, KyberConfig,
    LinearCost, MclockConfig, Millitokens, MqDeadlineConfig, ReadOnlyLoad, ReflexConfig, Scheduler, Setup,
    SpdkQosConfig, SupplyPoint, TokenRate,
};
use units::{ByteRate, Bytes, Nanos};

/// A scheduler with constants of every size; `None` if it has no constants.
pub(crate) fn any(row: &Scheduler, input: &mut Input<'_>) -> Option<Setup> {
    Some(match row.name {
        "gimbal" => GimbalConfig { order: GimbalOrder::Release, ..gimbal(input) }.into(),
        "gimbal-text" => GimbalConfig { order: GimbalOrder::Text, ..gimbal(input) }.into(),
        "level-calibrated" => level_calibrated(input).into(),
        "reflex" => reflex(input).into(),
        "flashfq" => flashfq(input).into(),
        "mclock" => mclock(input).into(),
        "spdk-qos" => spdk_qos(input).into(),
        "io-cost" => io_cost(input).into(),
        "mq-deadline" => mq_deadline(input).into(),
        "kyber" => kyber(input).into(),
        "bfq" => bfq(input).into(),
        _ => return None,
    })
}

/// An SSD that does at least 100,000 IOs and 1 GiB a second: io.cost looks up every period, so one that does less takes more wake-ups than a run has.
fn any_rates(input: &mut Input<'_>) -> IoCostRates {
    IoCostRates {
        rate: ByteRate(any_number(input, 1 << 30).max(1 << 30)),
        random_iops: any_number(input, 200_000).max(100_000),
    }
}

fn io_cost(input: &mut Input<'_>) -> IoCostConfig {
    let qos = IoCostQos {
        read_percent: input.byte() % 101,
        read_latency: any_time(input, 5_000_000).max(Nanos::millis(5)),
        write_percent: input.byte() % 101,
        write_latency: any_time(input, 5_000_000),
        vrate_min: (any_number(input, 50) as u32).max(50),
        vrate_max: any_number(input, 150) as u32,
    };
    let nr_requests = any_few(input, 1023);
    IoCostConfig { reads: any_rates(input), writes: any_rates(input), qos, nr_requests }
}

fn mq_deadline(input: &mut Input<'_>) -> MqDeadlineConfig {
    MqDeadlineConfig {
        nr_requests: any_few(input, 64),
        depth: any_few(input, 32),
        read_expire: any_time(input, 500_000_000),
        write_expire: any_time(input, 5_000_000_000),
        writes_starved: any_number(input, 2) as u32,
        batch: any_number(input, 16) as u32,
    }
}

fn kyber(input: &mut Input<'_>) -> KyberConfig {
    KyberConfig {
        nr_requests: any_few(input, 256),
        depth: any_few(input, 1023),
        tokens: [256, 128, 16].map(|tokens| any_few(input, tokens)),
        read_target: any_time(input, 2_000_000),
        write_target: any_time(input, 10_000_000),
    }
}

fn bfq(input: &mut Input<'_>) -> BfqConfig {
    BfqConfig {
        nr_requests: any_few(input, 64),
        depth: any_few(input, 32),
        budget_max: Bytes(any_number(input, 8 << 20)),
        timeout: any_time(input, 125_000_000),
        slice_idle: any_time(input, 8_000_000),
    }
}

fn reflex(input: &mut Input<'_>) -> ReflexConfig {
    let rate =
        |input: &mut Input<'_>| TokenRate::tokens_per_sec(any_number(input, 300_000).clamp(100, 1 << 40));
    let mut supply = Vec::new();
    for place in 1..=input.below(4) {
        let latency_p95 = Nanos::micros(100 * u64::from(place));
        supply.push(SupplyPoint { latency_p95, mixed: rate(input), read_only: rate(input) });
    }
    supply.sort_by_key(|point| (point.latency_p95, point.mixed));
    let (read, write) = (any_number(input, 500), any_number(input, 9000));
    let mut config = ReflexConfig::new(Millitokens(read), Millitokens(write), supply);
    if input.flag() {
        config.read_only_load = ReadOnlyLoad::Declared;
    }
    config
}

fn flashfq(input: &mut Input<'_>) -> FlashfqConfig {
    let cost = |input: &mut Input<'_>, base, per_kib| LinearCost {
        base: any_time(input, base),
        per_kib: any_time(input, per_kib),
    };
    FlashfqConfig {
        reads: cost(input, 2000, 300),
        writes: cost(input, 4000, 800),
        depth: any_few(input, 64),
        throttle: any_time(input, 1_000_000),
        anticipation: any_time(input, 200_000),
    }
}

/// At least 1 MiB a second: an IO may otherwise wait for longer than the clock goes.
fn spdk_qos(input: &mut Input<'_>) -> SpdkQosConfig {
    let rate = input.flag().then(|| ByteRate(any_number(input, 1 << 30).max(1 << 20)));
    SpdkQosConfig { rate }
}

fn mclock(input: &mut Input<'_>) -> MclockConfig {
    MclockConfig { depth: any_few(input, 32), size_base: Bytes(any_number(input, 8 << 10).max(1)) }
}

/// At most as long as a device is waited for.
fn any_time(input: &mut Input<'_>, common: u64) -> Nanos {
    Nanos(any_number(input, common).min(LATENCY_MAX))
}

/// At least one.
fn any_few(input: &mut Input<'_>, common: u64) -> u32 {
    (any_number(input, common) as u32).max(1)
}
