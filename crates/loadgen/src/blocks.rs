//! The sizes of IOs: one size, one per direction (`bs`), or several by weight (`bssplit`).
//!
//! All sizes of a job are multiples of its *unit*, their greatest common divisor. The region of a job is counted in units.
//!
//! Holds: over many IOs the sizes come as often as their weights say (`sizes_come_as_often_as_they_should`).

use crate::direction::{DIRECTIONS, Direction, per_direction};
use rand::Rng;
use std::fmt;
use units::Bytes;

/// The percentages of a split add up to this.
const WHOLE: u64 = 100;
/// The most sizes of a split, as in fio.
const SIZES_MAX: usize = 64;
/// The most sizes of a range.
const RANGE_MAX: u64 = 8192;

/// The sizes of a job's IOs, by direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    per: [Sizes; DIRECTIONS],
}

/// Sizes of one direction with their weights; never empty, and some weight is not 0.
type Sizes = Vec<(Bytes, u64)>;

impl From<Bytes> for BlockSizes {
    fn from(size: Bytes) -> BlockSizes {
        BlockSizes { per: std::array::from_fn(|_| vec![(size, 1)]) }
    }
}

impl BlockSizes {
    /// Reads `bs`: `4k`, or `4k,64k` for reads and for the rest. A missing value is `default`.
    pub fn parse(text: &str, default: Bytes) -> Result<BlockSizes, String> {
        let sizes = per_direction(text, |part| part.parse::<Bytes>().map_err(|why| why.to_string()))?;
        Ok(BlockSizes { per: sizes.map(|size| vec![(size.unwrap_or(default), 1)]) })
    }

    /// Reads `bssplit`: `4k/10:64k/50:32k/40`; sizes without a percentage share the rest.
    pub fn parse_split(text: &str, default: Bytes) -> Result<BlockSizes, String> {
        let splits = per_direction(text, split)?;
        Ok(BlockSizes { per: splits.map(|split| split.unwrap_or_else(|| vec![(default, 1)])) })
    }

    /// Reads `bsrange`: `4k-64k`; every multiple of the smallest size up to the largest comes equally often.
    pub fn parse_range(text: &str, default: Bytes) -> Result<BlockSizes, String> {
        let ranges = per_direction(text, range)?;
        Ok(BlockSizes { per: ranges.map(|range| range.unwrap_or_else(|| vec![(default, 1)])) })
    }

    /// Ignores the sizes of directions that are not used.
    pub fn only(mut self, used: &[Direction]) -> BlockSizes {
        let kept = self.per[used[0].index()].clone();
        for direction in Direction::ALL.into_iter().filter(|direction| !used.contains(direction)) {
            self.per[direction.index()].clone_from(&kept);
        }
        self
    }

    /// All sizes.
    pub fn all(&self) -> impl Iterator<Item = Bytes> {
        self.per.iter().flatten().map(|(size, _)| *size)
    }

    /// The greatest common divisor of all sizes.
    pub fn unit(&self) -> Bytes {
        Bytes(self.all().fold(0, |unit, size| greatest_common_divisor(unit, size.get())))
    }

    /// The smallest size.
    pub fn smallest(&self) -> Bytes {
        self.all().min().expect("there is a size for each direction")
    }

    /// The largest size.
    pub fn largest(&self) -> Bytes {
        self.all().max().expect("there is a size for each direction")
    }

    /// The largest size that moves data.
    pub fn largest_transfer(&self, used: &[Direction]) -> Option<Bytes> {
        let moves = used.iter().filter(|direction| **direction != Direction::Trim);
        moves.flat_map(|direction| &self.per[direction.index()]).map(|(size, _)| *size).max()
    }

    /// The size of the next IO.
    pub fn pick(&self, direction: Direction, random: &mut impl Rng) -> Bytes {
        let sizes = &self.per[direction.index()];
        if let [(only, _)] = sizes[..] {
            return only;
        }
        if sizes.iter().all(|(_, weight)| *weight == 1) {
            return sizes[random.random_range(0..sizes.len())].0;
        }
        let mut point = random.random_range(0..sizes.iter().map(|(_, weight)| weight).sum::<u64>());
        for (size, weight) in sizes {
            if point < *weight {
                return *size;
            }
            point -= weight;
        }
        unreachable!("the point lies below the sum of the weights {sizes:?}")
    }
}

impl fmt::Display for BlockSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (smallest, largest) = (self.smallest(), self.largest());
        if smallest == largest { write!(f, "{smallest}") } else { write!(f, "{smallest} to {largest}") }
    }
}

