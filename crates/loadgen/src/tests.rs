//! Whole runs against a target in this process, over real sockets.

use crate::latency_target::{Found, LatencyTarget};
use crate::run::{Options, Target, run};
use crate::{
    Amount, Arrival, BenchError, BlockSizes, Direction, Extent, Interval, Job, Observer, Phase, Rate, Rates,
    Rw,
};
use host::{Backend, Backoff, KeyFiles, Keys, TransportType};
use server::config::{Config, DEFAULT_NQN, DeviceKind, HostConfig, Tls};
use server::{Server, ServerHandle};
use std::ops::ControlFlow;
use units::{Bytes, Nanos};

/// Ignores everything.
struct Unobserved;

impl Observer for Unobserved {}

const BACKENDS: [Backend; 2] = [Backend::IoUring, Backend::Epoll];

/// A target on a port that the system chose, with a null device.
fn null_target() -> ServerHandle {
    start(DeviceKind::Null { size: Bytes::gib(1) })
}

fn start(kind: DeviceKind) -> ServerHandle {
    Server::start(Config::simple(kind, ([127, 0, 0, 1], 0).into())).expect("loopback has ports")
}

fn target_of(server: &ServerHandle) -> Target {
    Target { address: server.addresses()[0], transport: TransportType::Tcp, nqn: None }
}

/// As many IOs as the region has steps, so that nothing depends on time.
fn once(backend: Backend) -> Options {
    Options { runtime: None, backend, ..Options::default() }
}

#[test]
fn each_connection_to_a_discovered_target_does_the_region_once() {
    let server = null_target();
    for backend in BACKENDS {
        let job = Job {
            rw: Rw::Read,
            iodepth: 8,
            numjobs: 4,
            size: Extent::Bytes(Bytes::mib(1)),
            ..Job::named("a")
        };
        let results =
            run(&[job], &target_of(&server), &once(backend), &mut Unobserved).expect("the target is there");
        let [result] = &results.jobs[..] else { panic!("one job has one result") };
        let reads = result.tally(Direction::Read);
        assert_eq!((reads.ios, reads.bytes, reads.latency.len()), (1024, Bytes::mib(4), 1024));
        assert!(results.is_clean() && result.measured > Nanos::ZERO);
    }
}

