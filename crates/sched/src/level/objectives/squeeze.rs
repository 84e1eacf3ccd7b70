//! Limits of tenants without an objective, for the sake of those that have one: as much as the objectives allow.
//!
//! Three knobs, each of which is turned down when too many IOs are late, and up again when few are:
//!
//! ```text
//!   limit     device time of others in the SSD at once: a read waits for the IOs there before it
//!   writers   device time per time for tenants that write: a read waits for dies that program, whatever is in flight
//!   readers   the same for those that only read: when no more than one IO at a time is let in, and that is too much
//! ```
//!
//! It is not known beforehand which one helps: where programs are suspended for reads it is the limit, and elsewhere
//! the writers. The limit goes first, because it costs least, down to a quarter of the bound; then the writers and the
//! limit in turns, and the readers last. On the way up one knob is turned at a time, of those that hold a tenant back;
//! if IOs are late after that, this knob caused it, so it goes back at once and rests for longer and longer ([`REST`]),
//! while the other ones go on.
//!
//! Holds: no knob is turned below its floor ([`LEAST`]), and a knob that is not turned down limits nothing
//!        (`every_knob_stops_at_its_floor`); a knob that does not matter ends where it limits nothing
//!        (`a_knob_that_does_not_matter_is_let_go`).

use units::{Instant, Nanos};

/// A knob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Knob {
    Limit,
    Writers,
    Readers,
}

impl Knob {
    pub(super) const ALL: [Knob; 3] = [Knob::Limit, Knob::Writers, Knob::Readers];

    /// Time that a change takes to have its effect.
    fn settles(self) -> Nanos {
        match self {
            Knob::Writers => SETTLES,
            Knob::Limit | Knob::Readers => Nanos::millis(50),
        }
    }
}

/// Least that others are left: 10 µs of device time in the SSD at once, a 32nd of the SSD's time for writers, an eighth for
/// readers.
pub(super) const LEAST: [u64; 3] = [10_000, WHOLE / 32, WHOLE / 8];
/// Time that a change takes to have its effect where data was written: the buffer drains for as long as that.
pub(super) const SETTLES: Nanos = Nanos::millis(250);
/// All of the SSD's time.
pub(super) const WHOLE: u64 = 1 << 10;
/// Upper bound for a part of the SSD's time that limits anything; above it nothing is limited, because writes count as
/// served as soon as the buffer takes them.
const MOST: u64 = 2 * WHOLE;
/// Rest of a knob that was turned up too far; it doubles each further time, up to the longest.
const REST: Nanos = Nanos::secs(1);
const REST_MOST: Nanos = Nanos::secs(64);

/// Recent use of the SSD by tenants without an objective.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    /// The limit without objectives, device time.
    pub(super) limit: u64,
    /// Device time for which writers and readers use the SSD, in parts of [`WHOLE`].
    pub(super) time: [u64; 2],
    /// The strictest bound of an objective.
    pub(super) bound: u64,
}

#[derive(Clone, Copy, Debug)]
struct Setting {
    /// `None`: it limits nothing.
    value: Option<u64>,
    /// Rest after it is turned up too far the next time.
    rest: Nanos,
    /// The instant before which it is not turned up.
    not_before: Instant,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Squeeze {
    settings: [Setting; 3],
    /// The knob that was turned up last, and from where: nothing was late since.
    raised: Option<(Knob, u64)>,
    /// The knob that was turned down last.
    lowered: Option<Knob>,
}

impl Squeeze {
    /// Limits nothing.
    pub(super) fn new() -> Squeeze {
        let setting = Setting { value: None, rest: REST, not_before: Instant::ZERO };
        Squeeze { settings: [setting; 3], raised: None, lowered: None }
    }

    pub(super) fn value(&self, knob: Knob) -> Option<u64> {
        self.settings[knob as usize].value
    }

    /// Limits as much as it may.
    pub(super) fn lower_fully(&mut self) {
        for (setting, least) in self.settings.iter_mut().zip(LEAST) {
            *setting = Setting { value: Some(least), rest: REST, not_before: Instant::ZERO };
        }
        self.raised = None;
    }

    /// Whether nothing is limited.
    pub(super) fn is_open(&self) -> bool {
        self.settings.iter().all(|setting| setting.value.is_none())
    }

    /// Whether a knob was turned up last, and nothing was late since.
    pub(super) fn has_raised(&self) -> bool {
        self.raised.is_some()
    }

    /// Turns a knob down because too many IOs are late (`very`: far too many). Returns the time that this takes to have
    /// its effect; `None` if all knobs that matter are as low as they may be.
    pub(super) fn tighten(&mut self, now: Instant, seen: &Use, very: bool) -> Option<Nanos> {
        if let Some((knob, before)) = self.raised.take() {
            let is_first_time = self.settings[knob as usize].rest == REST;
            if knob != Knob::Limit && is_first_time && self.may_wait_for_the_limit(seen) {
                // While this knob held others back, the limit did not. It may be what lets this one go further.
                let limit = &mut self.settings[Knob::Limit as usize];
                let lower = limit.value.unwrap_or(u64::MAX).min(seen.limit) / 2;
                *limit = Setting { value: Some(lower.max(LEAST[0])), rest: REST, not_before: now };
            }
            let setting = &mut self.settings[knob as usize];
            setting.value = Some(before);
            setting.not_before = now + setting.rest;
            setting.rest = Nanos(setting.rest.0 * 2).min(REST_MOST);
            return Some(SETTLES);
        }
        let knob = self.suspect(seen)?;
        let setting = &mut self.settings[knob as usize];
        let from = match knob {
            Knob::Limit => seen.limit,
            Knob::Writers => seen.time[0].max(1),
            Knob::Readers => seen.time[1].max(1),
        };
        let from = setting.value.map_or(from, |value| value.min(from.max(LEAST[knob as usize])));
        let to = if very { from / 2 } else { from / 4 * 3 };
        setting.value = Some(to.max(LEAST[knob as usize]));
        // A value that was too much before may not be now.
        setting.rest = REST;
        self.lowered = Some(knob);
        Some(knob.settles())
    }

