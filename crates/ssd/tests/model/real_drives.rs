//! The profiles `pm1725a` and `sn200` do what the two real drives do, as far as `docs/ssd-model.md` says so.
//!
//! The goals, and what a load, a mix and a knee are: `curves`. What the model misses is listed here by name. A load that misses its
//! goal and is not listed fails the test, and so does a listed miss where every load meets its goal.

use crate::curves::{Drive, Effort, Knee, Model, Point};
use ssd::Profile;
use std::ops::RangeInclusive;
use units::Nanos;

const ALL_LOADS: Effort = Effort { commands: 40_000.0, span: Nanos::millis(60), warm_up: Nanos::millis(40) };
const FEW_LOADS: Effort = Effort { commands: 20_000.0, span: Nanos::millis(30), warm_up: Nanos::millis(30) };
/// The few loads, as shares of the knee.
const SHARES: [f64; 3] = [0.2, 0.5, 0.7];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Median,
    P99,
}

/// Loads where a figure of the model is not near enough to the drive's.
struct Miss {
    writes_permille: u32,
    figure: Figure,
    /// In thousands of IOPS.
    loads: RangeInclusive<u32>,
    why: &'static str,
}

struct RealDrive {
    profile: &'static str,
    curves: &'static str,
    misses: &'static [Miss],
    /// Mixes whose knee the model misses.
    knees_missed: &'static [u32],
}

const fn miss(writes_permille: u32, figure: Figure, loads: RangeInclusive<u32>, why: &'static str) -> Miss {
    Miss { writes_permille, figure, loads, why }
}

const EVEN_MIX: &str =
    "with as many writes as reads, the median lies anywhere between the slowest write and the fastest read";
const STICKS_OUT: &str = "the drive's figure sticks out from those of the loads below and above it";
const STALLS_EARLY: &str = "from 0.35 million IOPS of few writes, half of the drive's commands wait; the model's do only near its knee";
const BUFFER: &str = "from 0.2 million writes, one in a hundred waits for milliseconds; the model's buffer is full only near its knee";
const NEAR_KNEE: &str =
    "the last loads before the knee, where the model's is a little lower or higher than the drive's";
const OTHER_STATE: &str =
    "the drive was in another state: it sustains fewer writes in this mix than in any other";

const PM1725A: RealDrive = RealDrive {
    profile: "pm1725a",
    curves: include_str!("../../data/real-drives/samsung-pm1725a.csv"),
    misses: &[
        miss(100, Figure::Median, 390..=495, STALLS_EARLY),
        miss(100, Figure::P99, 256..=257, STICKS_OUT),
        miss(200, Figure::Median, 370..=460, STALLS_EARLY),
        miss(200, Figure::P99, 353..=354, STICKS_OUT),
        miss(500, Figure::Median, 0..=300, EVEN_MIX),
        miss(
            500,
            Figure::P99,
            19..=20,
            "at the step where one command in a hundred begins to meet a program",
        ),
        miss(700, Figure::Median, 330..=340, NEAR_KNEE),
        miss(750, Figure::P99, 370..=400, NEAR_KNEE),
        miss(1000, Figure::Median, 360..=380, NEAR_KNEE),
        miss(1000, Figure::P99, 200..=380, BUFFER),
    ],
    knees_missed: &[],
};

const SN200: RealDrive = RealDrive {
    profile: "sn200",
    curves: include_str!("../../data/real-drives/wd-sn200.csv"),
    misses: &[
        miss(100, Figure::Median, 1000..=1030, NEAR_KNEE),
        miss(100, Figure::P99, 1020..=1030, NEAR_KNEE),
        miss(200, Figure::P99, 21..=22, STICKS_OUT),
        miss(200, Figure::Median, 980..=1030, NEAR_KNEE),
        miss(200, Figure::P99, 1000..=1030, NEAR_KNEE),
        miss(250, Figure::Median, 970..=980, NEAR_KNEE),
        miss(300, Figure::Median, 950..=990, NEAR_KNEE),
        miss(500, Figure::Median, 0..=800, EVEN_MIX),
        miss(700, Figure::P99, 24..=25, STICKS_OUT),
        miss(750, Figure::Median, 24..=25, OTHER_STATE),
        miss(750, Figure::P99, 24..=50, OTHER_STATE),
        miss(1000, Figure::Median, 455..=465, NEAR_KNEE),
        miss(1000, Figure::P99, 455..=465, NEAR_KNEE),
    ],
    knees_missed: &[750],
};

