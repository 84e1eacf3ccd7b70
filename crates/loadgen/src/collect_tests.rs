use super::*;

fn settings(text: &str) -> Settings {
    Settings::parse_inline(text).expect("all are options")
}

fn inline(text: &str) -> Result<Job, JobError> {
    let mut jobs = collect(&Settings::default(), &[], &[text.to_owned()])?.jobs;
    assert_eq!(jobs.len(), 1);
    Ok(jobs.remove(0))
}

#[test]
fn the_default_is_ten_seconds_of_4k_random_reads_one_at_a_time() {
    let jobs = collect(&Settings::default(), &[], &[]).expect("the defaults are a job").jobs;
    assert_eq!(jobs, [Job { time_based: true, stop: Some(Nanos::secs(10)), ..Job::named("job0") }]);
    assert_eq!((jobs[0].rw, jobs[0].bs.clone(), jobs[0].iodepth), (Rw::RandRead, Bytes(4096).into(), 1));
}

#[test]
fn a_job_on_the_command_line_overrides_the_flags() {
    let jobs =
        collect(&settings("bs=8k,rate_iops=5"), &[], &["name=a".into(), "name=b,bs=128k,rate=1m".into()])
            .expect("two jobs")
            .jobs;
    let rate = |job: &Job| match job.pacing {
        Pacing::Timed(rates) => rates.per[0],
        other => panic!("{other:?} has no rate"),
    };
    assert_eq!((jobs[0].bs.clone(), rate(&jobs[0])), (Bytes(8192).into(), Some(Rate::Iops(5))));
    assert_eq!((jobs[1].bs.clone(), rate(&jobs[1])), (Bytes::kib(128).into(), Some(Rate::Bytes(1 << 20))));
}

#[test]
fn a_flag_changes_every_job_of_a_file() {
    let path = std::env::temp_dir().join(format!("gimbal-jobs-{}.fio", std::process::id()));
    std::fs::write(&path, "[global]\nbs=4k\ndirect=1\n[a]\nrw=randwrite\nbs=16k\n[b]\niodepth=7\n")
        .expect("room");
    let with = |flags| collect(&settings(flags), std::slice::from_ref(&path), &[]).expect("two jobs");
    let plain = with("");
    assert_eq!(plain.without_effect, ["direct"]);
    let bs: Vec<_> = plain.jobs.iter().map(|job| job.bs.smallest()).collect();
    assert_eq!(bs, [Bytes::kib(16), Bytes::kib(4)]);
    let flagged = with("bs=64k,iodepth=3").jobs;
    assert!(flagged.iter().all(|job| job.bs.smallest() == Bytes::kib(64) && job.iodepth == 3));
    std::fs::remove_file(path).expect("it was written");
}

#[test]
fn runtime_and_size_mean_what_fio_means() {
    let hours = |text: &str| inline(text).map(|job| (job.stop, job.time_based)).expect("a job");
    assert_eq!(hours("runtime=5"), (Some(Nanos::secs(5)), false), "until size is done, 5 s at most");
    assert_eq!(hours("runtime=5,time_based"), (Some(Nanos::secs(5)), true));
    assert_eq!(hours("runtime=0"), (None, false), "no limit of time: size once");
    assert_eq!(hours("size=1m"), (None, false));
    assert_eq!(hours("rw=randwrite,verify"), (None, false));
    assert_eq!(hours("runtime=5,ramp_time=2,startdelay=1"), (Some(Nanos::secs(8)), false));
    let error = inline("runtime=0,time_based").expect_err("for ever").to_string();
    assert!(error.contains("time_based needs a runtime"), "{error}");
}

#[test]
fn groups_end_at_a_stonewall() {
    let texts = ["name=a", "name=b", "name=c,new_group", "name=d,stonewall", "name=e"].map(str::to_owned);
    let jobs = collect(&settings("group_reporting"), &[], &texts).expect("five jobs").jobs;
    let places: Vec<_> = jobs.iter().map(|job| (job.group, job.stage)).collect();
    assert_eq!(places, [(0, 0), (0, 0), (1, 0), (2, 1), (2, 1)]);
}

