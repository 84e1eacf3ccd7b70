//! Probes: for a while, of the busy tenants only those that do one kind of work go to the SSD, and what that takes is measured.
//!
//! ```text
//!   probe of reads      │ window │ window │ window │ window │      until two windows in a row complete equally much,
//!   busy tenants' writes  wait in the switch                 ►     or [`LONGEST`] has passed: the last two count
//!   who asks for little   is served all the time
//! ```
//!
//! A buffer that still drains slows reads down, and one that still fills makes writes look fast. So the beginning does not count, and a
//! probe of anything that writes goes on until it has become slower, or has written more than buffers hold.
//!
//! What learning may cost is bounded: no probe takes longer than [`LONGEST`]; and after a kind has been measured [`FIRST`] times, a pause
//! of [`SHARE`] times the probe follows. Every kind has its turn, so what the others lose in one probe they have back in theirs. A
//! tenant that was away when the probe began does not wait for it. With one kind of work there is nothing to measure, and with one
//! tenant nothing to share.
//!
//! Holds: probes take no more than their part of any span, and no probe takes longer (`probes_take_their_part_at_most`); a probe goes on
//!        until what it sees is steady (`a_probe_waits_until_buffers_have_drained`).

use super::books::Present;
use super::prices::{Kind, Prices, guess};
use crate::Io;
use units::{Instant, Nanos};

/// The longest probe.
pub(super) const LONGEST: Nanos = Nanos::millis(120);
/// What is compared.
const WINDOW: Nanos = Nanos::millis(12);
/// Windows of the shortest probe.
const SHORTEST: u32 = 3;
/// More than the buffers of SSDs hold.
const BUFFER: u64 = 64 << 20;
/// A buffer was full when the rate has fallen by one in so many.
const FALLEN: u64 = 6;
/// Two windows are equal if they differ by no more than one in so many.
const STEADY: u64 = 25;
/// Probes of a kind in quick succession, before it counts as known.
const FIRST: u32 = 2;
/// Between those.
const FIRST_PAUSE: Nanos = Nanos::millis(30);
/// After those, a pause of so many times the probe.
const SHARE: u64 = 50;

/// What completed in a window: guesses of the kind's IOs, charges of all others'.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    span: u64,
    guessed: u64,
    others: u64,
}

/// A probe that is on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    /// Whose turn it is.
    pub(super) kind: Kind,
    begun: Instant,
    window_begun: Instant,
    windows: u32,
    /// Bytes written, and the most that a window has completed.
    written: u64,
    most: u64,
    now: Window,
    /// The last two that have ended, the latest first.
    past: [Window; 2],
}

/// When to probe, and what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Explorer {
    next: Instant,
    /// When each kind last had its turn.
    turns: [u64; Kind::COUNT],
    turn: u64,
}

impl Explorer {
    pub(super) fn new() -> Explorer {
        Explorer { next: Instant::ZERO, turns: [0; Kind::COUNT], turn: 0 }
    }

    /// Whether to probe now, and what: of the kinds with busy tenants the one that is known least, or was probed longest ago.
    pub(super) fn choose(&mut self, now: Instant, present: &Present, prices: &Prices) -> Option<Probe> {
        if now < self.next || present.kinds().nth(1).is_none() {
            return None;
        }
        let kind = present
            .kinds()
            .min_by_key(|kind| (prices.measured(*kind).min(FIRST), self.turns[kind.index()]))?;
        self.turn += 1;
        self.turns[kind.index()] = self.turn;
        Some(Probe::new(now, kind))
    }

    /// A probe has ended, and its kind was measured so often by now.
    pub(super) fn on_end(&mut self, now: Instant, probe: &Probe, measured: u32) {
        let taken = now.since(probe.begun);
        let pause = if measured < FIRST { FIRST_PAUSE } else { Nanos(taken.0.saturating_mul(SHARE)) };
        self.next = now + pause;
    }
}

impl Probe {
    pub(super) fn new(now: Instant, kind: Kind) -> Probe {
        let window = Window::default();
        Probe {
            kind,
            begun: now,
            window_begun: now,
            windows: 0,
            written: 0,
            most: 0,
            now: window,
            past: [window; 2],
        }
    }

    /// When it is over at the latest.
    pub(super) fn ends(&self) -> Instant {
        self.begun + LONGEST
    }

    /// An IO has ended: of the kind that is probed (`own`), of a tenant that waits for the probe (`is_held`), or another one. Answers whether enough was seen.
    #[inline]
    pub(super) fn on_completion(&mut self, now: Instant, own: bool, is_held: bool, io: &Io) -> bool {
        if is_held {
            // Of those that wait, this one was in the SSD before: until they have ended there is nothing to see.
            (self.window_begun, self.windows, self.now) = (now, 0, Window::default());
            return false;
        }
        if own {
            self.now.guessed += guess(io.kind, io.length);
            self.written += if io.kind.pays_as_write() { io.length.0 } else { 0 };
        } else {
            self.now.others += u64::from(io.mark.0);
        }
        let span = now.since(self.window_begun);
        if span < WINDOW {
            return false;
        }
        self.window_begun = now;
        self.windows += 1;
        self.past = [Window { span: span.0, ..core::mem::take(&mut self.now) }, self.past[0]];
        let [one, other] = self.past.map(|window| window.rate());
        self.most = self.most.max(one);
        let is_full = self.written >= BUFFER || one <= self.most - self.most / FALLEN;
        let is_past_buffers = !self.kind.writes() || is_full;
        self.windows >= SHORTEST && is_past_buffers && one.abs_diff(other) <= one / STEADY
    }

