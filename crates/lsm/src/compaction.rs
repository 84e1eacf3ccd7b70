//! The choice of the tables to compact next, and the cutting of the result into tables.
//!
//! The level that is fullest relative to its limit comes first. From L0 all tables are taken; from another level, the
//! table that overlaps the least of the next level. Then tables of the same level are added, as long as no more of the
//! next level overlap.

use crate::options::Options;
use crate::table::{Table, range};

/// Tables to be compacted: their positions in a level and in the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inputs {
    pub(crate) level: usize,
    pub(crate) upper: Vec<usize>,
    pub(crate) lower: Vec<usize>,
}

/// The next compaction, if one is due.
pub(crate) fn pick(levels: &[Vec<Table>], options: &Options) -> Option<Inputs> {
    let score = |level: usize| -> f64 {
        let bytes = bytes(&levels[level]) as f64;
        if level == 0 {
            (levels[0].len() as f64 / options.l0_trigger as f64).max(bytes / options.level_base as f64)
        } else {
            bytes / options.level(level) as f64
        }
    };
    // RocksDB does not compact L0 by its bytes alone while it has fewer tables than the trigger.
    let is_due = |level: &usize| {
        if *level == 0 { levels[0].len() >= options.l0_trigger } else { score(*level) >= 1.0 }
    };
    let level = (0..levels.len() - 1).filter(is_due).max_by(|a, b| score(*a).total_cmp(&score(*b)))?;
    let upper = if level == 0 { (0..levels[0].len()).collect() } else { vec![least_met(levels, level)] };
    Some(widen(levels, level, upper, options))
}

fn bytes<'a>(tables: impl IntoIterator<Item = &'a Table>) -> u64 {
    tables.into_iter().map(|table| table.bytes).sum()
}

/// Positions of the tables that overlap a range of keys.
fn met(tables: &[Table], by: (u64, u64)) -> Vec<usize> {
    (0..tables.len()).filter(|at| tables[*at].meets(by)).collect()
}

fn select<'a>(tables: &'a [Table], positions: &'a [usize]) -> impl Iterator<Item = &'a Table> {
    positions.iter().map(|at| &tables[*at])
}

/// The table that overlaps the fewest bytes of the next level, relative to its own bytes.
fn least_met(levels: &[Vec<Table>], level: usize) -> usize {
    let ratio = |table: &Table| {
        let next = &levels[level + 1];
        let below = bytes(select(next, &met(next, (table.first(), table.last()))));
        below as f64 / table.bytes as f64
    };
    let ratios = levels[level].iter().map(ratio).enumerate();
    ratios.min_by(|(_, a), (_, b)| a.total_cmp(b)).expect("a level that is due has tables").0
}

fn widen(levels: &[Vec<Table>], level: usize, upper: Vec<usize>, options: &Options) -> Inputs {
    let (this, next) = (&levels[level], &levels[level + 1]);
    let of = |positions: &[usize]| range(select(this, positions)).expect("there are inputs");
    let lower = met(next, of(&upper));
    if level == 0 || lower.is_empty() {
        return Inputs { level, upper, lower };
    }
    let both = range(select(this, &upper).chain(select(next, &lower))).expect("there are inputs");
    let wider = met(this, both);
    let size = bytes(select(this, &wider)) + bytes(select(next, &lower));
    if wider.len() > upper.len() && size < options.compaction_max() && met(next, of(&wider)) == lower {
        return Inputs { level, upper: wider, lower };
    }
    Inputs { level, upper, lower }
}

/// Cuts keys in order into tables. A table ends at its size, or earlier at the end of a table of the level below; the
/// more of those it has passed, the fuller it must be.
pub(crate) fn cut(keys: &[u64], below: &[Table], options: &Options) -> Vec<Vec<u64>> {
    let mut tables: Vec<Vec<u64>> = Vec::new();
    let mut open = Vec::new();
    let mut passed = 0;
    let mut next = 0;
    for &key in keys {
        let mut is_past = false;
        while below.get(next).is_some_and(|table| table.last() < key) {
            next += 1;
            is_past = true;
        }
        let size = options.table(open.len() as u64);
        let enough = options.target_file * (50 + (passed * 5u64).min(40)) / 100;
        if !open.is_empty() && (size >= options.target_file || (is_past && size >= enough)) {
            tables.push(std::mem::take(&mut open));
            passed = 0;
        }
        passed += u64::from(is_past);
        open.push(key);
    }
    tables.extend((!open.is_empty()).then_some(open));
    tables
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::TableId;

    const OPTIONS: Options = Options {
        key: 16,
        value: 100,
        write_buffer: 1 << 20,
        l0_trigger: 4,
        level_base: 100_000,
        target_file: 50_000,
        block: 4096,
        cache: 0,
        filter_bits: 10,
    };

    fn table(id: u64, keys: impl IntoIterator<Item = u64>) -> Table {
        Table::new(TableId(id), keys.into_iter().collect(), &OPTIONS)
    }

    #[test]
    fn nothing_is_compacted_until_a_level_is_full() {
        let mut levels = vec![(0..3).map(|id| table(id, 0..10)).collect(), Vec::new(), Vec::new()];
        assert_eq!(pick(&levels, &OPTIONS), None);
        levels[0].push(table(3, 5..15));
        let all = Inputs { level: 0, upper: vec![0, 1, 2, 3], lower: Vec::new() };
        assert_eq!(pick(&levels, &OPTIONS), Some(all));
    }

    #[test]
    fn the_table_that_meets_the_least_goes_down_with_those_that_cost_nothing_more() {
        let upper = vec![table(1, 0..400), table(2, 1000..1400), table(3, 1500..1900)];
        let lower = vec![table(4, 0..400), table(5, 900..2000)];
        let levels = vec![Vec::new(), upper, lower, Vec::new()];
        let picked = pick(&levels, &OPTIONS).expect("L1 is full");
        assert_eq!(picked, Inputs { level: 1, upper: vec![0], lower: vec![0] });
        let widened = widen(&levels, 1, vec![1], &OPTIONS);
        assert_eq!(widened, Inputs { level: 1, upper: vec![1, 2], lower: vec![1] });
    }

    #[test]
    fn keys_are_cut_into_tables_of_the_target_size_and_none_is_lost() {
        let keys: Vec<u64> = (0..3000).collect();
        let tables = cut(&keys, &[], &OPTIONS);
        assert_eq!(tables.concat(), keys);
        let full = &tables[..tables.len() - 1];
        assert!(full.iter().all(|keys| options_size(keys) >= OPTIONS.target_file), "{}", tables.len());
        let below = vec![table(1, 0..300), table(2, 300..600), table(3, 600..900)];
        let aligned = cut(&keys, &below, &OPTIONS);
        assert_eq!(aligned[0].last(), Some(&299));
    }

    fn options_size(keys: &[u64]) -> u64 {
        OPTIONS.table(keys.len() as u64)
    }
}