#[test]
fn a_latency_without_a_unit_is_in_microseconds() {
    let asked =
        inline("latency_target=500,latency_window=2s").expect("a job").latency_target.expect("a target");
    assert_eq!((asked.target, asked.window, asked.percentile), (Nanos::micros(500), Nanos::secs(2), 100.0));
}

#[test]
fn a_mistake_is_named() {
    let message = |text: &str| inline(text).expect_err("the job is wrong").to_string();
    for (text, says) in [
        ("name=a,iodepth=0", "job a: iodepth must be 1 to 1024"),
        ("bs=5000", "bs must be a multiple of 512"),
        ("bs=0", "bs must be more than 0"),
        ("rw=randread,verify", "needs a job that writes"),
        ("rw=randtrimwrite,verify,loops=2", "deallocates a block more than once"),
        ("rw=sideways", "rw=sideways: write one of read, write"),
        ("rw=randread:x", "is not a number of IOs"),
        ("rate=1m,rate_iops=4", "give rate or rate_iops, not both"),
        ("rate=0", "rate must be more than 0"),
        ("open_loop", "open_loop needs rate or rate_iops"),
        ("rate=1m,rate_process=sometimes", "write linear or poisson"),
        ("bs=4k,bssplit=4k/50:8k/50", "give bs or bssplit, not both"),
        ("bssplit=4k/50:8k/10", "add up to 60"),
        ("random_distribution=normal:5", "write random, zipf:THETA, pareto:H or zoned:"),
        ("latency_window=5", "latency_window needs latency_target"),
        ("latency_target=5,latency_run=1", "latency_run needs a runtime"),
        ("size=120%", "1% to 100%"),
        ("size=2k", "size is smaller than one IO"),
        ("continue_on_error=none", "a failed IO never ends a job"),
        ("class=4", "class must be 0 to 3"),
    ] {
        let message = message(text);
        assert!(message.contains(says), "{text}: {message}");
    }
    let twins = collect(&Settings::default(), &[], &["name=a".into(), "name=a".into()]);
    assert!(twins.expect_err("two jobs of one name").to_string().contains("two jobs have the name a"));
}

#[test]
fn a_number_may_be_a_name() {
    assert_eq!(inline("name=7,bs=4k").expect("a job").name, "7");
}

#[test]
fn what_stands_in_everyday_job_files_is_read() {
    // An enterprise endurance load: sizes, a mix given from both sides, zones, alignment.
    let enterprise = inline(
        "name=a,rw=randrw,norandommap,rwmixread=40,rwmixwrite=60,iodepth=256,numjobs=4,blockalign=4k,\
         bssplit=512/4:1024/1:1536/1:2048/1:2560/1:3072/1:3584/1:4k/67:8k/10:16k/7:32k/3:64k/3,\
         random_distribution=zoned:50/5:30/15:20/80,group_reporting,ioengine=libaio,randrepeat=0",
    )
    .expect("every option is known");
    assert_eq!((enterprise.rwmixread, enterprise.unit()), (40, Bytes(512)));
    let backwards = inline("name=a,rw=read:-8k,bs=4k").expect("a gap");
    assert_eq!((backwards.rw, backwards.gap, backwards.run), (Rw::Read, -8192, 1));
    let runs = inline("name=a,rw=randread:8,bsrange=4k-16k,offset=25%,filesize=50%").expect("runs");
    assert_eq!((runs.run, runs.gap, runs.offset_percent), (8, 0, Some(25)));
    assert_eq!((runs.size, runs.bs.largest()), (Extent::Percent(50), Bytes::kib(16)));
    let least = inline("name=a,rw=rw,ratemin=1m,2m,runtime=1").expect("a least rate");
    assert_eq!(least.rate_min, [Some(1 << 20), Some(2 << 20), Some(2 << 20)]);
    for (wrong, why) in [
        ("rwmixread=40,rwmixwrite=50", "not both"),
        ("rw=read:x", "x"),
        ("rw=read:100", "multiple of 512"),
        ("bsrange=8k-4k", "smallest"),
        ("blockalign=1000", "multiple of 512"),
        ("random_distribution=zoned:50/5:20/95", "add up"),
    ] {
        let said = inline(&format!("name=a,{wrong}")).expect_err(wrong).to_string();
        assert!(said.contains(why), "{wrong}: {said}");
    }
}
