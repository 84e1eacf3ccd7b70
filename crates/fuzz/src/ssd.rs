//! The SSD model: any commands at any times, with any time steps.
//!
//! Holds: every command completes once, after its submission, in order of time; the same commands give the
//!        same completions however often the model is advanced; the mapping is consistent; with no outstanding
//!        command the model becomes idle.

use crate::input::Input;
use ssd::{Command, CommandKind, Completion, Condition, Image, Profile, Ssd};
use std::sync::LazyLock;
use units::{Bytes, Instant, Nanos};

/// Most commands of one input: enough work for the model.
const COMMANDS_MAX: usize = 200;
/// Simulated time after which the model must be idle.
const REST_WITHIN: Nanos = Nanos::secs(600);

/// Devices small enough to be filled several times: clean, fragmented, and one with an SLC cache and without
/// power-loss protection.
static IMAGES: LazyLock<Vec<Image>> = LazyLock::new(|| {
    let mut small = Profile { name: "small".to_owned(), ..Profile::default() };
    small.geometry.capacity = Bytes::mib(64);
    small.geometry.spare_permille = 100;
    small.geometry.never_written = Bytes::ZERO;
    small.geometry.channels = 2;
    small.geometry.dies_per_channel = 2;
    small.geometry.stripe_dies = 2;
    small.geometry.units_per_block = 4;
    small.buffer.capacity = Bytes::mib(1);
    let mut consumer = small.clone();
    consumer.slc.blocks_per_die = 16;
    consumer.buffer.power_loss_protection = false;
    vec![
        Image::new(&small, Condition::Clean, 3),
        Image::new(&small, Condition::Fragmented, 3),
        Image::new(&consumer, Condition::Fragmented, 3),
    ]
});

/// The target.
pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let image = &IMAGES[input.below(3) as usize];
    let commands = commands(&mut input, Ssd::from_image(image).slots());
    let by_event = complete(image, &commands, None);
    assert_eq!(
        by_event,
        complete(image, &commands, Some(Nanos::micros(11))),
        "different completions when advanced in small steps"
    );
    assert!(by_event.is_sorted_by_key(|completion| completion.at));
    let mut completed = vec![false; commands.len()];
    for Completion { tag, at } in by_event {
        let (submitted, command) = commands[tag as usize];
        assert!(at > submitted, "{command:?} was submitted at {submitted:?} and completed at {at:?}");
        assert!(!std::mem::replace(&mut completed[tag as usize], true), "{command:?} completed twice");
    }
    assert!(completed.iter().all(|completed| *completed), "a command never completed");
}

/// The commands, and when each is submitted.
fn commands(input: &mut Input<'_>, all: u32) -> Vec<(Instant, Command)> {
    let mut now = Instant::ZERO;
    let mut commands = Vec::new();
    while !input.is_empty() && commands.len() < COMMANDS_MAX {
        now += match input.below(8) {
            0 => Nanos::millis(input.half().into()),
            1 => Nanos::micros(input.half().into()),
            2 => Nanos(input.half().into()),
            _ => Nanos::ZERO,
        };
        let kind = match input.below(8) {
            0..=1 => CommandKind::Read,
            2..=5 => CommandKind::Write,
            6 => CommandKind::Deallocate,
            _ => CommandKind::Flush,
        };
        let slots = match input.below(8) {
            0 => all,
            1 => input.half().into(),
            2 => input.byte().into(),
            _ => 1 + input.below(40),
        };
        let slots = slots.clamp(1, if kind == CommandKind::Deallocate { all } else { all / 4 });
        let first = if input.one_in(4) { 0 } else { input.below(all) };
        let repeats = if input.one_in(4) { input.byte().into() } else { 1 };
        for repeat in 0..repeats {
            let slot = (first + repeat * slots) % (all - slots + 1);
            commands.push((now, Command { tag: commands.len() as u64, kind, slot, slots }));
        }
    }
    commands.truncate(COMMANDS_MAX);
    commands
}

/// Submits them and advances time in steps of `step`, or from event to event, until the model is idle.
fn complete(image: &Image, commands: &[(Instant, Command)], step: Option<Nanos>) -> Vec<Completion> {
    let mut ssd = Ssd::from_image(image);
    let mut completions = Vec::new();
    let mut now = Instant::ZERO;
    for &(at, command) in commands {
        while now < at {
            let next = ssd.next_event().unwrap_or(at).min(at);
            now = match step {
                // Pauses are skipped.
                Some(step) => (now + step).max(next).min(at),
                None => next,
            };
            ssd.advance(now, &mut |completion| completions.push(completion));
        }
        ssd.submit(now, command);
    }
    let limit = now + REST_WITHIN;
    while let Some(next) = ssd.next_event() {
        assert!(next < limit, "{} commands outstanding, still busy at {next:?}", ssd.outstanding());
        ssd.advance(next, &mut |completion| completions.push(completion));
    }
    assert_eq!(ssd.outstanding(), 0, "the model is idle with commands outstanding");
    ssd.assert_consistent();
    completions
}
