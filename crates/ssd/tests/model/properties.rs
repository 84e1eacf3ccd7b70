//! What holds for every workload: small devices under random commands; the mapping is checked afterwards.

use crate::small::{consumer_profile, finish, hasty_profile, limited_profile, profile, rounds_profile};
use proptest::prelude::*;
use ssd::{Command, CommandKind, Completion, Condition, Image, Profile, Ssd};
use std::sync::LazyLock;
use units::{Bytes, Instant, Nanos};

/// Images of the devices. Conditioning is the same for all cases.
static IMAGES: LazyLock<Vec<Image>> = LazyLock::new(|| {
    let image = |profile: &Profile, condition| Image::new(profile, condition, 3);
    vec![
        image(&profile(), Condition::Clean),
        image(&profile(), Condition::Fragmented),
        image(&consumer_profile(), Condition::Fragmented),
        image(&hasty_profile(), Condition::Fragmented),
        image(&limited_profile(), Condition::Fragmented),
        image(&rounds_profile(), Condition::Fragmented),
        image(&profile(), Condition::Fragmented).overwritten(&[(Bytes::kib(16), 2), (Bytes::kib(4), 1)], 1),
    ]
});

/// Commands that are submitted together, some time after the previous ones.
#[derive(Clone, Debug)]
struct Burst {
    gap: Nanos,
    kind: CommandKind,
    /// Position within the device, in 65536ths.
    place: u32,
    slots: u32,
    count: u32,
    /// Distance from one command of the burst to the next.
    stride: u32,
}

fn bursts() -> impl Strategy<Value = Vec<Burst>> {
    let kind = prop_oneof![
        4 => Just(CommandKind::Read),
        8 => Just(CommandKind::Write),
        1 => Just(CommandKind::Deallocate),
        1 => Just(CommandKind::Flush),
    ];
    let gap = prop_oneof![4 => 0..200_u64, 2 => 0..20_000_u64, 1 => Just(200_000)];
    let slots = prop_oneof![4 => Just(1_u32), 2 => 1..40_u32, 1 => 1..700_u32];
    let stride = prop_oneof![2 => Just(0_u32), 3 => 1..50_u32, 3 => 1000..16_000_u32];
    let burst = (gap, kind, 0..65_536_u32, slots, 1..200_u32, stride).prop_map(
        |(gap, kind, place, slots, count, stride)| Burst {
            gap: Nanos::micros(gap),
            kind,
            place,
            slots,
            count,
            stride,
        },
    );
    prop::collection::vec(burst, 1..40)
}

/// How far time advances at once.
#[derive(Clone, Copy, Debug)]
enum Stride {
    /// To the next event.
    Event,
    /// By this much.
    Step(Nanos),
    /// To the bound for the next completion.
    Bound,
}

impl Stride {
    fn next(self, ssd: &Ssd, now: Instant) -> Option<Instant> {
        match self {
            Stride::Event => ssd.next_event(),
            Stride::Step(step) => Some(now + step),
            Stride::Bound => ssd.completion_bound(),
        }
    }
}

/// Submits the bursts and advances time in strides. Returns when each command was submitted, and all
/// completions.
fn run(ssd: &mut Ssd, bursts: &[Burst], stride: Stride) -> (Vec<Instant>, Vec<Completion>) {
    let mut now = Instant::ZERO;
    let mut submitted = Vec::new();
    let mut completions = Vec::new();
    for burst in bursts {
        let at = now + burst.gap;
        while now < at {
            now = stride.next(ssd, now).unwrap_or(at).min(at);
            ssd.advance(now, &mut |completion| completions.push(completion));
        }
        submit(ssd, burst, now, &mut submitted);
        ssd.advance(now, &mut |completion| completions.push(completion));
    }
    finish(ssd, &mut |completion| completions.push(completion));
    (submitted, completions)
}