    fn is_low(&self, knob: Knob) -> bool {
        self.value(knob).is_some_and(|value| value <= LEAST[knob as usize])
    }

    /// Whether an IO may be late because of the device time in the SSD at once: that makes it wait for about this time,
    /// or a few times as long, where a part of the SSD has more of it than others.
    fn may_wait_for_the_limit(&self, seen: &Use) -> bool {
        let limit = self.value(Knob::Limit).unwrap_or(u64::MAX).min(seen.limit);
        !self.is_low(Knob::Limit) && limit > seen.bound / 4
    }

    /// The knob to turn down.
    fn suspect(&self, seen: &Use) -> Option<Knob> {
        if self.may_wait_for_the_limit(seen) {
            return Some(Knob::Limit);
        }
        let may = |knob: &Knob| {
            let is_used = match knob {
                Knob::Limit => true,
                Knob::Writers => seen.time[0] > 0,
                Knob::Readers => seen.time[1] > 0,
            };
            is_used && !self.is_low(*knob)
        };
        let turns = match self.lowered {
            Some(Knob::Writers) => [Knob::Limit, Knob::Writers, Knob::Readers],
            _ => [Knob::Writers, Knob::Limit, Knob::Readers],
        };
        turns.into_iter().find(may)
    }

    /// Turns up a knob that `hold`s others back, because few IOs are late. Returns the time that this takes to have its
    /// effect; `None` if there is no such knob, or not yet.
    pub(super) fn loosen(&mut self, now: Instant, seen: &Use, hold: [bool; 3]) -> Option<Nanos> {
        if let Some((knob, _)) = self.raised.take() {
            self.settings[knob as usize].rest = REST;
        }
        let may = |knob: &Knob| {
            let setting = &self.settings[*knob as usize];
            setting.value.is_some() && setting.not_before <= now && hold[*knob as usize]
        };
        let knob =
            Knob::ALL.into_iter().filter(may).min_by_key(|knob| self.settings[*knob as usize].not_before)?;
        let setting = &mut self.settings[knob as usize];
        let before = setting.value.expect("it is set");
        let to = if setting.rest > REST { before / 4 * 5 } else { before / 2 * 3 };
        let most = if knob == Knob::Limit { seen.limit } else { MOST };
        // The next knob has its turn.
        setting.not_before = now;
        setting.value = Some(to.max(before + 1)).filter(|to| *to < most);
        self.raised = Some((knob, before));
        Some(knob.settles())
    }

    /// Forgets the last change: others do something else now, so its effect cannot be known.
    pub(super) fn forget_raise(&mut self) {
        self.raised = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: Use = Use { limit: 2_000_000, time: [WHOLE / 2; 2], bound: 1_000_000 };

    #[test]
    fn every_knob_stops_at_its_floor() {
        let mut squeeze = Squeeze::new();
        assert!(squeeze.is_open());
        let mut steps = 0;
        while squeeze.tighten(Instant::ZERO, &SEEN, true).is_some() {
            steps += 1;
            assert!(steps < 50, "{squeeze:?}");
        }
        assert_eq!(Knob::ALL.map(|knob| squeeze.value(knob)), LEAST.map(Some), "after {steps} steps");
        assert!(steps <= 16, "{steps} steps of at most 250 ms are too slow");
        let nobody_writes = Use { time: [0, WHOLE], ..SEEN };
        let mut squeeze = Squeeze::new();
        while squeeze.tighten(Instant::ZERO, &nobody_writes, true).is_some() {}
        assert_eq!(squeeze.value(Knob::Writers), None);
    }

    /// IOs are late while writers have more than a quarter of the SSD's time; the limit does not matter.
    #[test]
    fn a_knob_that_does_not_matter_is_let_go() {
        let mut squeeze = Squeeze::new();
        let mut now = Instant::ZERO;
        let mut late = 0;
        for _ in 0..2000 {
            now += Nanos::millis(300);
            let is_late = squeeze.value(Knob::Writers).unwrap_or(WHOLE / 2) > WHOLE / 4;
            late += u32::from(is_late);
            match is_late {
                true => _ = squeeze.tighten(now, &SEEN, false),
                false => _ = squeeze.loosen(now, &SEEN, [true; 3]),
            }
        }
        let writers = squeeze.value(Knob::Writers).expect("they matter");
        assert_eq!(squeeze.value(Knob::Limit), None);
        assert!((WHOLE / 6..=WHOLE / 4).contains(&writers), "{writers}");
        assert!(late <= 60, "{late} of 2000 steps were too far");
    }

    #[test]
    fn a_knob_that_holds_nobody_back_stays_as_it_is() {
        let mut squeeze = Squeeze::new();
        squeeze.lower_fully();
        assert_eq!(squeeze.loosen(Instant::ZERO, &SEEN, [false; 3]), None);
        assert!(squeeze.loosen(Instant::ZERO, &SEEN, [false, true, false]).is_some());
        assert_eq!(squeeze.value(Knob::Limit), Some(LEAST[0]));
        assert_eq!(squeeze.value(Knob::Writers), Some(LEAST[1] / 2 * 3));
    }
}
