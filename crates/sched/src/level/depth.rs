//! The limit on the device time in flight, found by trying: as little as the SSD needs to be as busy as it can be.
//!
//! A scheduler cannot change the order of IOs that are in the SSD, and every IO there waits for the others. But an SSD
//! is fast only with many IOs in flight, and it does not report how many it needs. So two limits are compared, one
//! after the other, by the *useful* device time served under each: service of a tenant beyond its fair share does not
//! count (`books`).
//!
//! ```text
//!   limit    ▔▔▔▔▔▔▁▁▁▁▁▁  three quarters of it: serves as much?  → that is the limit now, and down again
//!            ▁▁▁▁▁▁▔▔▔▔▔▔  one and a half times it: serves more? → that is the limit now, and up again
//!            ····██····██  counted: the end of either turn
//! ```
//!
//! The beginning of a turn does not count, because the IOs in flight then were submitted under the other limit. And a
//! write counts when the buffer of the SSD takes it, so after a change the SSD still works off writes that were counted
//! before: for longer after a change to a lower limit, because a buffer drains more slowly than it fills.
//!
//! The first way down is taken in halves, until one serves less: while too much is in flight, a tenant with few small IOs has all of
//! them in the SSD and none in the switch, where its share would be decided.
//!
//! The switch can give a tenant its share only if some of the tenant's IOs wait in the switch. While a busy tenant has all of them in the
//! SSD, a lower limit may therefore serve less: down to six sevenths of the best.
//!
//! Many small losses would add up. So a lower limit must also serve nearly as much as the best that was seen lately.
//! When other tenants become busy, another best may be right, so the earlier one counts only until some comparisons in
//! a row were not disturbed. It is not forgotten at once: where tenants seem busy by turns, that happens several times
//! a second, and each time the limit would sink by as much as noise hides. Nor do such changes cut a comparison short:
//! otherwise only the shorter ones would come to an end.
//!
//! The limit is never below the price of the most expensive IO served lately: one IO is always let in, so a lower limit
//! would only keep cheaper ones out.
//!
//! Trying a limit may cost much of the service meanwhile. After two comparisons that found nothing better, the search
//! rests, for longer the more they cost.
//!
//! Holds: the limit stays within its bounds (`the_limit_stays_within_its_bounds`), and finds the knee of an SSD that
//!        has one (`the_knee_is_found_from_above_and_from_below`), whatever a buffer hides
//!        (`what_an_ssd_does_right_after_a_change_does_not_count`); bringing a tenant's IOs into the switch costs a
//!        bounded part of the service (`a_tenant_beyond_reach_costs_a_seventh_at_most`), and so does trying
//!        (`trying_costs_little`); neither noise nor tenants that become busy again and again add up to a loss
//!        (`that_others_are_busy_all_the_time_costs_little`) or end the search (`the_search_goes_on_whoever_is_busy`);
//!        it is never below an IO that is served (`an_io_fits_the_limit`).

use core::cmp::Ordering;
use units::Bytes;

/// The limit before anything is known: as much as most SSDs need. With more, a tenant with few IOs would have all of
/// them in the SSD at first, and no share.
const INITIAL: Bytes = Bytes(2_000_000);
const LEAST: Bytes = Bytes(50_000);
const MOST: Bytes = Bytes(64_000_000);
/// Periods at the beginning of a turn that do not count: as long as most buffers take to fill.
const SETTLES: u32 = 4;
/// The same for the turn of a lower limit: as long as most buffers take to drain, which is slower. Meanwhile reads are
/// slow, too.
const DRAINS: u32 = 10;
/// Periods that count.
const COUNTS: u32 = 2;
/// Least number of periods without a comparison after one that found nothing better in either direction.
const REST: u32 = 24;
/// Number of periods of rest for each period's worth of service that the comparisons cost: a loss of 2 % of the time.
const REST_PER_LOST: u64 = 50;
/// The longest rest, in periods: about five seconds.
const REST_MOST: u32 = 200;
/// The part of the service, one in this number, by which a lower limit may serve less.
const LOSS: u64 = 50;
/// The same against the best seen lately.
const LOSS_IN_ALL: u64 = 25;
/// The same while a busy tenant has all its IOs in the SSD.
const LOSS_FOR_REACH: u64 = 7;
/// The part of the service, one in this number, by which a higher limit must serve more.
const GAIN: u64 = 40;
/// The part, one in this number, that the best loses with every comparison.
const FORGET: u64 = 100;
/// Number of comparisons in a row with the same busy tenants that end the bound from before their change.
const UNDISTURBED: u32 = 4;
/// Least number of periods for which the most expensive IO is remembered; twice as many is the most. Where little is
/// served, one IO may take several periods.
const DEAREST: u32 = 40;
/// Fixed point: parts of a whole.
const ONE: u64 = 1 << 16;

