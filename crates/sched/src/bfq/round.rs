//! B-WF2Q+: which queue is served next, by virtual time.
//!
//! ```text
//!   start  = the end of its last service; virtual time, if it was idle and that is later         finish = start + budget / weight
//!   of the queues with start ≤ virtual time, the one with the least finish goes; if there is none, virtual time jumps to the least start
//!   virtual time moves on by service / all weights
//! ```
//!
//! All weights are those of the queues that wait, of the one that is served, and of those that are idle but were served ahead of virtual time.

use alloc::vec::Vec;
use units::{Bytes, TenantId};

/// Bits below a byte per weight.
const FRACTION_BITS: u32 = 32;

/// A point in virtual time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Virtual(i128);

impl Virtual {
    fn after(self, service: Bytes, weight: u64) -> Virtual {
        Virtual(self.0 + ((i128::from(service.0) << FRACTION_BITS) / i128::from(weight)))
    }
}

/// One queue's place.
#[derive(Clone, Copy, Debug)]
struct Place {
    weight: u32,
    start: Virtual,
    finish: Virtual,
    /// Whether it waits or is served.
    is_active: bool,
}

/// All queues.
#[derive(Clone, Debug, Default)]
pub(super) struct Round {
    places: Vec<Place>,
    time: Virtual,
}

const NOWHERE: Place = Place { weight: 1, start: Virtual(0), finish: Virtual(0), is_active: false };

impl Round {
    fn place(&mut self, id: TenantId) -> &mut Place {
        if self.places.len() <= id.index() {
            self.places.resize(id.index() + 1, NOWHERE);
        }
        &mut self.places[id.index()]
    }

    pub(super) fn set_weight(&mut self, id: TenantId, weight: u32) {
        self.place(id).weight = weight;
    }

    pub(super) fn weight(&self, id: TenantId) -> u32 {
        self.places.get(id.index()).map_or(1, |place| place.weight)
    }

    pub(super) fn forget(&mut self, id: TenantId) {
        *self.place(id) = NOWHERE;
    }

    pub(super) fn is_active(&self, id: TenantId) -> bool {
        self.places.get(id.index()).is_some_and(|place| place.is_active)
    }

    /// Lets a queue wait from now on, for as much service as its budget.
    pub(super) fn enter(&mut self, id: TenantId, budget: Bytes) {
        let time = self.time;
        let place = self.place(id);
        place.is_active = true;
        place.start = place.finish.max(time);
        place.finish = place.start.after(budget, place.weight.into());
    }

    /// Ends the wait of a queue, which was served by this much since it entered.
    pub(super) fn leave(&mut self, id: TenantId, served: Bytes) {
        let place = self.place(id);
        place.is_active = false;
        place.finish = place.start.after(served, place.weight.into());
    }

    /// Lets a queue wait on after it was served by this much. Whatever virtual time is, it has not been idle.
    pub(super) fn again(&mut self, id: TenantId, served: Bytes, budget: Bytes) {
        let place = self.place(id);
        place.start = place.start.after(served, place.weight.into());
        place.finish = place.start.after(budget, place.weight.into());
    }

    /// Advances virtual time after a queue was served.
    pub(super) fn on_service(&mut self, service: Bytes) {
        let time = self.time;
        let counts = |place: &&Place| place.is_active || place.finish > time;
        let weights: u64 = self.places.iter().filter(counts).map(|place| u64::from(place.weight)).sum();
        self.time = time.after(service, weights.max(1));
    }

    /// The queue to serve next.
    pub(super) fn choose(&mut self) -> Option<TenantId> {
        let active = |(_, place): &(usize, &Place)| place.is_active;
        let least = self.places.iter().enumerate().filter(active).map(|(_, place)| place.start).min()?;
        self.time = self.time.max(least);
        let time = self.time;
        let eligible = self.places.iter().enumerate().filter(active).filter(|(_, place)| place.start <= time);
        eligible.min_by_key(|(_, place)| place.finish).map(|(index, _)| TenantId(index as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: TenantId = TenantId(0);
    const B: TenantId = TenantId(1);
    const KIB: Bytes = Bytes::kib(1);

    fn serve(round: &mut Round, id: TenantId) {
        round.on_service(KIB);
        round.again(id, KIB, KIB);
    }

    #[test]
    fn turns_are_as_the_weights() {
        let mut round = Round::default();
        round.set_weight(B, 3);
        round.enter(A, KIB);
        round.enter(B, KIB);
        let mut turns = [0; 2];
        for n in 1..=400 {
            let id = round.choose().expect("both wait");
            turns[id.index()] += 1;
            serve(&mut round, id);
            // Worst-case fair: no tenant is more than a turn from its share, at any time.
            assert!((turns[0] * 4i32 - n).abs() <= 4, "{turns:?}");
        }
        assert_eq!(turns, [100, 300]);
    }

    #[test]
    fn who_was_idle_gets_nothing_for_it() {
        let mut round = Round::default();
        round.enter(A, KIB);
        for _ in 0..100 {
            assert_eq!(round.choose(), Some(A));
            serve(&mut round, A);
        }
        round.enter(B, KIB);
        let turns: Vec<TenantId> = (0..10)
            .map(|_| {
                let id = round.choose().expect("both wait");
                serve(&mut round, id);
                id
            })
            .collect();
        let of_b = turns.iter().filter(|id| **id == B).count();
        assert!((5..=6).contains(&of_b), "{turns:?}");
    }
}
