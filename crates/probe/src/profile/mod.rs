//! The device profile: what a probe found, as a TOML file.
//!
//! The file has a version. Every field carries its unit in its name. Whoever reads one gets an error that names the field if it cannot be
//! what a probe wrote.
//!
//! Holds: what is written is read back the same (`a_profile_survives_its_file`).

mod check;
mod learnt;
mod tables;

pub use tables::{
    BufferTable, Cost, DegradedLatency, DeviceTable, Interference, Kind, Limit, LoadPoint, MetricsTable,
    ReadsDuringRecovery, RecoveryPoint, RecoveryTable, SwitchTable,
};

use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

/// The version of the format.
pub const VERSION: u32 = 1;

/// Findings of a probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Version of the format.
    pub version: u32,
    /// Which device, and how it was probed.
    pub device: DeviceTable,
    /// Constants for a scheduler; none without writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<SwitchTable>,
    /// Single numbers to compare drives by; none in profiles of earlier versions of gimbal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<MetricsTable>,
    /// The write buffer; none if its end was not found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<BufferTable>,
    /// Recovery of the write buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryTable>,
    /// Latencies with an exhausted write buffer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub degraded: Vec<DegradedLatency>,
    /// Each kind of IO alone.
    #[serde(default)]
    pub limit: Vec<Limit>,
    /// The device time of an IO.
    #[serde(default)]
    pub cost: Vec<Cost>,
    /// Two kinds of IO together.
    #[serde(default)]
    pub interference: Vec<Interference>,
    /// Latency against load.
    #[serde(default)]
    pub load: Vec<LoadPoint>,
}

/// Why a file is not a profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// It cannot be read.
    #[error("device profile {origin} cannot be read: {source}")]
    Unreadable {
        /// Its path.
        origin: String,
        /// The system's error.
        source: io::Error,
    },
    /// It is not TOML, or lacks a field, or has one too many.
    #[error("device profile {origin} is not valid: {message}; probe the device again")]
    Syntax {
        /// Its path.
        origin: String,
        /// Where and what.
        message: String,
    },
    /// Another version.
    #[error(
        "device profile {origin} has version {found}; this gimbal reads version {VERSION}; probe the device again"
    )]
    Version {
        /// Its path.
        origin: String,
        /// Its version.
        found: i64,
    },
    /// A value that no probe writes.
    #[error("device profile {origin}: {field} {fault}; correct it, or probe the device again")]
    Value {
        /// Its path.
        origin: String,
        /// Table and field.
        field: String,
        /// The fault.
        fault: String,
    },
}

impl Profile {
    /// The profile in a file.
    ///
    /// # Errors
    /// It cannot be read or is not a profile.
    pub fn load(path: &Path) -> Result<Profile, ProfileError> {
        let origin = path.display().to_string();
        match files::read_text(path) {
            Ok(text) => Profile::parse(&text, &origin),
            Err(source) => Err(ProfileError::Unreadable { origin, source }),
        }
    }

    /// The profile in a text; `origin` names the text in errors.
    ///
    /// # Errors
    /// It is not a profile.
    pub fn parse(text: &str, origin: &str) -> Result<Profile, ProfileError> {
        let syntax = |source: toml::de::Error| ProfileError::Syntax {
            origin: origin.to_owned(),
            message: source.to_string().trim_end().to_owned(),
        };
        // The version first: another one may have other fields.
        let table: toml::Table = toml::from_str(text).map_err(syntax)?;
        if let Some(found) = table.get("version").and_then(toml::Value::as_integer)
            && found != i64::from(VERSION)
        {
            return Err(ProfileError::Version { origin: origin.to_owned(), found });
        }
        let profile: Profile = toml::from_str(text).map_err(syntax)?;
        check::check(&profile, origin)?;
        Ok(profile)
    }

    /// The text that [`Profile::parse`] reads.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a profile is tables of numbers and texts, which TOML can hold")
    }
}

/// A number with this many decimal places, so that files are readable.
pub(crate) fn round(value: f64, places: i32) -> f64 {
    let unit = 10f64.powi(places);
    (value * unit).round() / unit
}

#[cfg(test)]
mod tests;
