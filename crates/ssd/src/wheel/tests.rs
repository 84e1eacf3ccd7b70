use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// The naive queue: a sorted map from (time, insertion) to the event.
#[derive(Default)]
struct Sorted {
    events: BTreeMap<(Instant, u32), u32>,
}

impl Sorted {
    fn pop_until(&mut self, until: Instant) -> Option<(Instant, u32)> {
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
    /// Insert this far after the last popped event.
    Push(u64),
    /// Pop what is due within this much of the last popped event.
    Pop(u64),
}

/// Mostly within the wheel's 4.2 ms, often at equal times, sometimes far beyond it.
fn delays() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 0..4_u64, 8 => 0..100_000_u64, 2 => 0..4_500_000_u64, 1 => 0..300_000_000_u64]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(
        prop_oneof![5 => delays().prop_map(Step::Push), 4 => delays().prop_map(Step::Pop)],
        0..600,
    )
}

proptest! {
    #[test]
    fn agrees_with_a_sorted_list(steps in steps()) {
        let mut wheel = Wheel::new();
        let mut sorted = Sorted::default();
        let mut now = Instant::ZERO;
        let mut inserted = 0;
        for step in steps {
            match step {
                Step::Push(delay) => {
                    let at = Instant(now.0 + delay);
                    wheel.push(at, inserted);
                    sorted.events.insert((at, inserted), inserted);
                    inserted += 1;
                }
                Step::Pop(delay) => {
                    let popped = wheel.pop_until(Instant(now.0 + delay));
                    prop_assert_eq!(popped, sorted.pop_until(Instant(now.0 + delay)));
                    now = popped.map_or(now, |(at, _)| at);
                }
            }
            prop_assert_eq!(wheel.next_at(), sorted.events.keys().next().map(|&(at, _)| at));
        }
        while let Some(popped) = sorted.pop_until(Instant::FAR_FUTURE) {
            prop_assert_eq!(wheel.pop_until(Instant::FAR_FUTURE), Some(popped));
        }
        prop_assert_eq!(wheel.pop_until(Instant::FAR_FUTURE), None);
    }
}

#[test]
fn an_event_waits_for_its_time() {
    let mut wheel = Wheel::new();
    wheel.push(Instant(5_000_000_000), 'a');
    assert_eq!(wheel.next_at(), Some(Instant(5_000_000_000)));
    assert_eq!(wheel.pop_until(Instant(4_999_999_999)), None);
    wheel.push(Instant(10), 'b');
    assert_eq!(wheel.pop_until(Instant(10)), Some((Instant(10), 'b')));
    assert_eq!(wheel.pop_until(Instant(5_000_000_000)), Some((Instant(5_000_000_000), 'a')));
}
