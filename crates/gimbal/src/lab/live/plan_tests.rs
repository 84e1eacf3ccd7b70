use super::*;
use ::lab::Experiment;
use ::lab::plan::{Plan, Purpose};

const EXPERIMENT: &str = r#"
title = "t"
source = "s"
about = "a"
profiles = ["dct983"]
seeds = [7]
warm_up = "10ms"
duration = "100ms"
interval = "20ms"
schedulers = ["level"]
[[case]]
name = "mixed"
condition = "fragmented"
groups = [
    { name = "small", count = 2, rw = "randread", bs = "4k", iodepth = 32, rate_max = "60m", weight = 3, limit = "100m" },
    { name = "large", count = 2, rw = "write", bs = "128k", iodepth = 4, start = "20ms", start_step = "5ms", stop = "90ms" },
    { name = "open", rw = "randrw", rwmixread = 70, bs = "8k", rate_iops = 1000, size = "1m", obeys_credit = false },
]
"#;

fn slow() -> Slow {
    Slow::parse("20").expect("it divides 1000")
}

fn experiment(text: &str) -> Experiment {
    Experiment::parse(text, "x", "x.toml").unwrap_or_else(|error| panic!("{error}"))
}

fn live(text: &str) -> Live {
    let experiment = experiment(text);
    let plan = Plan::new(&experiment);
    let run = plan.runs.iter().find(|run| matches!(run.purpose, Purpose::Case { .. })).expect("a case");
    Live::new(&run.world, sched::Scheduler::LEVEL, slow())
}

#[test]
fn every_tenant_is_a_host_with_a_job_of_its_own() {
    let Live { jobs, .. } = live(EXPERIMENT);
    let words: Vec<_> =
        jobs.iter().map(|job| (job.name.as_str(), job.rw, job.bs.largest(), job.iodepth)).collect();
    assert_eq!(
        words,
        [
            ("small 1", Rw::RandRead, Bytes::kib(4), 32),
            ("small 2", Rw::RandRead, Bytes::kib(4), 32),
            ("large 1", Rw::Write, Bytes::kib(128), 4),
            ("large 2", Rw::Write, Bytes::kib(128), 4),
            ("open 1", Rw::RandRw, Bytes::kib(8), 1023),
        ]
    );
    for (number, job) in jobs.iter().enumerate() {
        assert_eq!((job.host_nqn.clone(), job.numjobs), (Some(host_of(number)), 1));
    }
    assert_eq!([jobs[0].credits, jobs[4].credits], [true, false]);
    assert_eq!((jobs[4].rwmixread, jobs[4].size), (70, Extent::Bytes(Bytes::mib(1))));
}

#[test]
fn times_are_stretched_and_rates_divided() {
    let Live { jobs, options, config, .. } = live(EXPERIMENT);
    assert_eq!((options.ramp, options.runtime), (Nanos::millis(200), Some(Nanos::secs(2))));
    assert_eq!((options.interval, options.seed), (Nanos::millis(400), 7));
    let hours: Vec<_> = jobs[2..4].iter().map(|job| (job.start, job.stop)).collect();
    let stop = Some(Nanos::millis(1800));
    assert_eq!(hours, [(Nanos::millis(400), stop), (Nanos::millis(500), stop)]);
    assert_eq!(jobs[0].pacing, Pacing::Strict(ByteRate(3 << 20)));
    assert_eq!(jobs[4].pacing, Rates::open(Rate::Bytes(1000 * 8192 / 20), Arrival::Poisson));
    let DeviceKind::Emulated(ssd) = &config.devices[0].kind else { panic!("an emulated SSD") };
    assert_eq!(ssd.speed.thousandths(), 50);
}

#[test]
fn the_ssd_is_the_one_that_is_modelled_and_limits_are_as_much_slower() {
    let Live { config, .. } = live(EXPERIMENT);
    config.check().unwrap_or_else(|error| panic!("{error}"));
    let DeviceKind::Emulated(ssd) = &config.devices[0].kind else { panic!("an emulated SSD") };
    assert_eq!((ssd.profile.as_str(), ssd.condition, ssd.seed), ("dct983", Condition::Fragmented, 7));
    assert_eq!((ssd.size, &ssd.backing), (Bytes::gib(16), &Backing::None));
    assert_eq!(config.devices[0].scheduler.policy, sched::Scheduler::LEVEL);
    let small = &config.tenants[1];
    assert_eq!((small.host.as_str(), small.share.weight), (host_of(1).as_str(), 3));
    assert_eq!(small.share.limit_rate, Some(ByteRate(5 << 20)), "a twentieth of 100 MiB/s");
}

