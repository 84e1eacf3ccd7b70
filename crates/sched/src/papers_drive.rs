//! The drive of the Gimbal paper (Samsung DCT983), as every scheduler may know it: for tests, fuzzers and instruction counts.

use crate::{Calibration, DeviceConstants, Facts, IoCostConfig, IoCostRates, Learnt};
use units::ByteRate;

/// The drive's calibration, and nothing learnt.
#[derive(Clone, Debug)]
pub struct PapersDrive {
    calibration: Calibration,
    learnt: Learnt,
}

impl PapersDrive {
    /// From the calibration of the repository.
    ///
    /// # Panics
    /// Never: a test reads it.
    pub fn new() -> PapersDrive {
        let text = include_str!("../../../calibrations/dct983.toml");
        let calibration = Calibration::parse(text, "calibrations/dct983.toml");
        let calibration = calibration.expect("the repository's calibrations can be read");
        PapersDrive { calibration, learnt: Learnt::default() }
    }

    /// Every fact; the rates are those of its data sheet, clean.
    pub fn facts(&self) -> Facts<'_> {
        let reads = IoCostRates { rate: ByteRate(3_000_000_000), random_iops: 400_000 };
        let writes = IoCostRates { rate: ByteRate(1_300_000_000), random_iops: 200_000 };
        Facts {
            constants: DeviceConstants::DCT983,
            rate_start: None,
            write_cost_best: None,
            lag_max: None,
            calibration: &self.calibration,
            learnt: &self.learnt,
            rates: Some(IoCostConfig::new(reads, writes)),
        }
    }
}

impl Default for PapersDrive {
    fn default() -> PapersDrive {
        PapersDrive::new()
    }
}
