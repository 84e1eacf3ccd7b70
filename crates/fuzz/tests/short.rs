//! The short run: inputs that failed once, the corpus, and inputs from fixed seeds. Bounded by counts, not by
//! time.
//!
//! When one fails, the test prints a command that replays it. Keep the input in `regressions/TARGET` once the
//! cause is known, under a name that says what was wrong.

use fuzz::{Target, generate, target};
use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

fn short_run(name: &str) {
    let target = target(name).expect("a target");
    let (corpus, regressions) = (target.corpus(), target.regressions());
    for (path, bytes) in regressions.iter().chain(&corpus) {
        run(target, bytes, &path.display().to_string());
    }
    let corpus: Vec<Vec<u8>> = corpus.into_iter().map(|(_, bytes)| bytes).collect();
    for seed in 0..target.short_runs {
        let input = generate::input(seed, &corpus, target.length_max);
        run(target, &input, &format!("--seed {seed}"));
    }
}

fn run(target: &Target, input: &[u8], which: &str) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (target.run)(input))) {
        eprintln!("\nreplay it with: cargo run -p fuzz -- {} {which}\n", target.name);
        resume_unwind(panic);
    }
}

macro_rules! short_runs {
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                short_run(stringify!($name));
            }
        )*

        #[test]
        fn every_target_has_a_short_run() {
            let names: Vec<&str> = fuzz::TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

short_runs!(
    pdu,
    target_session,
    host_session,
    policy,
    subsystem,
    config,
    ssd,
    server,
    auth_messages,
    client_hello,
    queue_pair
);

#[test]
fn every_target_has_a_long_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("the fuzzers' manifest");
    let listed: BTreeSet<&str> = manifest
        .lines()
        .filter_map(|line| line.strip_prefix("path = \"fuzz_targets/")?.strip_suffix(".rs\""))
        .collect();
    let names: BTreeSet<&str> = fuzz::TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(listed, names, "in fuzz/Cargo.toml");
    for name in names {
        let file = folder.join(format!("fuzz_targets/{name}.rs"));
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert!(text.contains(&format!("fuzz::run(\"{name}\"")), "{} runs another one", file.display());
    }
}