#[test]
fn a_sequential_tenant_begins_anywhere_at_any_phase() {
    let begins = |seed: &str| {
        let Live { jobs, .. } = live(&EXPERIMENT.replace("[7]", seed));
        let begin = |job: &Job| {
            let Extent::Bytes(size) = job.size else { panic!("{:?} is not given", job.size) };
            assert!(job.offset < job.bs.largest() && job.offset + size == Bytes::gib(16));
            job.offset.get() + job.first_step * job.bs.largest().get()
        };
        (begin(&jobs[2]), begin(&jobs[3]))
    };
    let (one, other) = begins("[7]");
    assert!(one != other && one.max(other) < Bytes::gib(16).get() && one.max(other) > Bytes::mib(1).get());
    assert_eq!(begins("[7]"), (one, other), "a seed replays");
    assert_ne!(begins("[8]"), (one, other));
}

#[test]
fn what_has_no_counterpart_is_refused_with_its_place() {
    for (from, to, said) in [
        (
            "iodepth = 32",
            "iodepth = 2000",
            "case mixed, group small: iodepth: cannot be run live: a connection",
        ),
        ("bs = \"128k\"", "bs = \"2m\"", "case mixed, group large: bs: "),
        ("rw = \"write\"", "rw = \"rw\"", "case mixed, group large: rw: "),
        ("rate_iops = 1000", "rate_iops = 1000, rate_max = \"1m\"", "case mixed, group open: rate_max: "),
        ("rate_max = \"60m\"", "rate_max = \"1k\"", "case mixed, group small: rate_max: "),
        (
            "count = 2, rw = \"write\", bs = \"128k\", iodepth = 4",
            "count = 4096, rw = \"write\", bs = \"1m\", iodepth = 4",
            "case mixed, group large: iodepth: cannot be run live: its buffers",
        ),
    ] {
        let text = EXPERIMENT.replace(from, to);
        assert_ne!(text, EXPERIMENT);
        let refusal = check(&experiment(&text).cases[0], slow()).expect_err(to).to_string();
        assert!(refusal.contains(said), "{to} says: {refusal}");
    }
    assert_eq!(check(&experiment(EXPERIMENT).cases[0], slow()), Ok(()));
}

#[test]
fn what_the_switch_calls_by_the_same_name_is_offered() {
    let offered: Vec<&str> =
        Scheduler::all().filter(|one| offered(*one).is_some()).map(Scheduler::name).collect();
    for name in ["none", "reflex", "flashfq", "gimbal", "level", "level-calibrated", "level"] {
        assert!(offered.contains(&name), "{name}");
    }
    for name in ["gimbal-fixed", "parda"] {
        assert!(!offered.contains(&name), "{name} is for the simulator alone");
    }
}

#[test]
fn a_scheduler_that_goes_by_a_calibration_gets_the_simulators() {
    let cost = sched::LinearCost { base: Nanos(1), per_kib: Nanos(2) };
    let config = sched::FlashfqConfig {
        reads: cost,
        writes: cost,
        depth: 64,
        throttle: Nanos::millis(1),
        anticipation: Nanos::micros(200),
    };
    let given = calibration(&PolicyChoice::from(config)).expect("it needs one");
    assert_eq!((given.flashfq, given.reflex), (Some(config), None));
    let costs = sched::DeviceCosts::DCT983;
    let level = sched::CalibratedConfig::new(sched::DeviceConstants::DCT983, costs);
    let given = calibration(&PolicyChoice::from(level)).expect("it needs one");
    assert_eq!(given.level_calibrated, Some(costs));
    let gimbal = sched::GimbalConfig::published(sched::DeviceConstants::DCT983);
    for without in [PolicyChoice::none(), PolicyChoice::from(gimbal)] {
        assert_eq!(calibration(&without), None);
    }
}

#[test]
fn every_experiment_that_is_compared_live_can_be() {
    for name in ["g7a", "g7c", "g9"] {
        let experiment = Experiment::named(name).unwrap_or_else(|error| panic!("{error}"));
        experiment.cases.iter().for_each(|case| {
            check(case, slow()).unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
        });
    }
}
