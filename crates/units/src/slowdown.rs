//! The factor by which something takes longer than usual.

/// The time of IOs in quarters of their usual time: 4 is the usual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slowdown(u8);

impl Slowdown {
    /// The usual time.
    pub const NONE: Slowdown = Slowdown(4);
    /// The largest factor that can be represented.
    pub const MAX: Slowdown = Slowdown(u8::MAX);

    /// A slowdown of `n` quarters; less than 4 counts as 4.
    pub const fn quarters(n: u8) -> Slowdown {
        if n < Slowdown::NONE.0 { Slowdown::NONE } else { Slowdown(n) }
    }

    /// In quarters: 4 or more.
    pub const fn in_quarters(self) -> u8 {
        self.0
    }

    /// Whether they take longer than usual.
    pub const fn is_slow(self) -> bool {
        self.0 > Slowdown::NONE.0
    }
}

impl Default for Slowdown {
    fn default() -> Slowdown {
        Slowdown::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_faster_than_usual() {
        assert_eq!(Slowdown::quarters(0), Slowdown::default());
        assert!(!Slowdown::quarters(4).is_slow() && Slowdown::quarters(5).is_slow());
        assert_eq!(Slowdown::quarters(255), Slowdown::MAX);
    }
}
