//! One thread writes, others read meanwhile.

use measures::{Counter, SharedHistogram};
use std::sync::atomic::{AtomicBool, Ordering};
use units::Nanos;

// Miri takes a millisecond for each.
const VALUES: u64 = if cfg!(miri) { 500 } else { 200_000 };

/// Counts never fall, and what a reader sees after the writer's end is what was recorded.
#[test]
fn readers_see_growing_counts_and_all_of_them_in_the_end() {
    let (histogram, counter, is_over) =
        (SharedHistogram::default(), Counter::default(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = (0, 0, 0);
                while !is_over.load(Ordering::Acquire) {
                    let copy = histogram.snapshot();
                    let now = (copy.count(), copy.sum(), counter.get());
                    // The two parts of a sum are not read at once: it may be short of one unit.
                    assert!(
                        now.0 >= last.0 && now.1 + 1024 >= last.1 && now.2 >= last.2,
                        "{now:?} after {last:?}"
                    );
                    last = now;
                }
            });
        }
        (0..VALUES).for_each(|value| {
            histogram.record(Nanos(value * 31));
            counter.add(3);
        });
        is_over.store(true, Ordering::Release);
    });
    let sum = (0..VALUES).map(|value| u128::from(value * 31)).sum::<u128>();
    let copy = histogram.snapshot();
    assert_eq!((copy.count(), copy.sum(), counter.get()), (VALUES, sum, 3 * VALUES));
}
