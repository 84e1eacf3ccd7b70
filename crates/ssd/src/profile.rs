//! A device as a file: every number by which one SSD differs from another.
//!
//! A profile is a TOML file with one table per part of the device. Five come with the crate ([`Profile::named`]); a user
//! writes his own ([`Profile::load`]). A name that no field has, or a value outside its range, is an error that says
//! which field, what it may be, and what to do; nothing is silently replaced by a default. Two tables may be left out as a
//! whole, and then what they describe is not there: `[memory]` and `[variation]`.
//!
//! Holds: every built-in profile loads and survives being written and read again (`built_in_profiles_round_trip`);
//!        a profile that passes [`Profile::check`] can be run without a stall (`tests/model/properties.rs`).
//! Elsewhere: the tables and their units are `tables`, the limits `limits`, what goes wrong `error`; what a scheduler takes
//!        from a profile is `constants`.

mod constants;
mod error;
mod limits;
mod tables;
#[cfg(test)]
mod tests;
mod unit;

pub use error::ProfileError;
pub use tables::{
    BufferProfile, ChannelProfile, CollectionProfile, FirmwareProfile, FlashProfile, GeometryProfile,
    LinkProfile, MemoryProfile, SlcProfile, SwitchProfile, VariationProfile,
};

use serde::{Deserialize, Serialize};
use std::path::Path;

/// Everything that the model needs to know about a device, and the constants that a scheduler in front of it needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Short name, used in reports.
    pub name: String,
    /// What device this is and where its numbers come from.
    pub description: String,
    /// How much flash there is and how it is cut up.
    pub geometry: GeometryProfile,
    /// Timing of the flash dies and of suspending their work for reads.
    pub flash: FlashProfile,
    /// The channels between controller and dies.
    pub channel: ChannelProfile,
    /// What the controller's firmware spends on a command.
    pub firmware: FirmwareProfile,
    /// The link to the host (PCIe).
    pub link: LinkProfile,
    /// The controller's memory; `None`: it is never in the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryProfile>,
    /// The write buffer.
    pub buffer: BufferProfile,
    /// Garbage collection.
    pub collection: CollectionProfile,
    /// The SLC cache.
    pub slc: SlcProfile,
    /// How much service times vary; not at all if the file has no such table.
    #[serde(default)]
    pub variation: VariationProfile,
    /// Constants of a scheduler in front of this device.
    pub switch: SwitchProfile,
}

/// The profiles that come with the crate.
const BUILT_IN: [(&str, &str); 5] = [
    ("dct983", include_str!("../profiles/dct983.toml")),
    ("dct983-b", include_str!("../profiles/dct983-b.toml")),
    ("p3600", include_str!("../profiles/p3600.toml")),
    ("consumer-slc", include_str!("../profiles/consumer-slc.toml")),
    ("array", include_str!("../profiles/array.toml")),
];

impl Profile {
    /// The names that [`Profile::named`] knows; the first one is the default.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|&(name, _)| name)
    }

    /// A profile that comes with the crate.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`] if there is none of that name.
    pub fn named(name: &str) -> Result<Profile, ProfileError> {
        match BUILT_IN.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Profile::parse(text, name),
            None => Err(ProfileError::Unknown { name: name.to_owned() }),
        }
    }

    /// The profile in the file at `path`.
    ///
    /// # Errors
    /// Unreadable file, text that is not a profile, or a value outside its range.
    pub fn load(path: &Path) -> Result<Profile, ProfileError> {
        let origin = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Profile::parse(&text, &origin),
            Err(source) => Err(ProfileError::Unreadable { origin, source }),
        }
    }

    /// The profile written in `text`; `origin` names the text in errors.
    ///
    /// # Errors
    /// Text that is not a profile, or a value outside its range.
    pub fn parse(text: &str, origin: &str) -> Result<Profile, ProfileError> {
        let profile: Profile = toml::from_str(text).map_err(|source| ProfileError::Syntax {
            origin: origin.to_owned(),
            message: source.to_string().trim_end().to_owned(),
        })?;
        profile.check(origin)?;
        Ok(profile)
    }

    /// The profile as a TOML text that [`Profile::parse`] reads back.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a profile is tables of numbers and strings, which TOML can always hold")
    }

    /// Whether all values are in range and fit together; `origin` names the profile in errors.
    ///
    /// # Errors
    /// The first value that is out of range or contradicts another.
    pub fn check(&self, origin: &str) -> Result<(), ProfileError> {
        limits::check(self, origin)
    }
}

impl Default for Profile {
    /// The first built-in profile: a Samsung DCT983 960 GB, parameter set A.
    fn default() -> Profile {
        let (name, text) = BUILT_IN[0];
        Profile::parse(text, name).expect("the default profile is tested to load")
    }
}
