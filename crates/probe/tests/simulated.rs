//! The prober on the SSD model: what it finds is what the model has, and a probe that is continued finds the same.

use probe::{Config, Device, Entry, Prober, Profile, Simulated, drive};
use ssd::{Condition, Ssd};
use std::convert::Infallible;

fn consumer() -> Simulated {
    let profile = ssd::Profile::named("consumer-slc").expect("built in");
    Simulated::new(Ssd::new(&profile, Condition::Clean, 1))
}

fn config(device: &Simulated) -> Config {
    Config::quick(device.size(), 4096)
}

fn probe(device: &mut Simulated, config: Config) -> (Profile, Vec<Entry>) {
    let mut prober = Prober::new(config).expect("valid");
    let Ok(()) = drive(&mut prober, device, |_, _| Ok(()));
    (prober.profile().expect("finished").clone(), prober.journal().to_vec())
}

#[test]
fn the_slc_cache_of_the_model_is_found() {
    let mut device = consumer();
    let cache_mib = device.ssd().slc_free().get() as f64 / units::MIB as f64;
    let config = config(&device);
    let (profile, _) = probe(&mut device, config);
    let buffer = profile.buffer.as_ref().expect("it has one");
    assert!((buffer.size_mib / cache_mib - 1.0).abs() < 0.05, "found {} MiB of {cache_mib}", buffer.size_mib);
    assert_eq!(buffer.drain_under_load_mb_per_s, Some(0.0), "it folds only when idle");
    let recovery = profile.recovery.expect("it recovers");
    let reads = recovery.reads.iter().find(|reads| reads.reads_per_s == 5000).expect("measured");
    assert!(reads.recovered_share < 0.05, "it folds only after 50 ms without a command: {reads:?}");
    let write = profile.degraded.iter().find(|row| row.what.starts_with("write")).expect("measured");
    assert!(write.exhausted_mean_us > 2.0 * write.fresh_mean_us, "{write:?}");
    for limit in &profile.limit {
        let in_order = limit.p50_us > 0.0 && limit.p50_us <= limit.p99_us && limit.p99_us <= limit.p999_us;
        assert!(in_order && limit.mean_us <= limit.p999_us, "{limit:?}");
    }
    assert!(profile.device.took_s < 120.0, "{} s", profile.device.took_s);
}

/// A device that ends after a number of waits.
struct Stops<'a> {
    device: &'a mut Simulated,
    waits: u64,
}

impl Device for Stops<'_> {
    type Error = ();

    fn now(&self) -> units::Instant {
        self.device.now()
    }

    fn submit(&mut self, io: probe::Io) -> Result<(), ()> {
        self.device.submit(io).map_err(|never: Infallible| match never {})
    }

    fn wait(&mut self, until: Option<units::Instant>, done: &mut Vec<probe::Completion>) -> Result<(), ()> {
        self.waits = self.waits.checked_sub(1).ok_or(())?;
        self.device.wait(until, done).map_err(|never: Infallible| match never {})
    }
}

#[test]
fn a_probe_that_is_continued_keeps_what_it_found_and_ends() {
    let mut device = consumer();
    let config = config(&device);
    let mut prober = Prober::new(config.clone()).expect("valid");
    let mut waits = 600_000;
    let mut rounds = 0;
    loop {
        let before = prober.journal().to_vec();
        let mut stops = Stops { device: &mut device, waits };
        let outcome = drive(&mut prober, &mut stops, |_, _| Ok(()));
        assert_eq!(prober.journal()[..before.len()], before[..], "nothing is asked twice");
        if outcome.is_ok() {
            break;
        }
        // Through text, as from a file.
        let text = serde_json::to_string(prober.journal()).expect("data");
        let journal: Vec<Entry> = serde_json::from_str(&text).expect("its own text");
        // IOs of the task that was interrupted are lost with the process; the SSD is another one after that.
        device = consumer();
        prober = Prober::resume(config.clone(), journal).expect("the same configuration");
        rounds += 1;
        waits += 200_000;
    }
    assert!(rounds > 1, "it was interrupted {rounds} times");
    let (_, whole) = probe(&mut consumer(), config.clone());
    let profile = prober.profile().expect("finished");
    let reads = |profile: &Profile| {
        profile.cost.iter().filter(|cost| cost.size_kib == 4).map(|cost| cost.ns).collect::<Vec<_>>()
    };
    let replayed = Prober::resume(config.clone(), whole.clone()).expect("its own journal");
    assert_eq!(replayed.journal(), whole);
    assert_eq!(reads(profile).len(), 4);
    let size = profile.buffer.as_ref().expect("found").size_mib;
    assert!((size / 2048.0 - 1.0).abs() < 0.05, "{size} MiB");
}

#[test]
fn the_journal_of_another_probe_is_refused_with_the_place() {
    let mut device = consumer();
    let config = config(&device);
    let (_, journal) = probe(&mut device, config.clone().read_only());
    let error = Prober::resume(config.clone().with_seed(2), journal[5..].to_vec())
        .err()
        .expect("refused")
        .to_string();
    assert!(error.contains("entry 1 of the state") && error.contains("start again"), "{error}");
}
