//! The same SSD probed over NVMe/TCP in real time, and in virtual time: both find the same.
//!
//! ```text
//!   ssd::Profile ─┬─► gimbal serve (emulated, slowed down) ◄── NVMe/TCP ── gimbal ssdtest ──► profile ─┐
//!                 └─► Slowed<Simulated>, virtual time ◄── the same Prober ──► profile ────────────────► compared
//! ```
//!
//! Both see an SSD that is slower by the same factor, so that this machine and its network are no limit, and so that
//! loads of a fixed rate or length mean the same. The SSD has a small write buffer, so that exhausting it does not take
//! long. The cost of small reads is compared on an SSD that is even slower.

mod process;

use probe::{Completion, Config, Device, Io, Prober, Profile, Simulated, drive};
use process::{Process, gimbal, serve};
use ssd::{Condition, Ssd};
use std::convert::Infallible;
use std::fs;
use std::path::PathBuf;
use units::{Bytes, Instant, Nanos};

/// 16 blocks of 1 MiB on each of 16 dies: 256 MiB.
const BUFFER_BLOCKS_PER_DIE: u32 = 16;
const NQN: &str = "nqn.2025-01.io.gimbal:ssd";
/// More than a probe needs.
const TIME: Nanos = Nanos::secs(600);
const ATTEMPTS: u32 = 3;

/// One number of a profile, and by how much it may differ over the wire.
struct Number {
    what: String,
    value: f64,
    tolerance: f64,
}

/// Settings and results of probing an SSD in both ways.
struct Comparison {
    /// Factor by which the SSD is slower than the emulated one.
    slower: u64,
    /// The configuration in virtual time.
    config: fn(Bytes) -> Config,
    /// The options with the same meaning over the wire.
    options: &'static [&'static str],
    numbers: fn(&Profile) -> Vec<Number>,
}

/// An SSD for which time passes more slowly.
struct Slowed {
    ssd: Simulated,
    slower: u64,
}

impl Device for Slowed {
    type Error = Infallible;

    fn now(&self) -> Instant {
        Instant(self.ssd.now().0 * self.slower)
    }

    fn submit(&mut self, io: Io) -> Result<(), Infallible> {
        self.ssd.submit(io)
    }

    fn wait(&mut self, until: Option<Instant>, done: &mut Vec<Completion>) -> Result<(), Infallible> {
        self.ssd.wait(until.map(|until| Instant(until.0.div_ceil(self.slower))), done)?;
        for completion in done {
            completion.at.0 *= self.slower;
        }
        Ok(())
    }
}

/// A consumer SSD with a small write buffer.
fn small_buffer() -> ssd::Profile {
    let mut profile = ssd::Profile::named("consumer-slc").expect("built in");
    profile.slc.blocks_per_die = BUFFER_BLOCKS_PER_DIE;
    profile
}

impl Comparison {
    fn in_virtual_time(&self, ssd: &ssd::Profile) -> Profile {
        let ssd = Simulated::new(Ssd::new(ssd, Condition::Clean, 1));
        let config = (self.config)(ssd.size()).with_time_most(TIME);
        let mut prober = Prober::new(config).expect("valid");
        let Ok(()) = drive(&mut prober, &mut Slowed { ssd, slower: self.slower }, |_, _| Ok(()));
        prober.profile().expect("finished").clone()
    }

    fn over_the_wire(&self, ssd: &ssd::Profile) -> Profile {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let folder = folder.join(format!("wire-{}-{}", self.slower, std::process::id()));
        fs::create_dir_all(&folder).expect("cargo's folder for tests is writable");
        let (ssd_file, config) = (folder.join("ssd.toml"), folder.join("target.toml"));
        fs::write(&ssd_file, ssd.to_toml()).expect("room");
        let text = format!(
            "[[device]]\nname = \"ssd\"\nkind = \"emulated\"\nprofile = {ssd_file:?}\nsize = \"16G\"\n\
             backing = \"none\"\nspeed = {}\nscheduler = {{ policy = \"none\" }}\n\
             [[subsystem]]\nnqn = \"{NQN}\"\nallow_any_host = true\n\
             [[subsystem.namespace]]\nnsid = 1\ndevice = \"ssd\"\n",
            1.0 / self.slower as f64
        );
        fs::write(&config, text).expect("room");
        let target = Process::start(serve(&["--log", "error", "-c"]).arg(&config));
        let name = format!("nvme://{}/{NQN}", target.address());
        let time = format!("{}s", TIME.get() / Nanos::secs(1).get());
        let out = folder.join("out");
        let mut probe = gimbal();
        probe.args(["ssdtest", &name, "--time", &time]).args(self.options).arg("--out").arg(&out);
        let status = probe.status().expect("the binary was built");
        assert!(status.success(), "{status}");
        let profile = Profile::load(&out.join("profile.toml")).expect("what was written can be read");
        let _ = fs::remove_dir_all(folder);
        profile
    }

