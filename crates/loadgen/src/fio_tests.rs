//! Compares our streams with the real fio: which blocks, how large, how often.
//!
//! fio runs with its `null` engine and logs every IO (`write_iolog`), so nothing here depends on time. Its random numbers differ from
//! ours, so the tests compare counts over many IOs.

use crate::collect::complete;
use crate::direction::Direction;
use crate::settings::Settings;
use crate::workload::{Region, Workload};
use std::collections::HashMap;
use std::fs;
use std::process::Command;
use units::Bytes;

/// An IO: direction, place, length.
type Io = (Direction, u64, u64);

/// The IOs of fio for the options of a `--job`, on a region of `size` bytes.
fn fio(options: &str, size: u64) -> Vec<Io> {
    let name = format!("gimbal-fio-{}-{:?}", std::process::id(), std::thread::current().id());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).expect("a scratch folder");
    let mut command = Command::new("fio");
    command.current_dir(&folder).args([
        "--name=oracle",
        "--ioengine=null",
        "--filename=disk",
        "--write_iolog=log",
    ]);
    command.arg(format!("--size={size}")).args(options.split(' ').map(|option| format!("--{option}")));
    let output = command.output().expect("fio is installed (tests/install-deps.sh does it)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let log = fs::read_to_string(folder.join("log")).expect("fio has written its log");
    fs::remove_dir_all(&folder).expect("the scratch folder goes");
    let io = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [.., action, offset, length] = words[..] else { return None };
        let direction = Direction::ALL.into_iter().find(|direction| direction.name() == action)?;
        Some((direction, offset.parse().expect("a number"), length.parse().expect("a number")))
    };
    log.lines().filter_map(io).collect()
}

/// The IOs of our stream for the same options, until it has moved as many bytes.
fn ours(options: &str, size: u64) -> Vec<Io> {
    let settings =
        Settings::parse_inline(&options.replace(' ', ",")).expect("they are fio's options and ours");
    let job = complete(&settings, 0).expect("a job");
    let unit = job.unit();
    let region = Region { offset: Bytes::ZERO, unit, units: size / unit.get(), increment: 0 };
    let mut workload = Workload::new(&job, region, 0, 1);
    let mut left = job.amount.io_size.map_or(size, Bytes::get);
    let mut all = Vec::new();
    while left > 0 {
        let direction = workload.next_direction();
        let step = workload.next_step(direction, Bytes(left));
        let length = step.units * unit.get();
        left -= length;
        all.push((step.direction, step.first * unit.get(), length));
    }
    all
}

/// Checks that two shares differ by at most `apart`.
fn assert_alike(what: &str, fio: f64, ours: f64, apart: f64) {
    assert!((fio - ours).abs() <= apart, "{what}: {fio:.3} with fio, {ours:.3} with ours");
}

/// Number of different blocks of 4 KiB that were done, and of repeated ones.
fn coverage(ios: &[Io]) -> (usize, usize) {
    let blocks = ios.iter().flat_map(|(_, offset, length)| (offset / 4096)..(offset + length) / 4096);
    let mut counts: HashMap<u64, usize> = HashMap::new();
    blocks.for_each(|block| *counts.entry(block).or_default() += 1);
    (counts.len(), counts.values().map(|count| count - 1).sum())
}

#[test]
fn a_random_pass_covers_what_fios_covers() {
    let size = 16 << 20;
    for options in [
        "rw=randwrite bs=16k",
        "rw=randread bssplit=4k/30:16k/30:12k/40",
        "rw=randrw bs=4k",
        "rw=write bs=8k",
    ] {
        assert_eq!(coverage(&fio(options, size)), (4096, 0), "fio, {options}");
        assert_eq!(coverage(&ours(options, size)), (4096, 0), "ours, {options}");
    }
    let options = "rw=randread bs=4k norandommap=1";
    let share = |ios: Vec<Io>| coverage(&ios).0 as f64 / 4096.0;
    assert_alike("blocks done without a map", share(fio(options, size)), share(ours(options, size)), 0.03);
}

#[test]
fn popular_blocks_are_as_popular_as_fios() {
    // 51,200 IOs on 1,024 blocks.
    let size = 4 << 20;
    for distribution in ["zipf:0.8", "zipf:1.2", "pareto:0.2", "random"] {
        let options =
            format!("rw=randread bs=4k norandommap=1 io_size=200m random_distribution={distribution}");
        let shares = |ios: Vec<Io>| {
            let mut counts: HashMap<u64, u64> = HashMap::new();
            ios.iter().for_each(|(_, offset, _)| *counts.entry(*offset).or_default() += 1);
            let mut counts: Vec<u64> = counts.into_values().collect();
            counts.sort_unstable_by(|a, b| b.cmp(a));
            [1, 10, 100, 500].map(|most| counts.iter().take(most).sum::<u64>() as f64 / ios.len() as f64)
        };
        let (theirs, own) = (shares(fio(&options, size)), shares(ours(&options, size)));
        for ((theirs, own), most) in theirs.into_iter().zip(own).zip([1, 10, 100, 500]) {
            assert_alike(&format!("{distribution}, the {most} most popular blocks"), theirs, own, 0.04);
        }
    }
}

#[test]
fn sizes_directions_and_jumps_come_as_often_as_fios() {
    let size = 64 << 20;
    let share = |ios: &[Io], counts: &dyn Fn(&Io) -> bool| {
        ios.iter().filter(|io| counts(io)).count() as f64 / ios.len() as f64
    };
    let options = "rw=randrw rwmixread=70 bssplit=4k/30:16k/30:12k/40,8k norandommap=1 io_size=200m";
    let (theirs, own) = (fio(options, size), ours(options, size));
    for length in [4 << 10, 16 << 10, 12 << 10, 8 << 10] {
        let has = |io: &Io| io.2 == length;
        assert_alike(&format!("IOs of {length} bytes"), share(&theirs, &has), share(&own, &has), 0.02);
    }
    let reads = |io: &Io| io.0 == Direction::Read;
    assert_alike("reads", share(&theirs, &reads), share(&own, &reads), 0.02);
    for percent in [0, 30, 80] {
        let options = format!("rw=randread bs=4k norandommap=1 io_size=100m percentage_random={percent}");
        let jumps = |ios: Vec<Io>| {
            let jumps = ios.windows(2).filter(|pair| pair[0].1 + pair[0].2 != pair[1].1).count();
            jumps as f64 / ios.len() as f64
        };
        assert_alike(
            &format!("{percent} % random"),
            jumps(fio(&options, size)),
            jumps(ours(&options, size)),
            0.02,
        );
    }
}
