//! The closed loop: an SSD is probed, another one is built from the profile, and its probe finds the same.

use probe::{Config, ImitateError, Imitation, Prober, Profile, Simulated, drive, imitate};
use ssd::{Condition, Ssd};

/// The promise for every number that a parameter is fitted to.
const PROMISE: f64 = 0.1;
/// Built-in drives that are imitated in every test run.
const BUILT_IN_QUICK: [&str; 3] = ["dct983", "p3600", "consumer-slc"];

fn probe(ssd: &ssd::Profile, change: fn(Config) -> Config) -> Profile {
    // The imitation has another seed.
    let mut device = Simulated::new(Ssd::new(ssd, Condition::Clean, 7));
    let config = change(Config::quick(device.size(), 4096));
    let mut prober = Prober::new(config).expect("valid");
    let Ok(()) = drive(&mut prober, &mut device, |_, _| Ok(()));
    prober.profile().expect("finished").clone()
}

fn imitation(original: &ssd::Profile) -> Imitation {
    let made = imitate(&probe(original, |config| config), |_| {}).expect("it can be imitated");
    for row in &made.rows {
        let (device, imitation) = (row.device, row.imitation.unwrap_or(f64::NAN));
        let difference = 100.0 * row.difference().unwrap_or(f64::NAN);
        let fitted = if row.fitted { "" } else { " (not fitted)" };
        println!(
            "{}: {}: {device:.1}, {imitation:.1} {} ({difference:+.1} %){fitted}",
            original.name, row.what, row.unit
        );
    }
    made
}

#[test]
fn built_in_drives_are_imitated() {
    for name in BUILT_IN_QUICK {
        let made = imitation(&ssd::Profile::named(name).expect("built in"));
        assert!(made.misfit() < PROMISE, "{name}: {}", made.misfit());
        let has_buffer = made.rows.iter().any(|row| row.what == "write buffer");
        assert_eq!(has_buffer, name == "consumer-slc");
        let again = ssd::Profile::parse(&made.ssd.to_toml(), name).expect("its own text");
        assert_eq!(again, made.ssd, "nothing is lost in the file");
    }
}

#[test]
#[ignore = "long; all other built-in drives"]
fn every_other_built_in_drive_is_imitated() {
    for name in ssd::Profile::names().filter(|name| !BUILT_IN_QUICK.contains(name)) {
        let made = imitation(&ssd::Profile::named(name).expect("built in"));
        assert!(made.misfit() < PROMISE, "{name}: {}", made.misfit());
    }
}

#[test]
fn drives_that_nobody_tuned_this_for_are_imitated() {
    for seed in 900..903 {
        let made = imitation(&ssd::Profile::random(seed));
        assert!(made.misfit() < PROMISE, "seed {seed}: {}", made.misfit());
    }
}

#[test]
#[ignore = "long; 24 drives"]
fn most_drives_drawn_at_random_are_imitated() {
    let misfits: Vec<(u64, f64)> =
        (900..924).map(|seed| (seed, imitation(&ssd::Profile::random(seed)).misfit())).collect();
    let missed: Vec<_> = misfits.iter().filter(|(_, misfit)| *misfit >= PROMISE).collect();
    println!("missed: {missed:?}");
    assert!(missed.len() <= 4, "{missed:?}");
}

#[test]
fn a_profile_without_writes_is_refused_with_what_it_lacks() {
    let profile = probe(&ssd::Profile::named("dct983").expect("built in"), Config::read_only);
    let error = imitate(&profile, |_| {}).expect_err("refused");
    assert!(matches!(error, ImitateError::Lacking("random write 4 KiB, alone")), "{error}");
    assert!(error.to_string().contains("without --read-only"));
}
