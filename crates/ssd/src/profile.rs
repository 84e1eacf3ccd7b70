//! A device as a file: every number in which one SSD differs from another.
//!
//! A profile is a TOML file with one table per part of the device. Twelve come with the crate
//! ([`Profile::named`]); users can write their own ([`Profile::find`]). An unknown field, or a value out of
//! range, is an error that says which field it is, what is allowed, and what to do. Nothing is silently
//! replaced by a default. Two tables may be omitted, `[memory]` and `[variation]`, and fields that limit
//! something; the model then leaves out what they describe.
//!
//! Holds: every built-in profile loads, and survives being written and read again
//!        (`built_in_profiles_round_trip`);
//!        a profile that passes [`Profile::check`] runs without a stall (`tests/model/properties.rs`).
//! Elsewhere: the tables and their units are in `tables`, the limits in `limits`, errors in `error`, the
//!        constants for a scheduler in `constants`.

mod constants;
mod error;
mod limits;
mod plausible;
mod random;
mod tables;
#[cfg(test)]
mod tests;
mod unit;

pub use error::ProfileError;
pub use tables::{
    BufferProfile, ChannelProfile, CollectionProfile, FirmwareProfile, FlashProfile, GeometryProfile,
    LinkProfile, MappingProfile, MemoryProfile, SlcProfile, SwitchProfile, VariationProfile,
};

use serde::{Deserialize, Serialize};
use std::path::Path;

/// Everything that the model needs to know about a device, and the constants of a scheduler for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Short name, used in reports.
    pub name: String,
    /// Identity of the device, and the origin of its numbers.
    pub description: String,
    /// Amount of flash, and its division.
    pub geometry: GeometryProfile,
    /// Timing of the flash dies, and of suspensions for reads.
    pub flash: FlashProfile,
    /// The channels between controller and dies.
    pub channel: ChannelProfile,
    /// Time that the controller's firmware needs per command.
    pub firmware: FirmwareProfile,
    /// The link to the host (PCIe).
    pub link: LinkProfile,
    /// The controller's memory; `None` if it never limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryProfile>,
    /// The write buffer.
    pub buffer: BufferProfile,
    /// Garbage collection.
    pub collection: CollectionProfile,
    /// The mapping that is in the controller's memory; `None` if all of it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapping: Option<MappingProfile>,
    /// The SLC cache.
    pub slc: SlcProfile,
    /// Variation of service times; none if the table is omitted.
    #[serde(default)]
    pub variation: VariationProfile,
    /// Constants of a scheduler in front of this device.
    pub switch: SwitchProfile,
}

/// The profiles that come with the crate.
const BUILT_IN: [(&str, &str); 12] = [
    ("dct983", include_str!("../profiles/dct983.toml")),
    ("dct983-b", include_str!("../profiles/dct983-b.toml")),
    ("p3600", include_str!("../profiles/p3600.toml")),
    ("pm1725a", include_str!("../profiles/pm1725a.toml")),
    ("sn200", include_str!("../profiles/sn200.toml")),
    ("consumer-slc", include_str!("../profiles/consumer-slc.toml")),
    ("consumer-small", include_str!("../profiles/consumer-small.toml")),
    ("consumer-large", include_str!("../profiles/consumer-large.toml")),
    ("consumer-qlc", include_str!("../profiles/consumer-qlc.toml")),
    ("consumer-prompt", include_str!("../profiles/consumer-prompt.toml")),
    ("consumer-lazy", include_str!("../profiles/consumer-lazy.toml")),
    ("array", include_str!("../profiles/array.toml")),
];

impl Profile {
    /// The names of the built-in profiles; the first is the default.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|&(name, _)| name)
    }

    /// A profile that comes with the crate.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`] if there is no profile with this name.
    pub fn named(name: &str) -> Result<Profile, ProfileError> {
        match BUILT_IN.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Profile::parse(text, name),
            None => Err(ProfileError::Unknown { name: name.to_owned() }),
        }
    }

    /// The built-in profile of this name, or the profile in the file at this path. A path has a `/` or ends in `.toml`; a
    /// relative one begins at `folder`.
    ///
    /// # Errors
    /// There is no such profile, or it is not valid.
    pub fn find(name: &str, folder: &Path) -> Result<Profile, ProfileError> {
        if Profile::is_path(name) { Profile::load(&folder.join(name)) } else { Profile::named(name) }
    }

    /// Whether [`Profile::find`] looks for a file.
    pub fn is_path(name: &str) -> bool {
        name.contains('/') || name.ends_with(".toml")
    }

    /// The profile in the file at `path`. It is called as its file, without the ending: the name in the file may be the name of the
    /// profile that it was copied from.
    ///
    /// # Errors
    /// The file cannot be read, is not a profile, or has a value out of range.
    pub fn load(path: &Path) -> Result<Profile, ProfileError> {
        let origin = path.display().to_string();
        match files::read_text(path) {
            Ok(text) => {
                let mut profile = Profile::parse(&text, &origin)?;
                if let Some(stem) = path.file_stem() {
                    profile.name = stem.to_string_lossy().into_owned();
                }
                Ok(profile)
            }
            Err(source) => Err(ProfileError::Unreadable { origin, source }),
        }
    }

    /// The profile written in `text`; `origin` names the text in errors.
    ///
    /// # Errors
    /// The text is not a profile, or has a value out of range.
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

    /// Whether all values are in range and consistent. `origin` names the profile in errors.
    ///
    /// # Errors
    /// The first value that is out of range or contradicts another one.
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
