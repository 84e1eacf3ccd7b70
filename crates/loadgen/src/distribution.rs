//! Where random IOs go: to all places equally, or to some places more often than to others.
//!
//! With `zipf:θ` the k-th most popular place is used in proportion to 1/k^θ. `pareto:h` (0 < h < 1) is as in fio: h = 0.2 means that
//! 80 % of the IOs go to 20 % of the places. A fixed bijection spreads popular places over the region, as in real data, so each rank
//! keeps its exact probability. All connections of a job have the same popular places.
//!
//! Holds: zipf's ranks are as frequent as the formula says (`zipf_follows_its_formula`), and as in fio (`fio_tests`).

use rand::Rng;
use rand_distr::{Distribution as _, Zipf};

/// The value of `random_distribution`.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Distribution {
    /// All places equally often.
    #[default]
    Even,
    /// By rank; the exponent.
    Zipf(f64),
    /// By fio's power law; h.
    Pareto(f64),
    /// By parts of the region, in order.
    Zoned(Vec<Zone>),
}

/// A part of the region and its share of the IOs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Percentage of the IOs.
    pub ios: u8,
    /// Percentage of the region.
    pub space: u8,
}

/// Reads `50/5:30/15:20/80`. Zones without a percentage of the region share the rest of it.
fn zones(text: &str) -> Result<Vec<Zone>, String> {
    let number = |text: &str| {
        text.parse::<u8>()
            .ok()
            .filter(|percent| *percent <= 100)
            .ok_or_else(|| format!("`{text}` is not a percentage"))
    };
    let parts: Vec<(u8, Option<u8>)> = text
        .split(':')
        .map(|part| {
            let (ios, space) = part.split_once('/').unwrap_or((part, ""));
            let space = if space.is_empty() { None } else { Some(number(space)?) };
            Ok((number(ios)?, space))
        })
        .collect::<Result<_, String>>()?;
    let given: u32 = parts.iter().filter_map(|(_, space)| *space).map(u32::from).sum();
    let open = parts.iter().filter(|(_, space)| space.is_none()).count() as u32;
    let ios: u32 = parts.iter().map(|(ios, _)| u32::from(*ios)).sum();
    if ios != 100 || given > 100 || (open == 0 && given != 100) {
        return Err(format!("the IOs add up to {ios} %, the zones to {given} %; both have to be 100"));
    }
    let rest = (100 - given).checked_div(open).unwrap_or(0) as u8;
    Ok(parts.into_iter().map(|(ios, space)| Zone { ios, space: space.unwrap_or(rest) }).collect())
}

impl Distribution {
    /// Parses fio's syntax.
    pub fn parse(text: &str) -> Result<Distribution, String> {
        let (kind, value) = text.split_once(':').unwrap_or((text, ""));
        let number = || value.parse::<f64>().map_err(|_| format!("`{value}` is not a number"));
        match kind {
            "random" if value.is_empty() => Ok(Distribution::Even),
            "zipf" => match number()? {
                theta if theta > 0.0 && theta.is_finite() => Ok(Distribution::Zipf(theta)),
                _ => Err("zipf's exponent must be more than 0".to_owned()),
            },
            "pareto" => match number()? {
                h if h > 0.0 && h < 1.0 => Ok(Distribution::Pareto(h)),
                _ => Err("pareto's h must be between 0 and 1".to_owned()),
            },
            "zoned" => zones(value).map(Distribution::Zoned),
            _ => Err("write random, zipf:THETA, pareto:H or zoned:IOS/SPACE:…".to_owned()),
        }
    }
}

/// Picks places of a region.
#[derive(Debug)]
pub(crate) struct Places {
    places: u64,
    ranks: Ranks,
    /// Rank r lies at place `r × factor + first`, modulo the places.
    factor: u64,
    first: u64,
}

#[derive(Debug)]
enum Ranks {
    Even,
    Zipf(Zipf<f64>),
    Pareto {
        power: f64,
    },
    /// The first place of each zone, its number of places, and its share of the IOs in percent.
    Zoned(Vec<(u64, u64, u64)>),
}

impl Places {
    /// A region of `places` places; `spread` shifts the popular ones.
    pub(crate) fn new(distribution: &Distribution, places: u64, spread: u64) -> Places {
        let ranks = match distribution {
            Distribution::Even => Ranks::Even,
            Distribution::Zoned(zones) => Ranks::Zoned(zone_places(zones, places)),
            Distribution::Zipf(theta) => {
                Ranks::Zipf(Zipf::new(places as f64, *theta).expect("the exponent was checked"))
            }
            Distribution::Pareto(h) => Ranks::Pareto { power: h.ln() / (1.0 - h).ln() },
        };
        // Near the golden section, so that neighbouring ranks are far apart, and coprime, so that no two ranks share a place.
        let golden = (places as f64 * 0.618_033_988_749_895) as u64;
        let factor = (golden.max(1)..)
            .find(|factor| is_coprime(*factor, places))
            .expect("1 + places is, at the latest");
        Places { places, ranks, factor, first: spread % places }
    }