/// The search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Depth {
    limit: Bytes,
    up: bool,
    /// On the first way down.
    coarse: bool,
    /// Whether the last comparison, in the other direction, found nothing either.
    settled: bool,
    rest: u32,
    /// Cost of the last comparisons that found nothing, in periods of full service, times [`ONE`].
    lost: u64,
    /// Whether it is the turn of the other limit.
    is_others_turn: bool,
    /// Periods of this turn.
    periods: u32,
    /// Device time served and time passed under the limit, and under the other one.
    served: [u64; 2],
    span: [u64; 2],
    /// Periods under either limit in which a busy tenant had all its IOs in the SSD.
    beyond_reach: [u32; 2],
    best: u64,
    /// The best seen while other tenants were busy; zero if that is long ago.
    best_before: u64,
    /// Comparisons in a row with the same busy tenants, and whether these have changed since the last one.
    undisturbed: u32,
    is_disturbed: bool,
    /// The limit was lowered to bring IOs into the switch; the best was served with a higher one.
    reaches: bool,
    /// The price of the most expensive IO served lately and before that, and the number of periods of the former.
    dearest: [Bytes; 2],
    dearest_for: u32,
}

impl Depth {
    pub(super) fn new() -> Depth {
        Depth {
            limit: INITIAL,
            up: false,
            coarse: true,
            settled: false,
            rest: 0,
            lost: 0,
            is_others_turn: false,
            periods: 0,
            served: [0; 2],
            span: [0; 2],
            beyond_reach: [0; 2],
            best: 0,
            best_before: 0,
            undisturbed: 0,
            is_disturbed: false,
            reaches: false,
            dearest: [Bytes::ZERO; 2],
            dearest_for: 0,
        }
    }

    /// The limit for the period that begins.
    pub(super) fn limit(&self) -> Bytes {
        let limit = if self.rest == 0 && self.is_others_turn { self.other() } else { self.limit };
        limit.max(self.least())
    }

    /// The least limit: an IO of the tenant with the most expensive ones fits it.
    fn least(&self) -> Bytes {
        let [lately, before] = self.dearest;
        LEAST.max(lately).max(before).min(MOST)
    }

    /// Notes the charge of the most expensive tenant's IOs in a period that has ended.
    pub(super) fn note_dearest(&mut self, dearest: Bytes) {
        self.dearest[0] = self.dearest[0].max(dearest);
        self.dearest_for += 1;
        if self.dearest_for == DEAREST {
            (self.dearest, self.dearest_for) = ([Bytes::ZERO, self.dearest[0]], 0);
        }
    }

    /// Whether the limit itself is tried now, not the other one.
    pub(super) fn is_own_turn(&self) -> bool {
        self.rest > 0 || !self.is_others_turn
    }

    /// Periods at the beginning of the other limit's turn that do not count.
    fn settles(&self) -> u32 {
        if self.up { SETTLES } else { DRAINS }
    }

    fn other(&self) -> Bytes {
        let other = match (self.up, self.coarse) {
            (true, _) => self.limit.0 * 3 / 2,
            (false, true) => self.limit.0 / 2,
            (false, false) => self.limit.0 * 3 / 4,
        };
        Bytes(other).clamp(self.least(), MOST)
    }

    /// Drops comparisons with different circumstances.
    pub(super) fn restart(&mut self) {
        (self.is_others_turn, self.periods) = (false, 0);
        (self.served, self.span, self.beyond_reach) = ([0; 2], [0; 2], [0; 2]);
    }

    /// Forgets all that was seen: prices have changed, so device time is counted in other units now.
    pub(super) fn reprice(&mut self) {
        self.restart();
        (self.best, self.best_before, self.undisturbed, self.is_disturbed) = (0, 0, 0, false);
        (self.rest, self.lost, self.settled, self.up, self.coarse) = (0, 0, false, false, true);
        (self.reaches, self.dearest) = (false, [Bytes::ZERO; 2]);
    }

    /// Notes that other tenants are busy: another limit may be right, and another best.
    pub(super) fn forget(&mut self) {
        // Where they change all the time, a comparison would never end.
        if !core::mem::replace(&mut self.is_disturbed, true) {
            self.restart();
        }
        (self.best, self.best_before) = (0, self.best.max(self.best_before));
        (self.rest, self.lost, self.settled) = (0, 0, false);
    }

