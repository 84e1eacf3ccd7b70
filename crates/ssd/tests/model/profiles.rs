//! The other profiles behave as their files say.
//!
//! Each number is stated in the profile's file or in `docs/ssd-model.md`. The array's numbers are those of
//! PARDA's experiment without control: four hosts, each with 32 random reads of 16 KiB outstanding on its own
//! virtual disk.

use crate::driver::{Run, Stream, run};
use ssd::{Condition, Image, Profile, SLOT_BYTES};
use std::ops::RangeInclusive;
use units::Nanos;

const SEED: u64 = 7;
const WARM_UP: Nanos = Nanos::millis(300);
const SPAN: Nanos = Nanos::secs(1);
/// Long enough to fill the SLC cache of 2 GiB, at any speed.
const PAST_THE_CACHE: Nanos = Nanos::secs(8);
/// A queue depth that is enough for full speed.
const DEEP: u32 = 256;

struct Device {
    name: &'static str,
    profile: Profile,
}

impl Device {
    fn named(name: &'static str) -> Device {
        Device { name, profile: Profile::named(name).expect("built in") }
    }

    fn run(&self, condition: Condition, streams: &[Stream], warm_up: Nanos) -> Run {
        run(&Image::new(&self.profile, condition, SEED), streams, warm_up, SPAN)
    }

    /// MB/s.
    fn bandwidth(&self, condition: Condition, stream: Stream, warm_up: Nanos) -> f64 {
        self.run(condition, &[stream], warm_up).bandwidth()
    }

    fn claims(&self, what: &str, value: f64, range: RangeInclusive<f64>) {
        assert!(range.contains(&value), "{}: {what}: {value:.1} is not within {range:?}", self.name);
    }
}

/// Within ±10 %.
fn about(value: f64) -> RangeInclusive<f64> {
    0.9 * value..=1.1 * value
}

/// MB/s of this many 4 KiB commands per second.
fn small(per_second: f64) -> f64 {
    per_second * SLOT_BYTES as f64 / 1e6
}

#[test]
fn p3600_matches_the_class_of_its_data_sheet() {
    let p3600 = Device::named("p3600");
    let clean = |stream| p3600.bandwidth(Condition::Clean, stream, WARM_UP);
    p3600.claims("random reads", clean(Stream::random(100, 4, DEEP)), about(small(450e3)));
    p3600.claims("sequential reads", clean(Stream::sequential(100, 128, 32)), about(2_600.0));
    p3600.claims("sequential writes", clean(Stream::sequential(0, 128, 32)), about(1_300.0));
    let writes = p3600.bandwidth(Condition::Fragmented, Stream::random(0, 4, 128), WARM_UP);
    p3600.claims("random writes, fragmented", writes, about(small(56e3)));
    let lone = p3600.run(Condition::Clean, &[Stream::random(0, 4, 1)], WARM_UP);
    // 20 µs in the device, and 9 µs each way.
    p3600.claims("latency of a buffered write", lone.streams[0].write_latency(), about(38.0));
}

#[test]
fn a_consumer_drive_is_fast_until_its_cache_is_full() {
    let consumer = Device::named("consumer-slc");
    let large = Stream::sequential(0, 128, 32);
    let into_the_cache = consumer.bandwidth(Condition::Clean, large.clone(), Nanos::ZERO);
    consumer.claims("large writes into the cache", into_the_cache, about(1_450.0));
    let past_it = consumer.bandwidth(Condition::Clean, large, PAST_THE_CACHE);
    consumer.claims("large writes past it, clean", past_it, about(580.0));
    let small_past_it = consumer.bandwidth(Condition::Fragmented, Stream::random(0, 4, 128), PAST_THE_CACHE);
    consumer.claims("small writes past it, fragmented", small_past_it, about(120.0));
    let reads = consumer.bandwidth(Condition::Clean, Stream::random(100, 4, DEEP), WARM_UP);
    consumer.claims("small reads", reads, about(960.0));
}

#[test]
fn the_array_gives_four_hosts_the_results_of_pardas_experiment_without_control() {
    const IO_BYTES: f64 = 16384.0;
    let array = Device::named("array");
    let slots = u32::try_from(array.profile.geometry.capacity.get() / SLOT_BYTES).expect("scaled");
    let hosts: Vec<Stream> = (0..4).map(|host| Stream::random(100, 16, 32).within(slots, host, 4)).collect();
    let image = Image::new(&array.profile, Condition::Clean, SEED);
    let run = run(&image, &hosts, Nanos::secs(2), Nanos::secs(20));
    array.claims("reads per second", run.bandwidth() * 1e6 / IO_BYTES, 3_300.0..=3_420.0);
    for host in &run.streams {
        // The hosts of the paper were not equal: 34 to 41 ms, 37.5 ms on average.
        array.claims("latency of a host's reads, in ms", host.read_latency() / 1e3, about(37.5));
        array.claims("reads of a host per second", host.bandwidth() * 1e6 / IO_BYTES, about(840.0));
    }
}
