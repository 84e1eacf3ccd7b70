//! The SSDs of an experiment: each is a profile with the calibration that some schedulers need.
//!
//! A calibration belongs to one profile. A file with a built-in profile's name and other numbers is another SSD: it does not get the
//! calibration that comes with the lab (`a_changed_copy_of_a_built_in_profile_is_not_calibrated`).

use ais::Drive;
use sched::{Calibration, CalibrationError};
use ssd::{Profile, ProfileError};
use std::path::Path;

/// Profiles and their calibrations, made by `make calibrations`; the array's holds the constants of PARDA's paper.
pub(crate) const CALIBRATIONS: [(&str, &str); 7] = [
    ("array", include_str!("../../../calibrations/array.toml")),
    ("consumer-slc", include_str!("../../../calibrations/consumer-slc.toml")),
    ("dct983", include_str!("../../../calibrations/dct983.toml")),
    ("dct983-b", include_str!("../../../calibrations/dct983-b.toml")),
    ("p3600", include_str!("../../../calibrations/p3600.toml")),
    ("pm1725a", include_str!("../../../calibrations/pm1725a.toml")),
    ("sn200", include_str!("../../../calibrations/sn200.toml")),
];

/// The baselines as the Gimbal paper compared with them, for both models of its drive. Written by hand.
const COMPARED: &str = include_str!("../../../calibrations/compared/dct983.toml");

/// Whether this profile models the drive of the Gimbal paper.
pub(crate) fn is_papers(profile: &str) -> bool {
    ["dct983", "dct983-b"].contains(&profile)
}

/// The profiles that `gimbal ssdtest simulated:NAME --quick` found of the SSDs with a write buffer: made by `make calibrations`.
const PROBED: [(&str, &str); 6] = [
    ("consumer-slc", include_str!("../../../calibrations/probed/consumer-slc.toml")),
    ("consumer-small", include_str!("../../../calibrations/probed/consumer-small.toml")),
    ("consumer-large", include_str!("../../../calibrations/probed/consumer-large.toml")),
    ("consumer-qlc", include_str!("../../../calibrations/probed/consumer-qlc.toml")),
    ("consumer-prompt", include_str!("../../../calibrations/probed/consumer-prompt.toml")),
    ("consumer-lazy", include_str!("../../../calibrations/probed/consumer-lazy.toml")),
];

/// An SSD, and the prior knowledge of it.
#[derive(Clone, Debug)]
pub struct CalibratedSsd {
    /// The SSD.
    pub profile: Profile,
    /// For schedulers that need one; empty if there is none.
    pub calibration: Calibration,
    /// For the baselines as the Gimbal paper compared with them; empty unless it is that paper's drive.
    pub compared: Calibration,
    /// The write buffer as a probe found it; `None` if it was not probed.
    pub drive: Option<Drive>,
}

impl CalibratedSsd {
    /// A built-in profile, or the profile in a file: see [`Profile::find`]. A built-in profile has its calibration.
    ///
    /// # Errors
    /// There is no such profile, or it is not valid.
    pub fn find(name: &str, folder: &Path) -> Result<CalibratedSsd, ProfileError> {
        let profile = Profile::find(name, folder)?;
        let known = CALIBRATIONS.iter().find(|(known, _)| *known == name);
        let calibration = known.map(|(name, text)| {
            Calibration::parse(text, name).unwrap_or_else(|error| panic!("built in: {error}"))
        });
        let probed = PROBED.iter().find(|(probed, _)| *probed == name);
        let drive = probed.and_then(|(name, text)| {
            let found = probe::Profile::parse(text, name).unwrap_or_else(|error| panic!("built in: {error}"));
            Drive::of(&found)
        });
        let compared = if is_papers(name) { compared() } else { Calibration::default() };
        Ok(CalibratedSsd { profile, calibration: calibration.unwrap_or_default(), compared, drive })
    }

    /// Takes the calibration in the file at `path`.
    ///
    /// # Errors
    /// The file cannot be read, or is no calibration.
    pub fn load_calibration(&mut self, path: &Path) -> Result<(), CalibrationError> {
        self.calibration = Calibration::load(path)?;
        Ok(())
    }
}

fn compared() -> Calibration {
    Calibration::parse(COMPARED, "compared").unwrap_or_else(|error| panic!("built in: {error}"))
}
