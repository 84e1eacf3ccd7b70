//! The rules of a fence: from what a back-end says of its reservations to the next command.
//!
//! A target that takes a namespace over is registered there with a key that carries the generation of the takeover, holds a Write
//! Exclusive - Registrants Only reservation, and is the only registrant. So the back-end refuses the writes of everybody else.
//!
//! ```text
//!   report ─► register, or replace the own key ─► acquire ─► preempt and abort each other key ─► settle ─► replace: complete ─► done
//!      ▲                 │                           │                │                                           │
//!      └─────────────────┴───────── after each command, also one without an answer ───────────────────────────────┘
//! ```
//!
//! A preempt-and-abort is answered when the IOs of the other host have ended. If that answer is lost, nobody can ask for it again, as
//! the other one is not registered any more. So the key also says whether the fence is complete: until it is, whoever goes on has to
//! wait until no IO can be under way any more.
//!
//! Holds: from every state and with every answer lost, the way ends within a bound, and at the end nobody else can write; no older
//!        generation wins against a newer one (`tests`).

use host::{HostId, Registered, Reservation, ReservationReport};

/// The number of a takeover: a later one has a larger one.
pub(crate) type Generation = u64;

/// The largest generation: exact in JSON everywhere.
pub(crate) const GENERATION_MAX: Generation = (1 << 53) - 1;

/// The key of a generation.
pub(super) fn key(generation: Generation, is_complete: bool) -> u64 {
    generation << 1 | u64::from(is_complete)
}

/// The generation of a key.
pub(super) fn generation(key: u64) -> Generation {
    key >> 1
}

fn is_complete(key: u64) -> bool {
    key & 1 != 0
}

/// The next step of a takeover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A command with the current and the other key; then another report.
    Change(Reservation, u64, u64),
    /// Wait until no IO of a former holder can be under way any more; then another report.
    Settle,
    /// This host holds the namespace, alone.
    Done,
}

/// Why a namespace cannot be taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The generation is not newer than one that is registered.
    NotNewer {
        /// The generation that is registered.
        registered: Generation,
        /// Whether that is this target's own.
        is_own: bool,
    },
    /// Something else, for people.
    Unable(String),
}

/// A takeover under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Takeover {
    own: HostId,
    generation: Generation,
    /// Whether the incomplete key of this host is from this takeover.
    has_registered: bool,
    /// Whether IOs of a former holder may be under way.
    is_unsettled: bool,
}

impl Takeover {
    pub(super) fn new(own: HostId, generation: Generation) -> Takeover {
        Takeover { own, generation, has_registered: false, is_unsettled: false }
    }

    pub(super) fn generation(&self) -> Generation {
        self.generation
    }

    /// Whether the takeover is possible, as far as a report says.
    pub(super) fn look(&self, report: &ReservationReport) -> Result<(), Refused> {
        if let Some(kind) = report.kind.filter(|kind| *kind != Reservation::TYPE) {
            let what =
                format!("it has a reservation of another type, {kind:?}, of something that is no gimbal");
            return Err(Refused::Unable(what));
        }
        for &Registered { host, key, .. } in &report.registered {
            let (registered, is_own) = (generation(key), host == self.own);
            // The own generation may come again: the takeover is repeated.
            if registered > self.generation || registered == self.generation && !is_own {
                return Err(Refused::NotNewer { registered, is_own });
            }
        }
        Ok(())
    }

    /// The next step after a report.
    pub(super) fn next(&mut self, report: &ReservationReport) -> Result<Step, Refused> {
        self.look(report)?;
        let (pending, complete) = (key(self.generation, false), key(self.generation, true));
        let is_of_this =
            |each: &Registered| each.host == self.own && each.key == pending && self.has_registered;
        if report.registered.iter().any(|each| !is_complete(each.key) && !is_of_this(each)) {
            self.is_unsettled = true;
        }
        let own = report.registered.iter().find(|each| each.host == self.own);
        let mut others = report.registered.iter().filter(|each| each.host != self.own);
        // The holder first: the reservation comes with its key.
        let other = others.clone().find(|each| each.holds).or_else(|| others.next());
        let Some(own) = own else {
            self.has_registered = true;
            return Ok(Step::Change(Reservation::Register, 0, pending));
        };
        if own.key != pending && (own.key != complete || other.is_some()) {
            self.has_registered = true;
            return Ok(Step::Change(Reservation::Replace, own.key, pending));
        }
        if !report.persists {
            let what =
                "its reservations do not outlast a power loss; a gimbal target needs state_dir for that";
            return Err(Refused::Unable(what.to_owned()));
        }
        if report.kind.is_none() {
            return Ok(Step::Change(Reservation::Acquire, own.key, 0));
        }
        if let Some(other) = other {
            return Ok(Step::Change(Reservation::PreemptAndAbort, own.key, other.key));
        }
        Ok(match (own.key == complete, self.is_unsettled) {
            (true, _) => Step::Done,
            (false, true) => Step::Settle,
            (false, false) => Step::Change(Reservation::Replace, pending, complete),
        })
    }