    /// Goes on from a limit with this service per time, in parts of 2²⁰.
    pub(super) fn begin_at(&mut self, limit: Bytes, best: u64) {
        self.reprice();
        (self.limit, self.best, self.coarse) = (limit, best, false);
    }

    /// Ends a period: `served` is the useful device time that was served in `span`; `is_beyond_reach`: a busy tenant
    /// had all its IOs in the SSD. Returns whether the limit is higher or lower from now on.
    pub(super) fn on_period(&mut self, served: u64, span: u64, is_beyond_reach: bool) -> Option<Ordering> {
        if self.rest > 0 {
            self.rest -= 1;
            return None;
        }
        self.periods += 1;
        let settles = if self.is_others_turn { self.settles() } else { SETTLES };
        if self.periods <= settles {
            return None;
        }
        let which = usize::from(self.is_others_turn);
        self.served[which] += served;
        self.span[which] += span;
        self.beyond_reach[which] += u32::from(is_beyond_reach);
        if self.periods < settles + COUNTS {
            return None;
        }
        self.periods = 0;
        if !core::mem::replace(&mut self.is_others_turn, true) {
            return None;
        }
        let before = self.limit;
        self.decide();
        self.restart();
        Some(self.limit.cmp(&before)).filter(|direction| direction.is_ne())
    }

    fn decide(&mut self) {
        let [own, other] = [0, 1].map(|which| {
            let part = u128::from(self.served[which]) << 20;
            (part / u128::from(self.span[which].max(1))) as u64
        });
        let [is_beyond_reach, other_is] = self.beyond_reach.map(|periods| periods * 2 > COUNTS);
        // Otherwise the bound on the loss would sink with the limit.
        let part = if is_beyond_reach { u64::MAX } else { FORGET };
        self.best = (self.best - self.best / part).max(own);
        self.best_before -= self.best_before / part;
        self.undisturbed = if core::mem::take(&mut self.is_disturbed) { 0 } else { self.undisturbed + 1 };
        if self.undisturbed >= UNDISTURBED {
            self.best_before = 0;
        }
        let best = self.best.max(self.best_before);
        let enough = |loss: u64| best - best / loss;
        let better = match (self.up, is_beyond_reach) {
            // A tenant is not to get out of reach for that.
            (true, _) => other >= own + own / GAIN && (is_beyond_reach || !other_is),
            (false, true) => other >= enough(LOSS_FOR_REACH),
            (false, false) => other >= own - own / LOSS && other >= enough(LOSS_IN_ALL),
        };
        // Too low already, whatever a lower one does.
        let least = enough(if is_beyond_reach || self.reaches { LOSS_FOR_REACH } else { LOSS_IN_ALL });
        let starves = !self.up && own < least;
        self.reaches |= is_beyond_reach && better;
        if better && !starves && self.other() != self.limit {
            self.limit = self.other();
            (self.settled, self.lost) = (false, 0);
            return;
        }
        let periods = u64::from(self.settles() + COUNTS);
        self.lost += periods * (ONE - part_of(other, own));
        self.up = !self.up;
        self.coarse = false;
        if core::mem::replace(&mut self.settled, !starves) {
            let rest =
                u32::try_from(core::mem::take(&mut self.lost) * REST_PER_LOST / ONE).unwrap_or(REST_MOST);
            (self.rest, self.settled) = (rest.clamp(REST, REST_MOST), false);
        }
    }
}

