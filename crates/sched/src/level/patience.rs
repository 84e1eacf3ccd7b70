//! Patience: whether the others wait for a tenant that has all its IOs in the SSD and is behind.
//!
//! A tenant with few IOs outstanding has none of them waiting in the switch, so the order in the switch cannot give it
//! its share. The other tenants can wait instead until it is no longer behind: then its IOs have the SSD nearly to
//! themselves, and end sooner. But a few IOs do not keep an SSD busy. On most SSDs that costs little; on one whose
//! reads wait for whole programs it may cost half of the SSD's service.
//!
//! So when much less is served than an SSD serves as a rule (a nanosecond of device time in each), a trial without
//! patience follows. Only *useful* device time counts: service of the others beyond their fair shares is no reason to
//! deny a tenant its share (`books`).
//!
//! ```text
//!   patient ──less than half served──► trial without ──twice as much──► impatient for 8 s, then for 16 s, …
//!      ▲                                  │ no more
//!      └──────────────────────────────────┘ (no further trial for 8 s)
//! ```
//!
//! Holds: it is patient unless a trial serves twice as much (`it_is_patient_unless_that_costs_half`); trials become rare
//!        (`trials_become_rare`), and as long as no tenant has to wait there are none (`there_is_no_trial_while_no_tenant_waits`).

/// Fixed point of rates: a nanosecond of device time in each.
pub(super) const ONE: u64 = 1 << 20;
/// Served in this many periods decides.
const PERIODS: u32 = 16;
/// Periods of a trial; the last half of them counts.
const TRIAL: u32 = 16;
/// Part of the time: if less is served, patience may be the cause.
const LITTLE: [u64; 2] = [1, 2];
/// Factor by which a trial must serve more for patience to be the cause.
const GAIN: u64 = 2;
/// Periods without a trial, or without patience, at first and at most.
const PAUSE: u32 = 320;
const PAUSE_MOST: u32 = PAUSE << 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Patient,
    Trial,
    Impatient,
}

/// Service in some periods, and their length.
#[derive(Clone, Copy, Debug, Default)]
struct Served {
    time: u64,
    span: u64,
}

impl Served {
    fn add(&mut self, time: u64, span: u64) {
        (self.time, self.span) = (self.time + time, self.span + span);
    }

    /// In parts of [`ONE`].
    fn rate(self) -> u64 {
        (u128::from(self.time) * u128::from(ONE) / u128::from(self.span.max(1))) as u64
    }
}

/// Whether to be patient.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    state: State,
    /// Periods in this state that counted.
    periods: u32,
    served: Served,
    /// Service before the trial.
    patient: u64,
    /// Periods until the next trial, or of impatience.
    rest: u32,
    pause: u32,
    /// Whether others waited for such a tenant in this period.
    waited: bool,
}

impl Patience {
    pub(super) fn new() -> Patience {
        Patience {
            state: State::Patient,
            periods: 0,
            served: Served::default(),
            patient: 0,
            rest: 0,
            pause: PAUSE,
            waited: false,
        }
    }

    /// Whether others may be kept waiting. Asked when they might have to.
    #[inline]
    pub(super) fn is_patient(&mut self) -> bool {
        self.waited = true;
        self.state == State::Patient
    }

    /// Forgets what was seen: prices have changed, and with them the counted service.
    pub(super) fn forget(&mut self) {
        *self = Patience { waited: self.waited, ..Patience::new() };
    }

    /// Begins the count again: other work than the mix was in the SSD.
    pub(super) fn restart(&mut self) {
        (self.periods, self.served, self.waited) = (0, Served::default(), false);
    }

    /// Whether a trial without patience runs; it allows more IOs in the SSD, as patience has made them fewer.
    pub(super) fn is_trial(&self) -> bool {
        self.state == State::Trial
    }

    /// Ends a period in which this much useful device time was served. Returns the service per time, in parts of
    /// [`ONE`], if it is impatient from now on.
    pub(super) fn on_period(&mut self, served: u64, span: u64) -> Option<u64> {
        let waited = core::mem::take(&mut self.waited);
        if self.rest > 0 {
            self.rest -= 1;
            if self.rest == 0 && self.state == State::Impatient {
                self.enter(State::Patient, 0);
            }
            return None;
        }
        if !waited {
            self.restart();
            return None;
        }
        self.periods += 1;
        match self.state {
            State::Patient => {
                self.served.add(served, span);
                if self.periods < PERIODS {
                    return None;
                }
                self.patient = self.served.rate();
                let is_little = self.patient * LITTLE[1] < ONE * LITTLE[0];
                self.enter(if is_little { State::Trial } else { State::Patient }, 0);
            }
            State::Trial => {
                if self.periods > TRIAL / 2 {
                    self.served.add(served, span);
                }
                if self.periods < TRIAL {
                    return None;
                }
                let rate = self.served.rate();
                let costs = rate >= self.patient * GAIN;
                self.enter(if costs { State::Impatient } else { State::Patient }, self.pause);
                self.pause = (self.pause * 2).min(PAUSE_MOST);
                return costs.then_some(rate);
            }
            State::Impatient => unreachable!("it rests until it is patient again"),
        }
        None
    }

    fn enter(&mut self, state: State, rest: u32) {
        (self.state, self.rest) = (state, rest);
        self.restart();
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    const SPAN: u64 = 25_000_000;

    /// An SSD that serves these parts of its time, in hundredths, with patience and without; number of patient periods, of this many.
    fn run(patience: &mut Patience, served: [u64; 2], periods: u32) -> [u32; 2] {
        let mut seen = [0; 2];
        for _ in 0..periods {
            let is_patient = patience.is_patient();
            seen[usize::from(!is_patient)] += 1;
            patience.on_period(SPAN / 100 * served[usize::from(!is_patient)], SPAN);
        }
        seen
    }

    #[test]
    fn it_is_patient_unless_that_costs_half() {
        for (served, is_patient) in
            [([90, 190], true), ([40, 75], true), ([40, 85], false), ([30, 65], false)]
        {
            let mut patience = Patience::new();
            run(&mut patience, served, PERIODS + TRIAL);
            assert_eq!(patience.is_patient(), is_patient, "{served:?}");
        }
    }

    #[test]
    fn trials_become_rare() {
        for served in [[40, 60], [30, 65]] {
            let (mut patience, periods) = (Patience::new(), 100_000);
            let seen = run(&mut patience, served, periods);
            let wrong = seen[usize::from(served[1] < served[0] * 2)];
            assert!(wrong < periods / 100, "{wrong} of {periods} periods of the wrong kind: {served:?}");
            assert!(wrong > 0, "it looks again: {served:?}");
        }
    }

    #[test]
    fn a_trial_says_what_is_served_then() {
        let mut patience = Patience::new();
        let rates: std::vec::Vec<u64> = (0..PERIODS + TRIAL)
            .filter_map(|n| {
                patience.is_patient();
                patience.on_period(
                    SPAN * if n < PERIODS { 1 } else { 3 } / 4,
                    SPAN * if n < PERIODS { 2 } else { 1 },
                )
            })
            .collect();
        assert_eq!(rates, [ONE * 3 / 4]);
    }

    proptest! {
        #![proptest_config(crate::random_cases(200))]

        #[test]
        fn there_is_no_trial_while_no_tenant_waits(served in prop::collection::vec(0..1u64 << 40, 0..200)) {
            let mut patience = Patience::new();
            for served in served {
                prop_assert_eq!(patience.on_period(served, SPAN), None);
                prop_assert!(!patience.is_trial());
            }
            prop_assert!(patience.is_patient());
        }
    }
}
