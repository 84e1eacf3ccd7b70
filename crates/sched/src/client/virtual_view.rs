//! The virtual view: a client's picture of one SSD that it shares with others.
//!
//! The application asks it where to read and where to place. Everything comes from the client's own IOs: the credit that
//! their completions carried, their latency as the client saw it, and the bytes that they moved.
//!
//! ```text
//!  each completion ─► [ averages of latency and length, bytes per window ] ─► view(now): a snapshot
//!                                     credit window ───────────────────────────┘
//! ```
//!
//! The *headroom* is the rate in bytes per second that the free places in the credit window would add, at the recent
//! latency (Little's law). Zero means that more IOs would only wait.
//!
//! Holds: the recent rate is zero one to two windows after the last completion (`silence_is_forgotten`).
//! Elsewhere: the meaning of the credit is in `credit_window`.
//! Paper: Gimbal §3.7. The paper names the parts of the view, not how they are computed; windows and weights are ours.

use crate::{Credit, CreditWindow, IoKind};
use units::{ByteRate, Bytes, Instant, Nanos};

/// Recent means: within about this time. Ours: the period at which the switch reconsiders the write cost.
const WINDOW: Nanos = Nanos::millis(100);

/// Weight of a new latency or length in its average: 1/16. Ours, the weight that follows mixed IO sizes calmly.
const AVERAGE_SHIFT: u32 = 4;

/// Bits that the averages carry below a nanosecond or byte, so that a small weight does not stall.
const FRACTION_BITS: u32 = 8;

/// One SSD as one client sees it: a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualView {
    /// IOs that the client may have outstanding. The more, the less loaded the SSD.
    pub credit: Credit,
    /// IOs outstanding.
    pub in_flight: u32,
    /// Recent latency of reads, from submission to completion; `None` before the first.
    pub read_latency: Option<Nanos>,
    /// Recent latency of everything else; `None` before the first.
    pub write_latency: Option<Nanos>,
    /// Bytes per second that the client's IOs moved recently.
    pub rate: ByteRate,
    /// Bytes per second that the client could add; `None` before the first completion.
    pub headroom: Option<ByteRate>,
}

/// Keeps one SSD's [`VirtualView`] up to date.
#[derive(Clone, Debug, Default)]
pub struct VirtualViewKeeper {
    read_latency: Average,
    write_latency: Average,
    latency: Average,
    length: Average,
    recent: RecentBytes,
}

impl VirtualViewKeeper {
    /// Learns from an IO of this client that has completed `latency` after its submission.
    pub fn on_completion(&mut self, now: Instant, kind: IoKind, length: Bytes, latency: Nanos) {
        if kind.pays_as_write() {
            self.write_latency.add(latency.0);
        } else {
            self.read_latency.add(latency.0);
        }
        self.latency.add(latency.0);
        self.length.add(length.0);
        self.recent.add(now, length);
    }

    /// The view now.
    pub fn view(&self, now: Instant, window: &CreditWindow) -> VirtualView {
        VirtualView {
            credit: window.credit(),
            in_flight: window.in_flight(),
            read_latency: self.read_latency.get().map(Nanos),
            write_latency: self.write_latency.get().map(Nanos),
            rate: self.recent.rate(now),
            headroom: self.headroom(window.room()),
        }
    }

    fn headroom(&self, room: u32) -> Option<ByteRate> {
        let bytes = Bytes(self.length.get()?.saturating_mul(u64::from(room)));
        ByteRate::measured(bytes, Nanos(self.latency.get()?.max(1)))
    }
}

/// A moving average.
#[derive(Clone, Copy, Debug, Default)]
struct Average {
    fixed: Option<u64>,
}

impl Average {
    fn add(&mut self, value: u64) {
        let value = value.min(u64::MAX >> (FRACTION_BITS + 1)) << FRACTION_BITS;
        self.fixed = Some(match self.fixed {
            None => value,
            Some(average) => average - (average >> AVERAGE_SHIFT) + (value >> AVERAGE_SHIFT),
        });
    }

    fn get(&self) -> Option<u64> {
        self.fixed.map(|fixed| fixed >> FRACTION_BITS)
    }
}

/// Bytes in the current and in the last window; windows lie on a fixed grid.
#[derive(Clone, Copy, Debug, Default)]
struct RecentBytes {
    window: u64,
    current: Bytes,
    last: Bytes,
}

impl RecentBytes {
    fn at(self, now: Instant) -> RecentBytes {
        let window = now.0 / WINDOW.0;
        match window.saturating_sub(self.window) {
            0 => self,
            1 => RecentBytes { window, current: Bytes::ZERO, last: self.current },
            _ => RecentBytes { window, current: Bytes::ZERO, last: Bytes::ZERO },
        }
    }

    fn add(&mut self, now: Instant, length: Bytes) {
        *self = self.at(now);
        self.current = self.current.saturating_add(length);
    }

    /// Over the span of one window that ends now, as if the last window's bytes had come evenly.
    fn rate(self, now: Instant) -> ByteRate {
        let here = self.at(now);
        let left = WINDOW.0 - now.0 % WINDOW.0;
        let from_last = u128::from(here.last.0) * u128::from(left) / u128::from(WINDOW.0);
        let bytes = here.current.saturating_add(Bytes(from_last as u64));
        ByteRate::measured(bytes, WINDOW).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Bytes = Bytes(4096);
    const LATENCY: Nanos = Nanos::micros(100);

    /// A keeper that saw one 4 KiB read complete every 100 µs for a second.
    fn steady() -> (VirtualViewKeeper, Instant) {
        let mut keeper = VirtualViewKeeper::default();
        let mut now = Instant::ZERO;
        for _ in 0..10_000 {
            now += LATENCY;
            keeper.on_completion(now, IoKind::Read, LENGTH, LATENCY);
        }
        (keeper, now)
    }

    #[test]
    fn a_steady_load_is_seen_as_it_is() {
        let (keeper, now) = steady();
        let view = keeper.view(now, &CreditWindow::new(Credit(32)));
        assert_eq!((view.read_latency, view.write_latency), (Some(LATENCY), None));
        let expected = LENGTH.0 * 10_000;
        assert!(view.rate.0.abs_diff(expected) < expected / 100, "{:?} instead of {expected} B/s", view.rate);
    }

    #[test]
    fn the_headroom_is_what_the_free_places_would_move() {
        let (keeper, now) = steady();
        let window = CreditWindow::new(Credit(4));
        assert!(window.try_submit());
        let headroom = keeper.view(now, &window).headroom.expect("completions were seen");
        let expected = 3 * LENGTH.0 * 10_000;
        assert!(headroom.0.abs_diff(expected) < expected / 100, "{headroom:?} instead of {expected} B/s");
        while window.try_submit() {}
        assert_eq!(keeper.view(now, &window).headroom, Some(ByteRate(0)), "a full window has no headroom");
    }

    #[test]
    fn silence_is_forgotten() {
        let (keeper, now) = steady();
        let window = CreditWindow::new(Credit(4));
        assert!(keeper.view(now + Nanos(WINDOW.0 / 2), &window).rate > ByteRate(0));
        assert_eq!(keeper.view(now + Nanos(WINDOW.0 * 2), &window).rate, ByteRate(0));
    }

    #[test]
    fn nothing_is_claimed_before_the_first_completion() {
        let view = VirtualViewKeeper::default().view(Instant(7), &CreditWindow::new(Credit(4)));
        assert_eq!((view.read_latency, view.headroom, view.rate), (None, None, ByteRate(0)));
    }
}
