use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A naive queue: a sorted map from (time, insertion) to the event.
#[derive(Default)]
struct Sorted {
    events: BTreeMap<(Instant, u32), Event>,
}

impl Sorted {
    fn pop_until(&mut self, until: Instant) -> Option<(Instant, Event)> {
        let (&(at, inserted), &event) = self.events.iter().next()?;
        if at > until {
            return None;
        }
        self.events.remove(&(at, inserted));
        Some((at, event))
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Insert an event of this kind, at this delay after the last popped event.
    Push(u32, u64),
    /// Pop the events due within this delay after the last popped event.
    Pop(u64),
}

const KINDS: u32 = 10;

/// An event of each kind, with `number` if the kind has one.
fn event(kind: u32, number: u32) -> Event {
    match kind {
        0 => Event::ReadIssued { read: number },
        1 => Event::Parsed { command: number },
        2 => Event::WriteArrived { command: number, slots: !number },
        3 => Event::Completed { command: number },
        4 => Event::Sensed { die: number },
        5 => Event::Transferred { die: number },
        6 => Event::Ran { die: number, generation: !number },
        7 => Event::SuspendDue { die: number },
        8 => Event::Suspended { die: number },
        _ => Event::IdleCheck,
    }
}

/// Often equal times, sometimes far away.
fn delays() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 0..4_u64, 8 => 0..100_000_u64, 2 => 0..4_500_000_u64, 1 => 0..300_000_000_u64]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let push = (0..KINDS, delays()).prop_map(|(kind, delay)| Step::Push(kind, delay));
    prop::collection::vec(prop_oneof![5 => push, 4 => delays().prop_map(Step::Pop)], 0..1200)
}

proptest! {
    #[test]
    fn agrees_with_a_sorted_list(steps in steps()) {
        let mut queue = EventQueue::new();
        let mut sorted = Sorted::default();
        let mut now = Instant::ZERO;
        let mut inserted = 0;
        for step in steps {
            match step {
                Step::Push(kind, delay) => {
                    let at = Instant(now.0 + delay);
                    queue.push(at, event(kind, inserted));
                    sorted.events.insert((at, inserted), event(kind, inserted));
                    inserted += 1;
                }
                Step::Pop(delay) => {
                    let popped = queue.pop_until(Instant(now.0 + delay));
                    prop_assert_eq!(popped, sorted.pop_until(Instant(now.0 + delay)));
                    now = popped.map_or(now, |(at, _)| at);
                }
            }
            prop_assert_eq!(queue.next_at(), sorted.events.keys().next().map(|&(at, _)| at));
        }
        while let Some(popped) = sorted.pop_until(Instant::FAR_FUTURE) {
            prop_assert_eq!(queue.pop_until(Instant::FAR_FUTURE), Some(popped));
        }
        prop_assert_eq!(queue.pop_until(Instant::FAR_FUTURE), None);
    }
}

#[test]
fn an_event_waits_for_its_time() {
    let mut queue = EventQueue::new();
    let (early, late) = (Event::Sensed { die: 1 }, Event::Sensed { die: 2 });
    queue.push(Instant(5_000_000_000), late);
    assert_eq!(queue.next_at(), Some(Instant(5_000_000_000)));
    assert_eq!(queue.pop_until(Instant(4_999_999_999)), None);
    queue.push(Instant(10), early);
    assert_eq!(queue.pop_until(Instant(10)), Some((Instant(10), early)));
    assert_eq!(queue.pop_until(Instant(5_000_000_000)), Some((Instant(5_000_000_000), late)));
}

#[test]
fn a_lane_grows_beyond_its_first_room_in_order() {
    let mut queue = EventQueue::new();
    let count = 1000;
    for number in (0..count).rev() {
        queue.push(Instant(u64::from(number)), Event::Completed { command: number });
    }
    for number in 0..count {
        let expected = (Instant(u64::from(number)), Event::Completed { command: number });
        assert_eq!(queue.pop_until(Instant::FAR_FUTURE), Some(expected));
    }
}
