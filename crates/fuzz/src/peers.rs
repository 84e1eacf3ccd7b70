//! Constants of the schedulers of Linux: most often those that Linux has.

use crate::input::Input;
use crate::policy::{LATENCY_MAX, any_number};
use sched::{BfqConfig, IoCostConfig, IoCostQos, IoCostRates, KyberConfig, MqDeadlineConfig};
use units::{ByteRate, Bytes, Nanos};

/// An SSD that does at least 100,000 IOs and 1 GiB a second: io.cost looks up every period, so one that does less takes more wake-ups than a run has.
fn any_rates(input: &mut Input<'_>) -> IoCostRates {
    IoCostRates {
        rate: ByteRate(any_number(input, 1 << 30).max(1 << 30)),
        random_iops: any_number(input, 200_000).max(100_000),
    }
}

pub(crate) fn io_cost(input: &mut Input<'_>) -> IoCostConfig {
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

pub(crate) fn mq_deadline(input: &mut Input<'_>) -> MqDeadlineConfig {
    MqDeadlineConfig {
        nr_requests: any_few(input, 64),
        depth: any_few(input, 32),
        read_expire: any_time(input, 500_000_000),
        write_expire: any_time(input, 5_000_000_000),
        writes_starved: any_number(input, 2) as u32,
        batch: any_number(input, 16) as u32,
    }
}

pub(crate) fn kyber(input: &mut Input<'_>) -> KyberConfig {
    KyberConfig {
        nr_requests: any_few(input, 256),
        depth: any_few(input, 1023),
        tokens: [256, 128, 16].map(|tokens| any_few(input, tokens)),
        read_target: any_time(input, 2_000_000),
        write_target: any_time(input, 10_000_000),
    }
}

pub(crate) fn bfq(input: &mut Input<'_>) -> BfqConfig {
    BfqConfig {
        nr_requests: any_few(input, 64),
        depth: any_few(input, 32),
        budget_max: Bytes(any_number(input, 8 << 20)),
        timeout: any_time(input, 125_000_000),
        slice_idle: any_time(input, 8_000_000),
    }
}

/// At most as long as a device is waited for.
fn any_time(input: &mut Input<'_>, common: u64) -> Nanos {
    Nanos(any_number(input, common).min(LATENCY_MAX))
}

/// At least one.
fn any_few(input: &mut Input<'_>, common: u64) -> u32 {
    (any_number(input, common) as u32).max(1)
}
