//! Dword 1 of the completion of an IO, for hosts that have enabled credits: reports that the SSD is slow now,
//! and for about how much longer.
//!
//! ```text
//!   31            16 15       8 7        0
//!   [ rest, 10 ms   ][ writes  ][ reads   ]      slowdown in quarters; the rest is 0 if unknown
//! ```
//!
//! Zero stands for an SSD at its usual speed, or a target that reports nothing. A slowdown below 4 is the
//! usual speed. Vendor specific, as credits are: hosts that have not enabled credits get zero.
//!
//! Holds: every dword has a meaning, and a dword that was written is read back, rounded up to 10 ms
//!        (`every_dword_has_a_meaning`, `what_is_written_is_read_back`).

use units::{Nanos, Slowdown};

/// One unit of the rest.
const UNIT: Nanos = Nanos::millis(10);

/// A report that an SSD is slow now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    /// Slowdown of reads against their usual time.
    pub reads: Slowdown,
    /// Slowdown of writes.
    pub writes: Slowdown,
    /// Expected rest of the slow period from now on; `None` if unknown. The dword holds at most 655.35 s.
    pub rest: Option<Nanos>,
}

impl Busy {
    /// From a completion; `None` if nothing is slow.
    #[inline]
    pub const fn from_dword(dword: u32) -> Option<Busy> {
        if dword == 0 {
            return None;
        }
        let [reads, writes, low, high] = dword.to_le_bytes();
        let (reads, writes) = (Slowdown::quarters(reads), Slowdown::quarters(writes));
        if !reads.is_slow() && !writes.is_slow() {
            return None;
        }
        let rest = match u16::from_le_bytes([low, high]) {
            0 => None,
            units => Some(Nanos(units as u64 * UNIT.0)),
        };
        Some(Busy { reads, writes, rest })
    }

    /// For a completion.
    pub fn to_dword(self) -> u32 {
        let units = self.rest.map_or(0, |rest| rest.get().div_ceil(UNIT.0).clamp(1, u64::from(u16::MAX)));
        // Within 16 bits: see above.
        let [low, high] = (units as u16).to_le_bytes();
        u32::from_le_bytes([self.reads.in_quarters(), self.writes.in_quarters(), low, high])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dword_has_a_meaning() {
        for low in 0..=u16::MAX {
            for high in [0, 1, 0x1234, u16::MAX] {
                let dword = u32::from(high) << 16 | u32::from(low);
                let Some(busy) = Busy::from_dword(dword) else {
                    assert!(low & 0xff <= 4 && low >> 8 <= 4, "{dword:#x}");
                    continue;
                };
                assert!(busy.reads.is_slow() || busy.writes.is_slow());
                assert_eq!(Busy::from_dword(busy.to_dword()), Some(busy), "{dword:#x}");
            }
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let busy = |rest| Busy { reads: Slowdown::NONE, writes: Slowdown::quarters(11), rest };
        let back = |rest| Busy::from_dword(busy(rest).to_dword()).and_then(|busy| busy.rest);
        assert_eq!(busy(Some(Nanos::millis(30))).to_dword(), 0x0003_0b04);
        assert_eq!(back(None), None);
        assert_eq!(back(Some(Nanos::ZERO)), Some(UNIT), "zero would be unknown");
        assert_eq!(back(Some(Nanos::millis(31))), Some(Nanos::millis(40)));
        assert_eq!(back(Some(Nanos::secs(9999))), Some(Nanos(65_535 * UNIT.0)));
    }
}