    /// The time that the SSD took, and the guess for it; `None` if too little was seen, or too much of others.
    pub(super) fn result(&self) -> Option<(u64, u64)> {
        let [one, other] = self.past;
        let (span, guessed, others) =
            (one.span + other.span, one.guessed + other.guessed, one.others + other.others);
        // What others had counts as what they were charged. They ask for little; if not, the probe says nothing.
        (self.windows >= SHORTEST && guessed > 0 && others < span / 3).then(|| (span - others, guessed))
    }
}

impl Window {
    fn rate(&self) -> u64 {
        (u128::from(self.guessed) * (1 << 20) / u128::from(self.span.max(1))) as u64
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::{IoId, IoKind, Mark, Priority};
    use units::{Bytes, TenantId};

    fn io(kind: IoKind) -> Io {
        let (tenant, priority, mark) = (TenantId(0), Priority::default(), Mark(1500));
        Io { id: IoId(0), tenant, priority, kind, length: Bytes::kib(4), mark }
    }

    #[test]
    fn probes_take_their_part_at_most() {
        let (mut explorer, mut prices) = (Explorer::new(), Prices::new());
        let mut present = Present::default();
        let kinds: std::vec::Vec<Kind> = Kind::all().step_by(8).collect();
        for kind in &kinds {
            present.busy[kind.index()] = 1;
        }
        let (mut taken, mut early) = (0, 0);
        let mut turns = [0; Kind::COUNT];
        let mut now = Instant::ZERO;
        while now < Instant::ZERO + Nanos::secs(100) {
            now += Nanos::millis(5);
            if let Some(probe) = explorer.choose(now, &present, &prices) {
                turns[probe.kind.index()] += 1;
                prices.measure(probe.kind, 100, 100);
                now = probe.ends();
                explorer.on_end(now, &probe, prices.measured(probe.kind));
                taken += LONGEST.0;
                early += if now < Instant::ZERO + Nanos::secs(4) { LONGEST.0 } else { 0 };
            }
        }
        assert!(early <= kinds.len() as u64 * u64::from(FIRST) * LONGEST.0, "{early} ns in the first 4 s");
        assert!(taken - early <= Nanos::secs(100).0 / SHARE, "{taken} ns of 100 s");
        let turns: std::vec::Vec<u32> = kinds.iter().map(|kind| turns[kind.index()]).collect();
        assert!(turns.iter().max() <= turns.iter().min().map(|least| least + 1).as_ref(), "{turns:?}");
    }

    #[test]
    fn one_kind_of_work_is_never_probed() {
        let mut present = Present::default();
        present.busy[3] = 7;
        assert!(Explorer::new().choose(Instant(1), &present, &Prices::new()).is_none());
    }

    /// Reads that take twice as long until the buffer has drained after 60 ms.
    #[test]
    fn a_probe_waits_until_buffers_have_drained() {
        let mut probe = Probe::new(Instant::ZERO, Kind::default());
        let (mut now, mut steps) = (0, 0u64);
        loop {
            let (from, to) = (2000, 1000);
            now += from - (from - to) * now.min(60_000_000) / 60_000_000;
            steps += 1;
            assert!(now < LONGEST.0, "{steps} reads");
            if probe.on_completion(Instant(now), true, false, &io(IoKind::Read)) {
                break;
            }
        }
        let (nanos, guessed) = probe.result().expect("enough was seen");
        let takes = nanos * guess(IoKind::Read, Bytes::kib(4)) / guessed;
        assert!((1000..1040).contains(&takes), "a read takes 1000 ns by then, not {takes}");
        assert!(now >= 50_000_000, "{now}");
    }

    /// Writes of 4 KiB that take 1 µs until 64 MiB (16 k of them) are in the buffer, then 10 µs.
    #[test]
    fn a_probe_of_writes_waits_until_the_buffer_is_full() {
        let mut probe = Probe::new(Instant::ZERO, Kind::of(1, 0, 4096));
        let (mut now, mut writes) = (0, 0u64);
        loop {
            now += if writes < 4096 * 4 { 1_000 } else { 10_000 };
            writes += 1;
            assert!(now < LONGEST.0, "{writes} writes");
            if probe.on_completion(Instant(now), true, false, &io(IoKind::Write)) {
                break;
            }
        }
        let (nanos, guessed) = probe.result().expect("enough was seen");
        let takes = nanos * guess(IoKind::Write, Bytes::kib(4)) / guessed;
        assert!((9_900..10_100).contains(&takes), "a write takes 10 µs by then, not {takes}");
    }

    #[test]
    fn a_probe_beside_much_else_says_nothing() {
        let mut probe = Probe::new(Instant::ZERO, Kind::default());
        let mut now = 0;
        while now < LONGEST.0 {
            now += 1000;
            probe.on_completion(Instant(now), now % 2000 == 0, false, &io(IoKind::Read));
        }
        assert_eq!(probe.result(), None);
    }
}