/// Ratio of `part` to `whole`, at most all of it, in parts of [`ONE`].
fn part_of(part: u64, whole: u64) -> u64 {
    if part >= whole { ONE } else { (u128::from(part) * u128::from(ONE) / u128::from(whole)) as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Serves in proportion to the limit up to the knee, and no more beyond it.
    fn run(depth: &mut Depth, knee: u64, periods: u32) {
        for _ in 0..periods {
            let served = 1_000_000 * depth.limit().0.min(knee) / knee;
            depth.on_period(served, 1_000_000, false);
        }
    }

    #[test]
    fn the_knee_is_found_from_above_and_from_below() {
        let mut depth = Depth::new();
        run(&mut depth, 400_000, 400);
        assert!((390_000..=600_000).contains(&depth.limit.0), "{depth:?}");
        run(&mut depth, 3_000_000, 1000);
        assert!((2_900_000..=4_600_000).contains(&depth.limit.0), "{depth:?}");
    }

    /// A buffer hides the effect of a change for some periods, while it drains or fills.
    #[test]
    fn what_an_ssd_does_right_after_a_change_does_not_count() {
        let (mut depth, mut limits, mut since) = (Depth::new(), [Depth::new().limit(); 2], 4);
        for _ in 0..400 {
            since += 1;
            let limit = depth.limit();
            if limit != limits[1] {
                (limits, since) = ([limits[1], limit], 0);
            }
            let hidden = match since < 4 {
                true if limits[1] < limits[0] => 50,
                true => 200,
                false => 100,
            };
            depth.on_period(limit.0.min(400_000) * hidden / 100, 1_000_000, false);
        }
        assert!((390_000..=600_000).contains(&depth.limit.0), "{depth:?}");
    }

    #[test]
    fn a_tenant_beyond_reach_costs_a_seventh_at_most() {
        // The SSD serves less under a lower limit, and the tenant has all its IOs in the SSD down to a limit of 1 or 3 ms.
        for (reach, least) in [(3_000_000, 2_000_000), (1_000_000, 3_400_000)] {
            let mut depth = Depth::new();
            for _ in 0..2000 {
                let limit = depth.limit().0;
                let served = 1_000_000 * limit.min(4_000_000) / 4_000_000;
                depth.on_period(served, 1_000_000, limit > reach);
            }
            assert!(depth.limit.0 >= least.min(reach), "{depth:?}");
            let served = depth.limit.0.min(4_000_000) as f64 / 4e6;
            assert!(served >= 6.0 / 7.0 - 0.01 || depth.limit.0 <= reach, "{depth:?}");
        }
    }

    #[test]
    fn trying_costs_little() {
        // Below its knee this SSD serves less than in proportion.
        let mut depth = Depth::new();
        let served = |depth: &mut Depth| {
            let limit = depth.limit().0.min(900_000);
            let served = limit * limit / 810_000;
            depth.on_period(served, 1_000_000, false);
            served
        };
        (0..400).for_each(|_| _ = served(&mut depth));
        let all: u64 = (0..4000).map(|_| served(&mut depth)).sum();
        assert!(all >= 4000 * 1_000_000 / 100 * 97, "{all} of 4,000,000,000");
    }

    /// Runs with a few per cent of noise on the service, while the busy tenants change every `every` periods. Returns
    /// the part of full service at the end.
    fn disturbed(every: u32, knee: u64, noise: u64, limit: Bytes) -> f64 {
        let (mut depth, mut random) = (Depth { limit, ..Depth::new() }, 1u64);
        let mut served_late = 0;
        for period in 0..8000u32 {
            if period % every == every - 1 {
                depth.forget();
            }
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let served = 1_000_000 * depth.limit().0.min(knee) / knee;
            let noisy = served * (1000 - noise + (random >> 33) % (2 * noise + 1)) / 1000;
            served_late += if period >= 4000 { served } else { 0 };
            depth.on_period(noisy, 1_000_000, false);
        }
        served_late as f64 / 4e9
    }

    #[test]
    fn that_others_are_busy_all_the_time_costs_little() {
        for every in [16, 18, 20, 24, 32, 50, 100] {
            for noise in [0, 30, 60, 100] {
                let part = disturbed(every, 1_000_000, noise, INITIAL);
                assert!(part >= 0.85, "every {every} periods, {noise} ‰ of noise: {part}");
            }
        }
    }

    #[test]
    fn the_search_goes_on_whoever_is_busy() {
        for every in [4, 12, 16, 17, 18, 40] {
            let part = disturbed(every, 3_000_000, 20, LEAST);
            assert!(part >= 0.85, "every {every} periods: {part}");
        }
    }

    #[test]
    fn an_io_fits_the_limit() {
        let mut depth = Depth::new();
        let dearest = |depth: &mut Depth, of: &dyn Fn(u32) -> u64| {
            for period in 0..2000 {
                depth.note_dearest(Bytes(of(period)));
                // More in flight serves no more.
                depth.on_period(1_000_000, 1_000_000, false);
            }
            depth.limit()
        };
        assert_eq!(dearest(&mut depth, &|_| 100), LEAST);
        let seldom = |period| if period % DEAREST == 0 { 700_000 } else { 100 };
        assert_eq!(dearest(&mut depth, &seldom), Bytes(700_000));
        assert!(dearest(&mut depth, &|_| 100).0 <= LEAST.0 * 3 / 2, "it is served no more");
        assert_eq!(dearest(&mut depth, &|_| u64::MAX), MOST);
    }

    proptest! {
        #![proptest_config(crate::random_cases(200))]

        #[test]
        fn the_limit_stays_within_its_bounds(
            periods in prop::collection::vec((0..1u64 << 40, 0..1u64 << 40), 0..300),
        ) {
            let mut depth = Depth::new();
            for (served, span) in periods {
                depth.on_period(served, span, served % 3 == 0);
                prop_assert!((LEAST..=MOST).contains(&depth.limit()));
            }
        }
    }
}
