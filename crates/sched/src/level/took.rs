//! Time that an SSD would take for work of which it was seen only with few IOs.
//!
//! With few IOs the time per IO is a latency over their number; with many it is the time that the busiest part of the
//! SSD takes for one. The times between depend on the SSD. Two laws bound them, each from the time with all IOs of a
//! kind and the time with about half of them:
//!
//! ```text
//!   time per IO   most:  the SSD turns from one to the other at once: its fourth power is a line over that of 1 / (IOs in flight)
//!                 least: IOs collide in the parts, however few there are: it is a line over 1 / (IOs in flight)
//! ```
//!
//! The variation of read latencies shows which of them is nearer. Where all IOs take the same time, one waits for
//! another only when there are more than the SSD has parts. Where some take far longer than others (a read behind a
//! program), parts are idle while IOs queue up at others: with times that vary as much as their mean, as in a closed
//! network of queues with exponential times, the time per IO is exactly a line over 1 / (IOs in flight). So the price
//! is as much of the way from the most to the least as the squared coefficient of variation says.
//!
//! Neither law holds where IOs of one tenant wait for each other, as those that it reads in sequence may, and IOs of
//! several tenants would not. The result then looks like an SSD that is fully busy. Only the times of other kinds can
//! show the difference.
//!
//! Holds: an SSD that keeps one of the laws is within the bounds, at their ends (`the_laws_are_the_bounds`), and with as many IOs as all
//!        would have there is nothing to infer (`what_all_do_is_known`).

/// Fixed point of ratios: 32 fractional bits.
const ONE: u128 = 1 << 32;
/// Steps from the most to the least.
pub(super) const EIGHTHS: u64 = 8;

/// The time that the SSD took, ns. Seen with few IOs only, the time with many is known between bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Took {
    /// The least if the IOs seen got in each other's way, as those of a tenant that reads in sequence may, and others
    /// would not.
    pub(super) lowest: u64,
    pub(super) least: u64,
    pub(super) likely: u64,
    pub(super) most: u64,
}

impl Took {
    /// A time that is known exactly.
    pub(super) const fn exactly(nanos: u64) -> Took {
        Took { lowest: nanos, least: nanos, likely: nanos, most: nanos }
    }

    /// A time between bounds, most likely their geometric mean.
    pub(super) fn between(least: u64, most: u64) -> Took {
        let likely = u64::try_from((u128::from(least) * u128::from(most)).isqrt()).unwrap_or(u64::MAX);
        Took { lowest: least, least, likely, most }
    }

    /// The time with as many IOs as all tenants would have, from the time with a part of them (one number over the
    /// other) and the time with fewer; `ios` were in flight in the one case and in the other.
    pub(super) fn with_all(own_nanos: u64, fewer_nanos: u64, ios: [u64; 2], part: [u64; 2]) -> Took {
        let fourth = |ratio: u128| {
            let square = ratio * ratio / ONE;
            square * square / ONE
        };
        let over = |[one, other]: [u64; 2]| u128::from(one) * ONE / u128::from(other.max(1));
        // 1 / (IOs in flight) was this many times as much.
        let ratio = over(ios).clamp(ONE + ONE / 8, 8 * ONE);
        let part = over(part).min(ONE);
        let longer = over([fewer_nanos, own_nanos]).clamp(ONE, ratio);
        let latency = (fourth(longer) - ONE) * ONE / (fourth(ratio) - ONE);
        let power = ONE - latency + latency * fourth(part) / ONE;
        let collisions = (longer - ONE) * ONE / (ratio - ONE);
        let [most, least, lowest] = [fourth_root(power), ONE - collisions + collisions * part / ONE, part]
            .map(|ratio| (u128::from(own_nanos) * ratio / ONE) as u64);
        Took { lowest: lowest.min(least), ..Took::between(least.min(most), most) }
    }

    /// Likely this many [`EIGHTHS`] of the way from the most to the least, in ratios: the bound that is further away comes nearer.
    pub(super) fn leaning(self, eighths: u64) -> Took {
        let ratio = u128::from(self.least) * ONE / u128::from(self.most.max(1));
        let at = |eighths: u64| (u128::from(self.most) * power(ratio, eighths) / ONE) as u64;
        let (least, most) = match eighths.min(EIGHTHS) {
            eighths if eighths * 2 <= EIGHTHS => (at(eighths * 2).clamp(self.least, self.most), self.most),
            eighths => (self.least, at(eighths * 2 - EIGHTHS).clamp(self.least, self.most)),
        };
        Took { lowest: self.lowest, ..Took::between(least, most) }
    }

    /// Whether it is far less certain than another one, and does not contradict it.
    pub(super) fn says_less_than(self, other: Took) -> bool {
        let [own, others] =
            [self, other].map(|took| u128::from(took.most) * ONE / u128::from(took.least.max(1)));
        let contains = self.least <= other.likely && other.likely <= self.most;
        contains && own > others * 2
    }