/// Submits the commands of one burst and records the time.
fn submit(ssd: &mut Ssd, burst: &Burst, now: Instant, submitted: &mut Vec<Instant>) {
    for n in 0..burst.count {
        let range = u64::from(ssd.slots() - burst.slots);
        let first = u64::from(burst.place) * range / 65_536 + u64::from(n) * u64::from(burst.stride);
        let slot = (first % range) as u32;
        let command = Command { tag: submitted.len() as u64, kind: burst.kind, slot, slots: burst.slots };
        submitted.push(now);
        ssd.submit(now, command);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_command_completes_once_and_not_before_it_was_submitted(bursts in bursts(), image in 0..5_usize) {
        let mut ssd = Ssd::from_image(&IMAGES[image]);
        let (submitted, completions) = run(&mut ssd, &bursts, Stride::Event);
        prop_assert!(completions.is_sorted_by_key(|completion| completion.at));
        let mut tags: Vec<u64> = completions.iter().map(|completion| completion.tag).collect();
        tags.sort_unstable();
        prop_assert!(tags.into_iter().eq(0..submitted.len() as u64));
        for completion in completions {
            prop_assert!(completion.at > submitted[completion.tag as usize]);
        }
        ssd.assert_consistent();
    }

    #[test]
    fn the_same_commands_give_the_same_completions_in_any_time_steps(bursts in bursts(), image in 0..5_usize) {
        let [by_event, by_step, by_bound] =
            [Stride::Event, Stride::Step(Nanos::micros(7)), Stride::Bound].map(|stride| {
                let mut ssd = Ssd::from_image(&IMAGES[image]);
                run(&mut ssd, &bursts, stride)
            });
        prop_assert_eq!(&by_event, &by_step);
        prop_assert_eq!(&by_event, &by_bound);
    }

    #[test]
    fn no_completion_comes_before_the_bound(bursts in bursts(), image in 0..5_usize) {
        let mut ssd = Ssd::from_image(&IMAGES[image]);
        let mut now = Instant::ZERO;
        for (number, burst) in bursts.iter().enumerate() {
            submit(&mut ssd, burst, now, &mut Vec::new());
            let until = bursts.get(number + 1).map_or(Instant::FAR_FUTURE, |next| now + next.gap);
            // The latest bound given so far for the outstanding commands.
            let mut promised = now;
            while ssd.outstanding() > 0 {
                let bound = ssd.completion_bound().expect("something is outstanding");
                prop_assert!(bound >= now, "the bound {bound:?} is in the past at {now:?}");
                promised = promised.max(bound);
                let next = ssd.next_event().expect("something is outstanding");
                if next > until {
                    break;
                }
                now = next;
                let mut first = None;
                ssd.advance(now, &mut |completion| first = first.or(Some(completion.at)));
                prop_assert!(first.is_none_or(|at| at >= promised), "{first:?} came before {promised:?}");
            }
            if ssd.outstanding() == 0 {
                prop_assert_eq!(ssd.completion_bound(), None);
            }
            if until < Instant::FAR_FUTURE {
                now = until;
                ssd.advance(now, &mut |_| {});
            }
        }
    }
}

/// Writes whose garbage is on some dies only: every stripe puts slots on die 0 that are never written again,
/// and slots on the other dies that are overwritten at once.
#[test]
fn writes_that_leave_garbage_on_some_dies_only_do_not_stall() {
    for image in &*IMAGES {
        let mut ssd = Ssd::from_image(image);
        let mut now = Instant::ZERO;
        let mut cold = 0;
        for n in 0..40_000_u64 {
            let on_first_die = n / 4 % 2 == 0;
            let slot = if on_first_die { cold % ssd.slots() } else { (n % 4) as u32 };
            cold += u32::from(on_first_die);
            ssd.submit(now, Command { tag: n, kind: CommandKind::Write, slot, slots: 1 });
            if n % 64 == 63 {
                now = finish(&mut ssd, &mut |_| {}).max(now);
            }
        }
        ssd.assert_consistent();
        assert_eq!(ssd.counters().completed, 40_000);
    }
}

#[test]
fn sixty_four_thousand_commands_may_be_outstanding() {
    let mut ssd = Ssd::from_image(&IMAGES[1]);
    let slots = ssd.slots();
    for n in 0..65_536_u32 {
        let kind = if n % 16 == 0 { CommandKind::Write } else { CommandKind::Read };
        ssd.submit(Instant::ZERO, Command { tag: n.into(), kind, slot: n * 7919 % slots, slots: 1 });
    }
    assert_eq!(ssd.outstanding(), 65_536);
    let mut completed = 0;
    finish(&mut ssd, &mut |_| completed += 1);
    assert_eq!(completed, 65_536);
    ssd.assert_consistent();
}

#[test]
fn images_of_one_seed_are_equal_and_of_two_seeds_differ() {
    let latencies = |seed| {
        let mut ssd = Ssd::new(&profile(), Condition::Fragmented, seed);
        let mut completions = Vec::new();
        for slot in 0..200 {
            ssd.submit(Instant::ZERO, Command { tag: slot.into(), kind: CommandKind::Read, slot, slots: 32 });
        }
        finish(&mut ssd, &mut |completion| completions.push(completion));
        completions
    };
    assert_eq!(latencies(1), latencies(1));
    assert_ne!(latencies(1), latencies(2));
}