    /// The answer to a command was lost: it may have been done.
    pub(super) fn on_lost(&mut self, change: Reservation) {
        self.is_unsettled |= change == Reservation::PreemptAndAbort;
    }

    /// The time to settle is over.
    pub(super) fn on_settled(&mut self) {
        self.is_unsettled = false;
    }
}

/// Whether `own` holds the namespace by this report, with a key of that generation.
pub(super) fn is_held(report: &ReservationReport, own: HostId, held: Generation) -> bool {
    let is_own = |each: &Registered| each.host == own && each.holds && generation(each.key) == held;
    report.kind == Some(Reservation::TYPE) && report.registered.iter().any(is_own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvme::spec::reservation::ReservationType;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{RngCore, SeedableRng};

    const OWN: HostId = HostId([1; 16]);
    const OTHERS: [HostId; 3] = [HostId([2; 16]), HostId([3; 16]), HostId([4; 16])];
    /// More commands than any takeover needs without lost answers.
    const STEPS: usize = 16;

    /// A namespace with reservations of that one type, by the letter of the specification.
    #[derive(Clone, Debug, Default)]
    struct BackEnd {
        registered: Vec<(HostId, u64)>,
        holder: Option<HostId>,
        persists: bool,
        /// Former registrants whose IOs nobody has waited for.
        under_way: Vec<HostId>,
    }

    impl BackEnd {
        fn report(&self) -> ReservationReport {
            let entry =
                |&(host, key): &(HostId, u64)| Registered { host, key, holds: self.holder == Some(host) };
            ReservationReport {
                kind: self.holder.map(|_| Reservation::TYPE),
                persists: self.persists,
                registered: self.registered.iter().map(entry).collect(),
            }
        }

        /// Whether the command succeeds. Whoever is preempted may have IOs under way; `is_answered`: until the answer they have ended.
        fn change(
            &mut self,
            who: HostId,
            change: Reservation,
            current: u64,
            other: u64,
            is_answered: bool,
        ) -> bool {
            let own = self.registered.iter().position(|(host, _)| *host == who);
            if change == Reservation::Register {
                self.persists = true;
                let is_same = own.is_none_or(|own| self.registered[own].1 == other);
                if own.is_none() {
                    self.registered.push((who, other));
                }
                return is_same;
            }
            let Some(own) = own.filter(|own| self.registered[*own].1 == current) else { return false };
            match change {
                Reservation::Replace => {
                    self.persists = true;
                    self.registered[own].1 = other;
                    true
                }
                Reservation::Acquire => {
                    let is_free = self.holder.is_none_or(|holder| holder == who);
                    self.holder = self.holder.or(Some(who));
                    is_free
                }
                Reservation::PreemptAndAbort => {
                    let gone: Vec<HostId> = self
                        .registered
                        .iter()
                        .filter(|each| each.0 != who && each.1 == other)
                        .map(|each| each.0)
                        .collect();
                    self.registered.retain(|(host, _)| !gone.contains(host));
                    if self.holder.is_some_and(|holder| gone.contains(&holder)) {
                        self.holder = Some(who);
                    }
                    let is_right = !gone.is_empty();
                    if !is_answered {
                        self.under_way.extend(gone);
                    }
                    is_right
                }
                Reservation::Register => unreachable!("above"),
            }
        }
    }

    /// Goes the way of a takeover; each answer is lost with a chance of one in `lost`, and the target crashes with one in `crashes`.
    fn take(
        back_end: &mut BackEnd,
        own: HostId,
        generation: Generation,
        dice: &mut Xoshiro256PlusPlus,
        (lost, crashes): (u64, u64),
    ) -> Result<bool, Refused> {
        let chance = |dice: &mut Xoshiro256PlusPlus, of: u64| of > 0 && dice.next_u64().is_multiple_of(of);
        let mut takeover = Takeover::new(own, generation);
        for _ in 0..if lost == 0 { STEPS } else { 1000 } {
            if chance(dice, crashes) {
                return Ok(false);
            }
            match takeover.next(&back_end.report())? {
                Step::Done => return Ok(true),
                Step::Settle => {
                    back_end.under_way.clear();
                    takeover.on_settled();
                }
                Step::Change(change, current, other) => {
                    let is_lost = chance(dice, lost);
                    if is_lost && chance(dice, 2) {
                        takeover.on_lost(change);
                        continue;
                    }
                    let is_right = back_end.change(own, change, current, other, !is_lost);
                    assert!(is_right, "{change:?} is refused: {back_end:?}");
                    if is_lost {
                        takeover.on_lost(change);
                    }
                }
            }
        }
        panic!("no end: {back_end:?}");
    }

    #[test]
    fn the_last_takeover_holds_alone_whatever_was_lost_before() {
        for seed in 0..2000 {
            let mut dice = Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut back_end = BackEnd::default();
            let mut newest = 0;
            for _ in 0..12 {
                let own = OTHERS[(dice.next_u64() % 3) as usize];
                let generation = 1 + dice.next_u64() % 20;
                let before = back_end.clone();
                match take(&mut back_end, own, generation, &mut dice, (3, 6)) {
                    Ok(is_done) => {
                        let own_before = before.registered.iter().find(|each| each.0 == own);
                        let is_repeat =
                            own_before.is_some_and(|each| super::generation(each.1) == generation);
                        if back_end.registered != before.registered {
                            assert!(generation > newest || is_repeat, "seed {seed}: {before:?}");
                            newest = newest.max(generation);
                        }
                        if is_done {
                            assert_eq!(back_end.registered, [(own, key(generation, true))], "seed {seed}");
                            assert_eq!(back_end.holder, Some(own), "seed {seed}");
                            assert!(
                                back_end.under_way.is_empty(),
                                "seed {seed}: IOs are under way: {back_end:?}"
                            );
                            assert!(is_held(&back_end.report(), own, generation));
                        }
                    }
                    Err(Refused::NotNewer { registered, .. }) => {
                        assert!(registered >= generation, "seed {seed}");
                        assert_eq!(
                            back_end.registered, before.registered,
                            "seed {seed}: a refusal changes nothing"
                        );
                    }
                    Err(other) => panic!("seed {seed}: {other:?}"),
                }
            }
            // In the end it is possible, without losses in few steps.
            assert_eq!(take(&mut back_end, OWN, 21, &mut dice, (0, 0)), Ok(true));
            assert_eq!(back_end.registered, [(OWN, key(21, true))]);
            assert!(back_end.under_way.is_empty(), "seed {seed}");
        }
    }

    #[test]
    fn a_takeover_of_a_free_namespace_waits_for_nobody() {
        let mut back_end = BackEnd::default();
        let mut takeover = Takeover::new(OWN, 7);
        let mut steps = Vec::new();
        loop {
            let step = takeover.next(&back_end.report()).expect("possible");
            steps.push(step);
            let Step::Change(change, current, other) = step else { break };
            assert!(back_end.change(OWN, change, current, other, true));
        }
        use Reservation::{Acquire, Register, Replace};
        let change = Step::Change;
        assert_eq!(
            steps,
            [change(Register, 0, 14), change(Acquire, 14, 0), change(Replace, 14, 15), Step::Done]
        );
        // The same target again, a generation later: it was complete, so nobody is waited for.
        let mut later = Takeover::new(OWN, 8);
        assert_eq!(later.next(&back_end.report()), Ok(change(Replace, 15, 16)));
        assert!(back_end.change(OWN, Replace, 15, 16, true));
        assert_eq!(later.next(&back_end.report()), Ok(change(Replace, 16, 17)));
        // A process that finds an incomplete key of its own waits.
        assert_eq!(Takeover::new(OWN, 8).next(&back_end.report()), Ok(Step::Settle));
        // So does another target that finds it.
        let mut other = Takeover::new(OTHERS[0], 9);
        loop {
            match other.next(&back_end.report()).expect("possible") {
                Step::Change(change, current, key) => {
                    assert!(back_end.change(OTHERS[0], change, current, key, true))
                }
                step => break assert_eq!(step, Step::Settle),
            }
        }
    }

    #[test]
    fn reservations_of_others_are_left_alone() {
        let mut report = BackEnd { persists: true, ..BackEnd::default() }.report();
        report.kind = Some(ReservationType::ExclusiveAccess);
        assert!(matches!(Takeover::new(OWN, 7).next(&report), Err(Refused::Unable(_))));
        let volatile = BackEnd { registered: vec![(OWN, 14)], ..BackEnd::default() };
        assert!(matches!(Takeover::new(OWN, 7).next(&volatile.report()), Err(Refused::Unable(_))));
        let newer = BackEnd { registered: vec![(OTHERS[0], key(7, false))], ..BackEnd::default() };
        let refused = Refused::NotNewer { registered: 7, is_own: false };
        assert_eq!(Takeover::new(OWN, 7).look(&newer.report()), Err(refused));
        let newer = BackEnd { registered: vec![(OWN, key(8, true))], ..BackEnd::default() };
        let refused = Refused::NotNewer { registered: 8, is_own: true };
        assert_eq!(Takeover::new(OWN, 7).look(&newer.report()), Err(refused));
    }
}