    /// The next place.
    pub(crate) fn pick(&self, random: &mut impl Rng) -> u64 {
        let rank = match &self.ranks {
            Ranks::Even => return random.random_range(0..self.places),
            Ranks::Zoned(zones) => {
                let mut point = random.random_range(0..zones.iter().map(|(.., ios)| ios).sum::<u64>());
                let zone = zones.iter().find(|(.., ios)| match point.checked_sub(*ios) {
                    None => true,
                    Some(rest) => {
                        point = rest;
                        false
                    }
                });
                let (first, places, _) = zone.expect("the point lies below the sum");
                return first + random.random_range(0..*places);
            }
            Ranks::Zipf(zipf) => zipf.sample(random) as u64 - 1,
            Ranks::Pareto { power } => {
                ((self.places - 1) as f64 * random.random::<f64>().powf(*power)) as u64
            }
        };
        self.place_of(rank.min(self.places - 1))
    }

    fn place_of(&self, rank: u64) -> u64 {
        let place = u128::from(rank) * u128::from(self.factor) + u128::from(self.first);
        (place % u128::from(self.places)) as u64
    }
}

/// The zones that have a place.
fn zone_places(zones: &[Zone], places: u64) -> Vec<(u64, u64, u64)> {
    let mut space = 0;
    let at = |percent: u64| (u128::from(places) * u128::from(percent) / 100) as u64;
    let of_zone = |zone: &Zone| {
        let first = at(space);
        space += u64::from(zone.space);
        (first, at(space.min(100)) - first, u64::from(zone.ios))
    };
    let found: Vec<_> =
        zones.iter().map(of_zone).filter(|(_, places, ios)| *places > 0 && *ios > 0).collect();
    // A region too small for its zones.
    if found.is_empty() { vec![(0, places, 100)] } else { found }
}

fn is_coprime(a: u64, b: u64) -> bool {
    if b == 0 { a == 1 } else { is_coprime(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    fn counts(distribution: Distribution, places: u64, picks: u32) -> Vec<u32> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let source = Places::new(&distribution, places, 12_345);
        let mut counts = vec![0; places as usize];
        (0..picks).for_each(|_| counts[source.pick(&mut random) as usize] += 1);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    }

    #[test]
    fn zipf_follows_its_formula() {
        let (places, picks) = (1000, 1_000_000);
        for theta in [0.5, 0.99, 1.0, 1.2] {
            let counts = counts(Distribution::Zipf(theta), places, picks);
            let weights: Vec<f64> = (1..=places).map(|rank| (rank as f64).powf(-theta)).collect();
            let sum: f64 = weights.iter().sum();
            for rank in [0, 1, 9, 99] {
                let expected = weights[rank] / sum * f64::from(picks);
                let found = f64::from(counts[rank]);
                assert!(
                    (found / expected - 1.0).abs() < 0.15,
                    "θ = {theta}, rank {rank}: {found}, not {expected}"
                );
            }
        }
    }

    #[test]
    fn pareto_gives_most_to_few() {
        let counts = counts(Distribution::Pareto(0.2), 1000, 100_000);
        let fifth: u32 = counts[..200].iter().sum();
        assert!((78_000..82_000).contains(&fifth), "a fifth of the places had {fifth} of 100000");
    }

    #[test]
    fn zones_get_their_shares() {
        let distribution = Distribution::parse("zoned:50/5:30/15:20/").expect("zones");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
        let source = Places::new(&distribution, 1000, 7);
        let mut counts = [0u32; 3];
        for _ in 0..100_000 {
            let place = source.pick(&mut random);
            counts[usize::from(place >= 50) + usize::from(place >= 200)] += 1;
            assert!(place < 1000);
        }
        for (count, expected) in counts.into_iter().zip([50_000u32, 30_000, 20_000]) {
            assert!(count.abs_diff(expected) < 1000, "{counts:?}");
        }
    }

    #[test]
    fn every_place_has_one_rank() {
        for places in [1, 2, 3, 10, 64, 997, 1000] {
            let source = Places::new(&Distribution::Zipf(1.1), places, 99);
            let mut all: Vec<u64> = (0..places).map(|rank| source.place_of(rank)).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..places), "{places}");
        }
    }

    #[test]
    fn unknown_distributions_are_refused() {
        for text in [
            "zipf",
            "zipf:0",
            "zipf:x",
            "pareto:1",
            "normal:10",
            "zoned:50/5:40/95",
            "zoned:50/5:50/90",
            "random:1",
        ] {
            assert!(Distribution::parse(text).is_err(), "{text}");
        }
        assert_eq!(Distribution::parse("zipf:1.2"), Ok(Distribution::Zipf(1.2)));
    }
}