    /// A busy machine only makes an SSD look slower, so one probe that agrees is enough.
    fn agrees(&self) {
        let ssd = small_buffer();
        let virtual_time = self.in_virtual_time(&ssd);
        let agrees = (1..=ATTEMPTS).any(|attempt| {
            let wire = self.over_the_wire(&ssd);
            let took = [&virtual_time, &wire].map(|profile| profile.device.took_s);
            println!("attempt {attempt} at 1/{} of the speed: took {took:?} s", self.slower);
            self.compare(&virtual_time, &wire)
        });
        assert!(agrees, "none of {ATTEMPTS} probes over the wire found what the one in virtual time found");
    }

    /// Prints the numbers in virtual time and over the wire. Returns whether all agree.
    fn compare(&self, virtual_time: &Profile, wire: &Profile) -> bool {
        let mut agrees = true;
        for (wanted, found) in (self.numbers)(virtual_time).into_iter().zip((self.numbers)(wire)) {
            assert_eq!(wanted.what, found.what);
            let off = found.value / wanted.value - 1.0;
            let is_wrong = off.abs() > wanted.tolerance;
            let mark = if is_wrong { " WRONG" } else { "" };
            println!("{}: {} and {} ({:+.1} %){mark}", wanted.what, wanted.value, found.value, 100.0 * off);
            agrees &= !is_wrong;
        }
        agrees
    }
}

/// Numbers that follow from amounts of data, and the costs of large IOs.
fn buffer_and_large_ios(profile: &Profile) -> Vec<Number> {
    let buffer = profile.buffer.as_ref().expect("it has a write buffer");
    let recovery = profile.recovery.as_ref().expect("it recovers");
    let mut numbers = Vec::new();
    let mut add = |what: String, value, tolerance| numbers.push(Number { what, value, tolerance });
    add("write buffer, MiB".to_owned(), buffer.size_mib, 0.03);
    add("writes with room, MB/s".to_owned(), buffer.fast_mb_per_s, 0.05);
    add("exhausted, MB/s".to_owned(), buffer.exhausted_mb_per_s, 0.05);
    add("some time later, MB/s".to_owned(), buffer.steady_mb_per_s, 0.05);
    let millis = recovery.time_to_90_percent_ms.expect("found");
    add("idle until 90 % is back, ms".to_owned(), millis, 0.1);
    for cost in profile.cost.iter().filter(|cost| cost.size_kib >= 64) {
        add(format!("cost of a {} of {} KiB, ns", cost.kind, cost.size_kib), cost.ns, 0.15);
    }
    numbers
}

fn reads(profile: &Profile) -> Vec<Number> {
    let mut numbers = Vec::new();
    let mut add = |what: String, value, tolerance| numbers.push(Number { what, value, tolerance });
    for cost in &profile.cost {
        add(format!("cost of a {} of {} KiB, ns", cost.kind, cost.size_kib), cost.ns, 0.1);
    }
    for limit in profile.limit.iter().filter(|limit| limit.depth == 1) {
        add(format!("a lone {} of {} KiB, median, µs", limit.kind, limit.size_kib), limit.p50_us, 0.25);
    }
    numbers
}

/// All in one test, one after the other, because each needs the machine for itself.
#[test]
#[ignore = "minutes, and depends on the speed of the machine; run by `make test-long`"]
fn over_the_wire_and_in_virtual_time_an_ssd_is_found_to_be_the_same() {
    Comparison {
        slower: 8,
        config: |size| Config::quick(size, 4096),
        options: &["--quick"],
        numbers: buffer_and_large_ios,
    }
    .agrees();
    Comparison {
        slower: 50,
        config: |size| Config::thorough(size, 4096).read_only(),
        options: &["--read-only"],
        numbers: reads,
    }
    .agrees();
}
