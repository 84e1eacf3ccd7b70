//! Which units of a region were written, so that they can be read back.

use units::Bytes;

/// One bit per unit.
#[derive(Debug)]
pub(crate) struct Written {
    words: Vec<u64>,
    /// Where reading back continues.
    cursor: u64,
}

impl Written {
    pub(crate) fn new(units: u64) -> Written {
        Written { words: vec![0; units.div_ceil(u64::from(u64::BITS)) as usize], cursor: 0 }
    }

    /// The memory of a region of which all was written.
    pub(crate) fn memory(units: u64) -> Bytes {
        Bytes(units.div_ceil(u64::from(u64::BITS)) * 8)
    }

    /// A unit was written.
    pub(crate) fn on_written(&mut self, unit: u64) {
        self.words[(unit / u64::from(u64::BITS)) as usize] |= 1 << (unit % u64::from(u64::BITS));
    }

    /// The next written unit that was not returned before.
    pub(crate) fn next(&mut self) -> Option<u64> {
        let bits = u64::from(u64::BITS);
        while let Some(word) = self.words.get((self.cursor / bits) as usize) {
            let rest = word >> (self.cursor % bits);
            if rest == 0 {
                self.cursor = (self.cursor / bits + 1) * bits;
                continue;
            }
            let unit = self.cursor + u64::from(rest.trailing_zeros());
            self.cursor = unit + 1;
            return Some(unit);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_written_unit_is_read_back_once() {
        let units = [0, 1, 63, 64, 65, 127, 191, 192, 499];
        let mut written = Written::new(500);
        units.iter().rev().chain(&units).for_each(|&unit| written.on_written(unit));
        assert_eq!(std::iter::from_fn(|| written.next()).collect::<Vec<_>>(), units);
        assert_eq!(Written::new(0).next(), None);
    }
}