fn range(text: &str) -> Result<Sizes, String> {
    let advice =
        || format!("write the smallest and the largest size, such as 4k-64k, with {RANGE_MAX} steps at most");
    let (least, most) = text.split_once('-').ok_or_else(advice)?;
    let size = |text: &str| text.parse::<Bytes>().map_err(|why| why.to_string());
    let (least, most) = (size(least)?.get(), size(most)?.get());
    match most.checked_div(least) {
        Some(steps @ 1..=RANGE_MAX) => Ok((1..=steps).map(|step| (Bytes(step * least), 1)).collect()),
        _ => Err(advice()),
    }
}

fn split(text: &str) -> Result<Sizes, String> {
    let mut sizes = Vec::new();
    for part in text.split(':') {
        let (size, percent) = part.split_once('/').unwrap_or((part, ""));
        let size = size.parse::<Bytes>().map_err(|why| why.to_string())?;
        let percent = match percent.trim() {
            "" => None,
            percent => {
                Some(percent.parse::<u64>().map_err(|_| format!("`{percent}` is not a whole percentage"))?)
            }
        };
        sizes.push((size, percent));
    }
    if sizes.len() > SIZES_MAX {
        return Err(format!("{SIZES_MAX} sizes at most"));
    }
    let given: u64 = sizes.iter().filter_map(|(_, percent)| *percent).fold(0, u64::saturating_add);
    let open = sizes.iter().filter(|(_, percent)| percent.is_none()).count() as u64;
    if given > WHOLE || (open == 0 && given != WHOLE) {
        return Err(format!("the percentages add up to {given}, not to {WHOLE}"));
    }
    // Percentages are multiplied by the number of sizes that share the rest, so that each of those has a whole weight.
    let weight = |percent: Option<u64>| percent.map_or(WHOLE - given, |percent| percent * open.max(1));
    let weighed: Sizes = sizes
        .into_iter()
        .map(|(size, percent)| (size, weight(percent)))
        .filter(|(_, weight)| *weight > 0)
        .collect();
    Ok(weighed)
}

/// The greatest common divisor of two sizes; one that is 0 has no say.
pub(crate) fn common_divisor(a: Bytes, b: Bytes) -> Bytes {
    Bytes(greatest_common_divisor(a.get(), b.get()))
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    const DEFAULT: Bytes = Bytes::kib(4);

    #[test]
    fn sizes_come_as_often_as_they_should() {
        let sizes = BlockSizes::parse_split("4k/10:64k/50:32k/,8k", DEFAULT).expect("a split");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut counts = [0u32; 3];
        for _ in 0..100_000 {
            match sizes.pick(Direction::Read, &mut random).get() >> 10 {
                4 => counts[0] += 1,
                64 => counts[1] += 1,
                32 => counts[2] += 1,
                other => panic!("{other} KiB is not in the split"),
            }
            assert_eq!(sizes.pick(Direction::Write, &mut random), Bytes::kib(8));
        }
        for (count, expected) in counts.into_iter().zip([10_000, 50_000, 40_000u32]) {
            assert!(count.abs_diff(expected) < 1000, "{counts:?}");
        }
    }

    #[test]
    fn a_range_has_all_multiples_of_its_least_size() {
        let sizes = BlockSizes::parse_range("1k-4k,8k-8k", DEFAULT).expect("a range");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut counts = [0u32; 4];
        for _ in 0..10_000 {
            counts[(sizes.pick(Direction::Read, &mut random).get() >> 10) as usize - 1] += 1;
            assert_eq!(sizes.pick(Direction::Write, &mut random), Bytes::kib(8));
        }
        assert!(counts.iter().all(|count| count.abs_diff(2500) < 300), "{counts:?}");
        for wrong in ["4k", "8k-4k", "0-4k", "1-1g"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_left_is_shared_evenly() {
        let sizes = split("4k/50:1k/:32k").expect("fio's own example");
        assert_eq!(sizes, [(Bytes::kib(4), 100), (Bytes::kib(1), 50), (Bytes::kib(32), 50)]);
    }

    #[test]
    fn an_invalid_split_says_why() {
        let why = |text| split(text).expect_err("it is wrong");
        assert!(why("4k/60:8k/50").contains("add up to 110"));
        assert!(why("4k/60:8k/30").contains("add up to 90"));
        assert!(
            why("4k/some").contains("`some`") && why("q/10").contains("`q/10`") || why("q/10").contains('q')
        );
    }

    #[test]
    fn the_unit_divides_every_size_that_is_used() {
        let sizes = BlockSizes::parse("4k,6k,512", DEFAULT).expect("sizes");
        assert_eq!(sizes.unit(), Bytes(512));
        let used = sizes.only(&[Direction::Read, Direction::Write]);
        assert_eq!(
            (used.unit(), used.smallest(), used.largest()),
            (Bytes::kib(2), Bytes::kib(4), Bytes::kib(6))
        );
    }
}