#[test]
fn jobs_on_several_threads_each_have_their_result() {
    let server = null_target();
    let job = |name: &str, rw| Job { rw, size: Extent::Bytes(Bytes::mib(1)), iodepth: 4, ..Job::named(name) };
    let jobs = [job("a", Rw::RandRead), job("b", Rw::RandWrite), job("c", Rw::RandRw)];
    let options = Options { threads: 2, ..once(Backend::Auto) };
    let results = run(&jobs, &target_of(&server), &options, &mut Unobserved).expect("the target is there");
    let names: Vec<&str> = results.jobs.iter().map(|result| result.job.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let ios = |job: usize, direction| results.jobs[job].tally(direction).ios;
    assert_eq!((ios(0, Direction::Read), ios(0, Direction::Write)), (256, 0));
    assert_eq!((ios(1, Direction::Read), ios(1, Direction::Write)), (0, 256));
    assert_eq!(ios(2, Direction::Read) + ios(2, Direction::Write), 256);
}

#[test]
fn verify_finds_that_a_null_device_keeps_nothing() {
    let server = null_target();
    let job = Job {
        rw: Rw::Write,
        verify: true,
        size: Extent::Bytes(Bytes::mib(1)),
        iodepth: 8,
        ..Job::named("a")
    };
    let results =
        run(&[job], &target_of(&server), &once(Backend::Auto), &mut Unobserved).expect("the target is there");
    let verified = results.jobs[0].verified.as_ref().expect("it was asked for");
    assert_eq!((verified.steps, verified.differing), (256, 256));
    assert!(!results.is_clean());
}

#[test]
fn verify_reads_back_what_a_file_keeps() {
    let file = tempfile();
    let server = start(DeviceKind::File {
        path: file.clone(),
        size: Some(Bytes::mib(8)),
        create: true,
        direct: false,
    });
    for rw in [Rw::Write, Rw::RandWrite, Rw::RandRw] {
        for bs in [Bytes::kib(4), Bytes::kib(64)] {
            let bs = bs.into();
            let job = Job { rw, bs, verify: true, iodepth: 8, numjobs: 2, ..Job::named("a") };
            let options = Options { header_digest: true, data_digest: true, ..once(Backend::Auto) };
            let results =
                run(&[job], &target_of(&server), &options, &mut Unobserved).expect("the target is there");
            let verified = results.jobs[0].verified.as_ref().expect("it was asked for");
            assert!(verified.is_clean() && verified.steps > 0, "{rw:?}: {verified:?}");
        }
    }
    drop(server);
    std::fs::remove_file(file).expect("the file was made");
}

/// A name that no other test uses.
fn tempfile() -> std::path::PathBuf {
    std::env::temp_dir().join(format!(
        "gimbal-bench-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ))
}

#[test]
fn an_observer_sees_phases_and_ends_a_run_that_would_go_on() {
    #[derive(Default)]
    struct Watcher {
        phases: Vec<Phase>,
        intervals: usize,
    }
    impl Observer for Watcher {
        fn on_phase(&mut self, phase: Phase) {
            self.phases.push(phase);
        }

        fn on_interval(&mut self, job: usize, interval: &Interval) -> ControlFlow<()> {
            assert!(job == 0 && interval.span > Nanos::ZERO);
            self.intervals += 1;
            if self.intervals == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    let server = null_target();
    let options =
        Options { runtime: Some(Nanos::secs(1_000_000)), interval: Nanos::millis(1), ..Options::default() };
    let mut watcher = Watcher::default();
    let job = Job { iodepth: 4, ..Job::named("a") };
    let results = run(&[job], &target_of(&server), &options, &mut watcher).expect("the target is there");
    assert_eq!(watcher.phases.len(), 2, "{:?}", watcher.phases);
    assert!(watcher.intervals >= 3 && results.jobs[0].series.len() == watcher.intervals);
    let total: u64 = results.jobs[0].series.iter().map(|interval| interval.slices[0].ios).sum();
    assert_eq!(total, results.jobs[0].tally(Direction::Read).ios);
}

#[test]
fn a_run_keeps_an_open_loop_to_its_timetable() {
    let server = null_target();
    let pacing = Rates::open(Rate::Iops(2000), Arrival::Linear);
    let job = Job { pacing, iodepth: 64, size: Extent::Bytes(Bytes::kib(800)), ..Job::named("a") };
    let results =
        run(&[job], &target_of(&server), &once(Backend::Auto), &mut Unobserved).expect("the target is there");
    // The last of 200 IOs is meant to leave 99.5 ms after the first, and none leaves early.
    assert_eq!(results.jobs[0].tally(Direction::Read).ios, 200);
    assert!(results.jobs[0].measured >= Nanos::micros(99_500), "{}", results.jobs[0].measured);
}

#[test]
fn a_random_job_writes_every_block_once_and_verifies_every_block() {
    let file = tempfile();
    let kind =
        DeviceKind::File { path: file.clone(), size: Some(Bytes::mib(8)), create: true, direct: false };
    let server = start(kind);
    let mixed = BlockSizes::parse_split("4k/50:16k/50", Bytes::kib(4)).expect("a split");
    for (rw, bs, blocks) in [
        (Rw::RandWrite, Bytes::kib(16).into(), 512),
        (Rw::RandWrite, mixed.clone(), 2048),
        (Rw::RandTrimWrite, Bytes::kib(16).into(), 512),
        (Rw::TrimWrite, mixed, 2048),
    ] {
        let job = Job { rw, bs, verify: true, iodepth: 8, ..Job::named("a") };
        let results = run(&[job], &target_of(&server), &once(Backend::Auto), &mut Unobserved)
            .expect("the target is there");
        let result = &results.jobs[0];
        let verified = result.verified.as_ref().expect("it was asked for");
        assert!(results.is_clean(), "{rw:?}: {verified:?} {:?}", result.trouble);
        assert_eq!(verified.steps, blocks, "{rw:?}: every block was written");
        assert_eq!(result.tally(Direction::Write).bytes, Bytes::mib(8), "{rw:?}: and none twice");
        let trimmed = if rw.trims() { Bytes::mib(8) } else { Bytes::ZERO };
        assert_eq!(result.tally(Direction::Trim).bytes, trimmed, "{rw:?}");
    }
    drop(server);
    std::fs::remove_file(file).expect("the file was made");
}

#[test]
fn an_amount_ends_a_job() {
    let server = null_target();
    let reads = |amount| {
        let job = Job { amount, size: Extent::Bytes(Bytes::mib(1)), ..Job::named("a") };
        let results = run(&[job], &target_of(&server), &once(Backend::Auto), &mut Unobserved);
        results.expect("the target is there").jobs[0].tally(Direction::Read).ios
    };
    let amount = |io_size, number_ios, loops| reads(Amount { io_size, number_ios, loops });
    assert_eq!(amount(None, None, 3), 768);
    assert_eq!(amount(Some(Bytes::kib(64)), None, 1), 16);
    assert_eq!(amount(None, Some(7), 1), 7);
}

#[test]
fn jobs_behind_a_stonewall_begin_when_those_before_it_have_ended() {
    struct Stages(Vec<Phase>);
    impl Observer for Stages {
        fn on_phase(&mut self, phase: Phase) {
            self.0.push(phase);
        }
    }
    let server = null_target();
    let job = |name, stage| Job { stage, size: Extent::Bytes(Bytes::mib(1)), ..Job::named(name) };
    let mut stages = Stages(Vec::new());
    let jobs = [job("a", 0), job("b", 0), job("c", 1)];
    let results =
        run(&jobs, &target_of(&server), &once(Backend::Auto), &mut stages).expect("the target is there");
    assert_eq!(stages.0, [Phase::Connecting, Phase::Running { span: None }, Phase::Running { span: None }]);
    let found: Vec<_> = results.jobs.iter().map(|job| (job.job.name.as_str(), job.tenants)).collect();
    assert_eq!(found, [("a", 2), ("b", 2), ("c", 1)], "shares are those of the jobs that run together");
}

#[test]
fn a_target_that_is_lost_leaves_results() {
    /// Ends the target when something was measured.
    struct Ends(Option<ServerHandle>);
    impl Observer for Ends {
        fn on_interval(&mut self, _job: usize, interval: &Interval) -> ControlFlow<()> {
            if interval.iops() > 0.0 {
                drop(self.0.take());
            }
            ControlFlow::Continue(())
        }
    }
    let server = null_target();
    let target = target_of(&server);
    let options = Options {
        runtime: Some(Nanos::secs(1_000_000)),
        interval: Nanos::millis(1),
        backoff: Backoff { first: Nanos::millis(1), longest: Nanos::millis(1), tries_max: Some(2) },
        threads: 2,
        ..Options::default()
    };
    let jobs = [Job::named("a"), Job::named("b")];
    let results = run(&jobs, &target, &options, &mut Ends(Some(server))).expect("something was measured");
    assert!(matches!(results.fatal, Some(BenchError::Connect(_))), "{:?}", results.fatal);
    let done: u64 = results.jobs.iter().map(|job| job.tally(Direction::Read).ios).sum();
    assert!(done > 0 && results.jobs.len() == 2 && !results.is_clean());
}

#[test]
fn a_search_for_a_latency_ends_by_itself() {
    let server = null_target();
    let asked =
        |target| LatencyTarget { target, window: Nanos::millis(5), percentile: 50.0, keeps_running: false };
    let found = |target| {
        let job =
            Job { latency_target: Some(asked(target)), time_based: true, iodepth: 4, ..Job::named("a") };
        let results = run(&[job], &target_of(&server), &once(Backend::Auto), &mut Unobserved);
        let results = results.expect("the target is there");
        (results.jobs[0].found, results.is_clean())
    };
    assert_eq!(found(Nanos::secs(1000)), (Some(Found::Depth(4)), true));
    assert_eq!(found(Nanos(1)), (Some(Found::Nothing), false), "no target answers in a nanosecond");
}

#[test]
fn a_subsystem_that_needs_tls_is_named_with_what_to_do() {
    let host = "nqn.2025-01.io.example:host";
    let key = std::env::temp_dir().join(format!("gimbal-loadgen-{}.tls", std::process::id()));
    std::fs::write(&key, "NVMeTLSkey-1:01:BY/5vmy6krRk7078UG9eYtkcQks27dyGwup8ucusZOor8k6N:")
        .expect("a file");
    let null = DeviceKind::Null { size: Bytes::gib(1) };
    let mut config = Config::simple(null, ([127, 0, 0, 1], 0).into());
    config.security.tls = Tls::Required;
    config.hosts = vec![HostConfig {
        nqn: host.to_owned(),
        dhchap_key: None,
        dhchap_key_next: None,
        dhchap_ctrl_key: None,
        tls_key: vec![key.clone()],
    }];
    let server = Server::start(config).expect("loopback has ports");
    let job = Job {
        host_nqn: Some(host.to_owned()),
        rw: Rw::Read,
        size: Extent::Bytes(Bytes::mib(1)),
        ..Job::named("a")
    };
    let run = |keys| {
        let options = Options { keys, ..once(Backend::Auto) };
        run(std::slice::from_ref(&job), &target_of(&server), &options, &mut Unobserved)
    };
    let refused = run(Keys::default()).expect_err("it has no key").to_string();
    assert!(refused.contains(DEFAULT_NQN) && refused.contains("--tls-key-file"), "{refused}");
    let files = KeyFiles { tls: Some(key.clone()), ..KeyFiles::default() };
    assert!(run(files.read().expect("a key")).expect("it has the key").is_clean());
    std::fs::remove_file(key).expect("it is there");
}

#[test]
fn a_job_that_cannot_run_is_an_error_before_anything_runs() {
    let server = null_target();
    let message = |job: Job, target: &Target| {
        run(&[job], target, &once(Backend::Auto), &mut Unobserved).expect_err("it cannot run").to_string()
    };
    let target = target_of(&server);
    let nsid = message(Job { nsid: Some(9), ..Job::named("a") }, &target);
    assert!(nsid.contains("no namespace 9"), "{nsid}");
    let region = message(Job { offset: Bytes::gib(1), ..Job::named("a") }, &target);
    assert!(region.contains("do not fit into the namespace"), "{region}");
    let nqn = Some("nqn.test:nowhere".to_string());
    let nowhere = message(Job { nqn, ..Job::named("a") }, &target);
    assert!(nowhere.contains("no subsystem with this NQN"), "{nowhere}");
    // A port that was free a moment ago.
    let address =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
    let silent = run(
        &[Job::named("a")],
        &Target { address, transport: TransportType::Tcp, nqn: None },
        &once(Backend::Auto),
        &mut Unobserved,
    );
    assert!(matches!(silent, Err(BenchError::Discover(_))), "{silent:?}");
}
