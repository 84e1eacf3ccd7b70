//! `gimbal serve` under load: killed, stopped, reloaded. The client knows what every block may contain.

#![cfg(target_os = "linux")]

#[allow(unreachable_pub)]
mod linux;
mod verify;

use host::RetryPolicy;
use linux::{Medium, NQN, Scratch, Target};
use std::io::Write;
use std::time::Instant;
use verify::Verifier;

const TENANTS: u64 = 3;
/// An IO that is lost more often than this fails; with 100 random kills that is very rare.
const RETRY: RetryPolicy = RetryPolicy::Again { times: 3 };

/// Kills the target (SIGKILL) `kills` times, at points of the IO stream that the seed chooses.
fn killed(kills: u32, seed: u64, retry: RetryPolicy) -> String {
    let scratch = Scratch::new(&format!("killed-{seed}"));
    let mut target = Target::start(&scratch, Medium::File);
    let mut verifier = Verifier::connect(target.address(), NQN, seed, TENANTS, retry);
    let began = Instant::now();
    for kill in 0..kills {
        // Sometimes kill early, before the clients have reconnected.
        let ios = if verifier.draw(0..5) == 0 { verifier.draw(0..20) } else { verifier.draw(100..4000) };
        verifier.run(ios);
        verifier.expect_loss();
        target.kill();
        target.restart();
        if kill % 2 == 0 {
            verifier.sweep();
        }
    }
    verifier.run(1000);
    verifier.sweep();
    target.stop();
    let figures = verifier.figures();
    assert!(figures.flushes > 0 && figures.reads > 0 && figures.writes > 0);
    let back = &figures.reconnects;
    assert!(!back.is_empty(), "no host noticed a kill");
    format!(
        "{kills} kills: {} reads, {} writes, {} flushes answered, {} without an answer, {} blocks read back, {} unflushed writes \
         gone, in {:.1?}; back after {:.0?} in the median, {:.0?} at most (of {})",
        figures.reads,
        figures.writes,
        figures.flushes,
        figures.lost,
        figures.swept,
        figures.unflushed_and_gone,
        began.elapsed(),
        back[back.len() / 2],
        back[back.len() - 1],
        back.len(),
    )
}

#[test]
fn nothing_flushed_is_lost_and_nothing_is_wrong_after_four_kills() {
    killed(4, 1, RETRY);
    killed(2, 2, RetryPolicy::Never);
}

#[test]
#[ignore = "100 kills of a target under load, a minute or two"]
fn nothing_flushed_is_lost_and_nothing_is_wrong_after_100_kills() {
    for (seed, retry) in [(3, RETRY), (4, RetryPolicy::Never)] {
        let figures = killed(100, seed, retry);
        // Bypass the capture of test output: the figures are the purpose of the long tests.
        writeln!(std::io::stderr(), "kill -9 under load, {retry:?}: {figures}").expect("stderr");
    }
}

/// An orderly stop loses nothing: `Target::stop` checks the exit status, which reports that all IOs were completed and
/// flushed within the time limit.
#[test]
fn nothing_acknowledged_is_lost_when_the_target_is_ended_under_load() {
    let scratch = Scratch::new("ended");
    let mut target = Target::start(&scratch, Medium::File);
    let mut verifier = Verifier::connect(target.address(), NQN, 5, TENANTS, RETRY);
    for _ in 0..5 {
        let ios = verifier.draw(200..2000);
        verifier.run(ios);
        target.stop();
        target.restart();
        verifier.sweep();
    }
    target.stop();
    assert_eq!(verifier.figures().lost, 0, "no IO is lost more often than it survives");
}

/// Continues IO until the log contains `result` this many times.
fn await_reload(target: &Target, verifier: &mut Verifier, times: usize, result: &str) {
    while target.log().matches(result).count() < times {
        verifier.run(50);
    }
}

const RELOADED: &str = "the configuration was reloaded";
const REFUSED: &str = "the configuration was not reloaded";

#[test]
fn the_scheduler_is_switched_by_a_reload_under_load_with_every_io_answered_once() {
    let scratch = Scratch::new("switched");
    let mut target = Target::start(&scratch, Medium::Emulated);
    let mut verifier = Verifier::connect(target.address(), NQN, 6, TENANTS, RetryPolicy::Never);
    let schedulers = ["none", "level", "gimbal", "none", "gimbal", "level", "none", "level"];
    for (index, scheduler) in schedulers.into_iter().enumerate() {
        let ios = verifier.draw(200..1000);
        verifier.run(ios);
        target.reload(|text| {
            let others = text.lines().filter(|line| !line.starts_with("scheduler"));
            let others: Vec<&str> = others.collect();
            others.join("\n").replacen(
                "name = \"ssd\"",
                &format!("name = \"ssd\"\nscheduler = \"{scheduler}\""),
                1,
            )
        });
        await_reload(&target, &mut verifier, index + 1, RELOADED);
    }
    verifier.sweep();
    let log = target.log();
    assert_eq!(log.matches("reloaded subject=scheduler name=\"ssd\"").count(), schedulers.len(), "{log}");
    assert_eq!(verifier.figures().lost, 0, "no connection was lost");
    target.stop();
}

#[test]
fn a_reload_takes_a_good_file_and_says_what_is_wrong_with_a_bad_one() {
    let scratch = Scratch::new("reloaded");
    let mut target = Target::start(&scratch, Medium::File);
    let mut verifier = Verifier::connect(target.address(), NQN, 7, 1, RetryPolicy::Never);
    target.reload(|text| {
        format!("{text}\n[[tenant]]\nhost = {:?}\nweight = 0\nlimits = 3\n", verify::host_nqn(0))
    });
    await_reload(&target, &mut verifier, 1, REFUSED);
    let (log, text) = (target.log(), std::fs::read_to_string(scratch.file("target.toml")).expect("readable"));
    for (wrong, error) in
        [("weight = 0", "tenant[0].weight: "), ("limits = 3", "tenant[0].limits: unknown field")]
    {
        let number = 1 + text.lines().position(|line| line == wrong).expect("just added");
        let error = format!("target.toml:{number}: {error}");
        assert!(log.contains(&error), "missing {error:?} in:\n{log}");
    }
    target.reload(|text| {
        text.replace("weight = 0\nlimits = 3", "weight = 4").replace("block_size = 512", "block_size = 4096")
    });
    await_reload(&target, &mut verifier, 2, REFUSED);
    let log = target.log();
    assert!(
        log.contains("subsystem[0].namespace[1].block_size: namespace 2 cannot become another one"),
        "{log}"
    );
    target.reload(|text| text.replace("block_size = 4096", "block_size = 512"));
    await_reload(&target, &mut verifier, 1, RELOADED);
    let log = target.log();
    let expected = format!("reloaded subject=tenant name=\"{}\" to=\"weight 4\"", verify::host_nqn(0));
    assert!(log.contains(&expected), "{log}");
    verifier.sweep();
    assert_eq!(verifier.figures().lost, 0);
    target.stop();
}
