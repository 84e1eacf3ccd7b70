//! Accuracy of the prediction, seen by the rate of writes.
//!
//! A *stretch* is 16 MiB of writes that keep the SSD busy all the time, and during which there are no reads: so its rate is the SSD's. It is slow or
//! fast, whichever of the two rates of the profile is nearer (by ratio). If the same was predicted all the time, it is compared with that.
//!
//! Stretches that are not far slower than the exhausted SSD (as one is that collects garbage) go to the predictor, which learns from them.

use probe::Stretch;
use units::{Bytes, Instant};

/// Bytes of a stretch.
const STRETCH: u64 = 16 << 20;
/// Below this share of the exhausted SSD's rate, a stretch is slow for another reason.
const EXHAUSTED_LEAST: f64 = 0.6;

/// Stretches of writes by the prediction for them. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Foresight {
    /// The SSD was as slow or as fast as predicted.
    pub right: u64,
    /// It was slow, although room in its buffer was predicted.
    pub unforeseen: u64,
    /// It was fast, although an exhausted buffer was predicted.
    pub needless: u64,
}

/// A stretch that is not complete.
#[derive(Clone, Copy, Debug)]
struct Begun {
    since: Instant,
    /// Submitted since, with the IOs in flight then.
    bytes: u64,
    is_exhausted: bool,
}

/// Compares.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    /// Bytes per second: above is fast.
    middle: f64,
    /// Below, it is slow for another reason.
    least: f64,
    stretch: Option<Begun>,
    pub(crate) foresight: Foresight,
}

impl Comparison {
    pub(crate) fn new(fast: f64, slow: f64) -> Comparison {
        Comparison {
            middle: (fast * slow).sqrt(),
            least: EXHAUSTED_LEAST * slow,
            stretch: None,
            foresight: Foresight::default(),
        }
    }

    /// Notes a write that goes to an SSD with this much of writes under way. Returns a stretch that is complete and says something of the buffer.
    pub(crate) fn on_write(
        &mut self,
        now: Instant,
        bytes: u64,
        writing: Bytes,
        is_exhausted: bool,
    ) -> Option<Stretch> {
        let same = |stretch: &Begun| writing > Bytes::ZERO && stretch.is_exhausted == is_exhausted;
        let Some(stretch) = self.stretch.as_mut().filter(|stretch| same(stretch)) else {
            self.stretch = Some(Begun { since: now, bytes: writing.get() + bytes, is_exhausted });
            return None;
        };
        let done = stretch.bytes.saturating_sub(writing.get());
        stretch.bytes += bytes;
        if done < STRETCH {
            return None;
        }
        let since = stretch.since;
        self.stretch = None;
        let taken = now.saturating_since(since).as_secs_f64();
        let is_slow = (done as f64) < self.middle * taken;
        match (is_exhausted, is_slow) {
            (false, true) => self.foresight.unforeseen += 1,
            (true, false) => self.foresight.needless += 1,
            (true, true) | (false, false) => self.foresight.right += 1,
        }
        let says = done as f64 >= self.least * taken;
        says.then_some(Stretch { since, until: now, bytes: done, is_slow })
    }

    /// Notes a read that goes to the SSD: it may be the reason why writes are slow now.
    pub(crate) fn on_read(&mut self) {
        self.stretch = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Nanos;

    /// 64 MiB at a rate, eight writes of 128 KiB under way, to an SSD of 1 GB/s or 100 MB/s.
    fn written(rate: f64, is_exhausted: bool, mut also: impl FnMut(&mut Comparison)) -> Foresight {
        let (mut comparison, mut now) = (Comparison::new(1e9, 1e8), Instant::ZERO);
        for _ in 0..512 {
            comparison.on_write(now, 128 << 10, Bytes(1 << 20), is_exhausted);
            now += Nanos((f64::from(128 << 10) / rate * 1e9) as u64);
            also(&mut comparison);
        }
        comparison.foresight
    }

    #[test]
    fn a_stretch_is_compared_with_what_was_predicted() {
        let alone = |rate, is_exhausted| written(rate, is_exhausted, |_| ());
        assert_eq!(alone(1e9, false), Foresight { right: 3, ..Foresight::default() });
        assert_eq!(alone(1e8, true), Foresight { right: 3, ..Foresight::default() });
        assert_eq!(alone(1e8, false), Foresight { unforeseen: 3, ..Foresight::default() });
        assert_eq!(alone(1e9, true), Foresight { needless: 3, ..Foresight::default() });
    }

    #[test]
    fn nothing_is_said_of_writes_beside_reads() {
        assert_eq!(written(1e8, false, Comparison::on_read), Foresight::default());
    }
}