/// What is wrong with the model at these loads.
fn unlisted(drive: &RealDrive, model: &Model, points: &[Point], met: &mut [bool]) -> Vec<String> {
    let mut wrong = Vec::new();
    for point in points {
        let made = model.at(point.writes_permille, point.offered_iops);
        for (figure, holds) in
            [(Figure::Median, made.meets_median_of(point)), (Figure::P99, made.meets_p99_of(point))]
        {
            let load = (point.offered_iops / 1e3) as u32;
            let is_it = |miss: &Miss| {
                (miss.writes_permille, miss.figure) == (point.writes_permille, figure)
                    && miss.loads.contains(&load)
            };
            let listed = drive.misses.iter().position(is_it);
            match listed {
                Some(number) => met[number] |= !holds,
                None if holds => {}
                None => {
                    wrong.push(format!("{}: {figure:?} of {made:?}, the drive's: {point:?}", drive.profile))
                }
            }
        }
    }
    wrong
}

/// The mixes whose knee is not near enough, other than those listed, and those listed that are.
fn knees_unlisted(drive: &RealDrive, model: &Model, curves: &Drive) -> Vec<String> {
    let is_unlisted =
        |mix: &u32| model.meets_knee(*mix, curves.knee(*mix)) == drive.knees_missed.contains(mix);
    let mixes = curves.mixes().into_iter().filter(is_unlisted);
    mixes.map(|mix| format!("{}: the knee at {mix} permille of writes", drive.profile)).collect()
}

fn parts(drive: &RealDrive, effort: Effort) -> (Model, Drive) {
    let profile = Profile::named(drive.profile).expect("built in");
    (Model::new(&profile, effort), Drive::parse(drive.curves).expect("numbers"))
}

/// A few loads of every mix, and all knees.
fn check_few(drive: &RealDrive) {
    let (model, curves) = parts(drive, FEW_LOADS);
    let points: Vec<Point> = curves.mixes().iter().flat_map(|mix| curves.near(*mix, &SHARES)).collect();
    let mut wrong = unlisted(drive, &model, &points, &mut vec![false; drive.misses.len()]);
    wrong.extend(knees_unlisted(drive, &model, &curves));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every load below the knees.
fn check_all(drive: &RealDrive) {
    let (model, curves) = parts(drive, ALL_LOADS);
    let mixes = curves.mixes();
    let points: Vec<Point> = mixes.iter().flat_map(|mix| curves.below_knee(*mix)).copied().collect();
    let mut met = vec![false; drive.misses.len()];
    let mut wrong = unlisted(drive, &model, &points, &mut met);
    wrong.extend(knees_unlisted(drive, &model, &curves));
    for (miss, _) in drive.misses.iter().zip(met).filter(|(_, met)| !met) {
        let Miss { writes_permille, figure, loads, why } = miss;
        wrong.push(format!(
            "{}: {writes_permille} permille, {figure:?}, {loads:?} K IOPS ({why}) is listed, but holds",
            drive.profile
        ));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_few_loads_of_the_pm1725a() {
    check_few(&PM1725A);
}

#[test]
fn a_few_loads_of_the_sn200() {
    check_few(&SN200);
}

#[test]
fn with_a_few_writes_one_in_a_thousand_waits_for_a_program_where_it_is_not_suspended() {
    for drive in [PM1725A, SN200] {
        let (model, curves) = parts(&drive, FEW_LOADS);
        let [point] = curves.near(100, &[0.2])[..] else { panic!("one share is one load") };
        let made = model.at(point.writes_permille, point.offered_iops);
        let ratio = made.p999_us / point.p999_us;
        assert!((0.65..=1.35).contains(&ratio), "{}: {made:?}, the drive's: {point:?}", drive.profile);
        assert_eq!(made.p999_us > 2_000.0, drive.profile == "pm1725a", "{}: {made:?}", drive.profile);
    }
}

#[test]
#[ignore = "measures 227 loads, half a minute; run by `make test-long`"]
fn all_loads_of_the_pm1725a() {
    check_all(&PM1725A);
}

#[test]
#[ignore = "measures 289 loads, half a minute; run by `make test-long`"]
fn all_loads_of_the_sn200() {
    check_all(&SN200);
}

#[test]
fn the_knee_is_the_last_load_before_the_first_that_is_not_sustained() {
    let text = "writes_permille,offered_iops,achieved_iops,p50_us,p99_us,p999_us\n\
                0,100,100,1,1,1\n0,200,199,1,1,1\n0,300,290,1,1,inf\n0,400,400,1,1,1\n\
                1000,50,50,1,1,1\n1000,60,60,1,1,1\n";
    let drive = Drive::parse(text).expect("numbers");
    assert!(matches!(drive.knee(0), Knee::At(200.0)));
    assert!(matches!(drive.knee(1000), Knee::Beyond(60.0)));
    assert_eq!(drive.below_knee(0).len(), 1);
    assert_eq!(drive.mixes(), [0, 1000]);
}