    /// The mean of this many times in all, of which `new` is the last and the others have this as theirs.
    pub(super) fn averaged(self, new: Took, times: u64) -> Took {
        let average = |old: u64, new: u64| (old * (times - 1) + new) / times;
        Took {
            lowest: average(self.lowest, new.lowest),
            least: average(self.least, new.least),
            likely: average(self.likely, new.likely),
            most: average(self.most, new.most),
        }
    }

    pub(super) fn map(self, change: impl Fn(u64) -> u64) -> Took {
        Took {
            lowest: change(self.lowest),
            least: change(self.least),
            likely: change(self.likely),
            most: change(self.most),
        }
    }
}

/// This many [`EIGHTHS`] of a ratio's power.
fn power(ratio: u128, eighths: u64) -> u128 {
    if eighths >= EIGHTHS {
        return ratio;
    }
    let roots = core::iter::successors(Some(root(ratio)), |power| Some(root(*power)));
    let parts = roots.zip([4, 2, 1]).filter(|(_, part)| eighths & part > 0);
    parts.fold(ONE, |product, (root, _)| product * root / ONE)
}

fn root(ratio: u128) -> u128 {
    (ratio * ONE).isqrt()
}

/// Of a ratio.
fn fourth_root(ratio: u128) -> u128 {
    root(root(ratio))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(a: u64, b: u64) -> bool {
        a.abs_diff(b) <= b / 1000 + 2
    }

    proptest! {
        #![proptest_config(crate::random_cases(200))]

        #[test]
        fn the_laws_are_the_bounds(
            price in 1_000..1u64 << 40,
            latency in 1_000..1u64 << 40,
            own in 1..20u64,
            more in 0..60u64,
            fewer in 30..80u64,
        ) {
            let (all, ios) = (own + more, [100, fewer]);
            let seen = |law: &dyn Fn(f64) -> u64| {
                Took::with_all(law(own as f64), law((own * fewer) as f64 / 100.0), ios, [own, all])
            };
            // IOs of a tenant: one. An SSD that turns at once: time⁴ = price⁴ + (latency / IOs)⁴.
            let turns = |ios: f64| ((price as f64).powi(4) + (latency as f64 / ios).powi(4)).powf(0.25) as u64;
            let took = seen(&turns);
            prop_assert!(near(took.most, turns(all as f64)), "{took:?}, not {}", turns(all as f64));
            prop_assert!(took.least <= took.likely && took.likely <= took.most, "{took:?}");
            // By that of collisions, time = price + latency / IOs.
            let collide = |ios: f64| (price as f64 + latency as f64 / ios) as u64;
            let took = seen(&collide);
            prop_assert!(near(took.least, collide(all as f64)), "{took:?}, not {}", collide(all as f64));
            prop_assert!(took.least <= took.likely && took.likely <= took.most, "{took:?}");
        }

        #[test]
        fn what_all_do_is_known(own_nanos in 0..1u64 << 40, half_nanos in 0..1u64 << 41, tenants in 1..100u64) {
            let took = Took::with_all(own_nanos, half_nanos, [2, 1], [tenants, tenants]);
            prop_assert!(took.most.abs_diff(own_nanos) <= 1 && took.least.abs_diff(own_nanos) <= 1, "{took:?}");
        }
    }

    #[test]
    fn ios_in_each_others_way_say_little_of_others() {
        let took = Took::with_all(1000, 1000, [2, 1], [1, 8]);
        assert_eq!((took.lowest, took.least, took.most), (125, 1000, 1000));
    }

    #[test]
    fn a_price_leans_from_the_most_to_the_least_in_even_ratios() {
        let took = Took { lowest: 50, ..Took::between(100, 25_600) };
        let likely: [u64; 9] = core::array::from_fn(|eighths| took.leaning(eighths as u64).likely);
        for (eighths, likely) in likely.into_iter().enumerate() {
            assert!(near(likely, 25_600 >> eighths), "{eighths} eighths: {likely}");
        }
        assert!(near(took.leaning(2).least, 1600) && took.leaning(2).most == 25_600);
        assert!(near(took.leaning(6).most, 1600) && took.leaning(6).least == 100);
        assert_eq!(took.leaning(3).lowest, 50);
        assert_eq!(Took::exactly(7).leaning(5), Took::exactly(7));
    }

    #[test]
    fn wide_bounds_around_what_is_known_say_less() {
        let known = Took::between(900, 1100);
        assert!(Took::between(180, 1100).says_less_than(known));
        assert!(!Took::between(180, 900).says_less_than(known), "it cannot take so long");
        assert!(!Took::between(700, 1200).says_less_than(known), "it is nearly as sure");
        assert!(!Took::exactly(1000).says_less_than(known));
    }
}
