//! A group that goes from one target to another before one back-end, under a real Linux host with native multipath (docs/high-availability.md).

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod linux;
mod pair;

use linux::{Kernel, Scratch, Walk, process, static_program};
use pair::{Front, NQN, Pair, SHELF};
use std::time::Duration;

/// A way to lose the holder.
#[derive(Clone, Copy)]
enum Loss {
    /// It is killed, and started again.
    Kill,
    /// It is stopped (SIGSTOP), and goes on with all that it still has.
    Stop,
    /// It releases the group.
    Release,
    /// Its way to the back-end is cut, and mended: what was on the way arrives then.
    Partition,
}

impl Loss {
    const ALL: [Loss; 4] = [Loss::Kill, Loss::Stop, Loss::Release, Loss::Partition];

    fn name(self) -> &'static str {
        match self {
            Loss::Kill => "kill",
            Loss::Stop => "stop",
            Loss::Release => "release",
            Loss::Partition => "partition",
        }
    }

    fn begin(self, holder: &mut Front) {
        match self {
            Loss::Kill => holder.kill(),
            Loss::Stop => holder.signal("-STOP"),
            Loss::Release => holder.release(),
            Loss::Partition => holder.link.cut(),
        }
    }

    fn end(self, former: &mut Front) {
        match self {
            Loss::Kill => former.restart(),
            Loss::Stop => former.signal("-CONT"),
            Loss::Release => {}
            Loss::Partition => former.link.mend(),
        }
    }
}

/// Takes the group from its holder in each way, `rounds` times each, and gives it to the other target, under a writer that checks every block.
fn take_over(rounds: u32) {
    let mut pair = Pair::new(&format!("takeover-{rounds}"));
    let scratch = Scratch::new(&format!("takeover-writer-{rounds}"));
    let mut generation = 1;
    pair.left.take_over(generation);
    let mut guest = Walk::new(Kernel::Linux6_12, "takeover", pair.left.address(), NQN)
        .variable("OTHER_PORT", pair.right.address().port())
        .variable("BACK_END_PORT", pair.back_end().port())
        .variable("BACK_END_NQN", SHELF)
        .variable("KINDS", Loss::ALL.map(Loss::name).join(" "))
        .variable("ROUNDS", rounds)
        .file(&static_program("writer.c", &scratch), "/writer")
        .limit(Duration::from_secs(7200))
        .start();
    let (mut holder, mut other) = (&mut pair.left, &mut pair.right);
    for loss in Loss::ALL {
        let mut gaps = Vec::new();
        for _ in 0..rounds {
            guest.wait_for(&format!("lose by {}", loss.name()));
            loss.begin(holder);
            generation += 1;
            other.take_over(generation);
            guest.wait_for("restore");
            loss.end(holder);
            let gap = guest.wait_for("gap ");
            gaps.push(gap.parse::<u64>().unwrap_or_else(|error| panic!("{error}: {gap}")));
            assert_eq!((holder.held(), other.held()), (None, Some(generation)));
            std::mem::swap(&mut holder, &mut other);
        }
        gaps.sort_unstable();
        let (median, worst) = (gaps[gaps.len() / 2], gaps[gaps.len() - 1]);
        println!(
            "{}: longest IO {median} ms in the median of {rounds} rounds, {worst} ms at worst",
            loss.name()
        );
    }
    guest.finish();
}

#[test]
fn linux_6_12_follows_a_group_from_target_to_target() {
    take_over(1);
}

#[test]
#[ignore = "many minutes of emulation; run by make test-long"]
fn linux_6_12_follows_a_group_from_target_to_target_again_and_again() {
    take_over(20);
}
