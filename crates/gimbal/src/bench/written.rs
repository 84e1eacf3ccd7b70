//! Which steps of a region were written, for reading them back.

/// A bit per step.
#[derive(Debug)]
pub(super) struct Written {
    words: Vec<u64>,
    /// Where reading back goes on.
    cursor: u64,
}

impl Written {
    pub(super) fn new(steps: u64) -> Written {
        Written { words: vec![0; steps.div_ceil(u64::from(u64::BITS)) as usize], cursor: 0 }
    }

    /// A step was written.
    pub(super) fn on_written(&mut self, step: u64) {
        self.words[(step / u64::from(u64::BITS)) as usize] |= 1 << (step % u64::from(u64::BITS));
    }

    /// The next written step that was not handed out before.
    pub(super) fn next(&mut self) -> Option<u64> {
        let bits = u64::from(u64::BITS);
        while let Some(word) = self.words.get((self.cursor / bits) as usize) {
            let rest = word >> (self.cursor % bits);
            if rest == 0 {
                self.cursor = (self.cursor / bits + 1) * bits;
                continue;
            }
            let step = self.cursor + u64::from(rest.trailing_zeros());
            self.cursor = step + 1;
            return Some(step);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_written_step_is_read_back_once() {
        let steps = [0, 1, 63, 64, 65, 127, 191, 192, 499];
        let mut written = Written::new(500);
        steps.iter().rev().chain(&steps).for_each(|&step| written.on_written(step));
        assert_eq!(std::iter::from_fn(|| written.next()).collect::<Vec<_>>(), steps);
        assert_eq!(Written::new(0).next(), None);
    }
}
