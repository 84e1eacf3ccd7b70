//! `[device.ais]`: an auxiliary store that takes bursts of writes off an SSD (`docs/ais.md`).

use super::fault::{self, FaultConfig};
use super::fields::{Fields, Findings};
use super::problem::Problem;
use super::read::{each, required, required_size};
use super::{Backing, DeviceKind, EmulatedConfig};
use std::path::PathBuf;
use units::Bytes;

/// An auxiliary store of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct AisConfig {
    /// The profile of the device that `gimbal ssdtest` wrote.
    pub profile: PathBuf,
    /// Where diverted writes are kept.
    pub store: AisStore,
    /// How large it is.
    pub size: Bytes,
    /// Make the file if it does not exist or is empty.
    pub create: bool,
    /// Faults of the store's device, for tests.
    pub faults: Vec<FaultConfig>,
}

/// Where diverted writes are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AisStore {
    /// In memory: they are lost if the target is killed.
    Ram,
    /// In a log in a file, or on a block device.
    Log(PathBuf),
}

impl AisConfig {
    /// Problems of this table, with names of fields made by `field`.
    pub(super) fn problems(&self, kind: &DeviceKind, field: impl Fn(&str) -> String) -> Vec<Problem> {
        let mut problems = Vec::new();
        let (least, most) = (Bytes(ais::SIZE_MIN), Bytes(ais::SIZE_MAX));
        if !(least..=most).contains(&self.size) || !self.size.get().is_multiple_of(ais::BLOCK) {
            let what = format!("{} is not between {least} and {most} in steps of 4 KiB", self.size);
            problems.push(Problem::new(field("size"), what, "write size = \"256M\""));
        }
        if matches!(kind, DeviceKind::Directory(_)) {
            let what = "a directory has no auxiliary store: a snapshot would miss what is in it";
            problems.push(Problem::new(field("store"), what, "remove [device.ais]"));
        }
        let forgets = matches!(
            kind,
            DeviceKind::Null { .. }
                | DeviceKind::Emulated(EmulatedConfig { backing: Backing::Ram | Backing::None, .. })
        );
        if forgets && self.store != AisStore::Ram {
            let what = "the device forgets its contents when the target ends, and a log does not";
            problems.push(Problem::new(field("store"), what, "write store = \"ram\""));
        }
        if self.store == AisStore::Ram && (self.create || !self.faults.is_empty()) {
            problems.push(Problem::new(
                field("store"),
                "memory is neither made nor fails",
                "remove create and fault",
            ));
        }
        problems
    }

    /// The file or device of its log.
    pub(crate) fn path(&self) -> Option<&PathBuf> {
        match &self.store {
            AisStore::Ram => None,
            AisStore::Log(path) => Some(path),
        }
    }
}

/// Reads `[device.ais]`.
pub(super) fn read(mut table: Fields<'_, '_>, findings: &mut Findings) -> AisConfig {
    let store = required(&mut table, findings, "store", "\"ram\", or the path of a file or block device");
    let config = AisConfig {
        profile: required(&mut table, findings, "profile", "the profile.toml that gimbal ssdtest wrote")
            .into(),
        store: if store == "ram" { AisStore::Ram } else { AisStore::Log(store.into()) },
        size: required_size(&mut table, findings),
        create: table.truth(findings, "create").unwrap_or(false),
        faults: each(&mut table, findings, "fault", fault::read),
    };
    table.finish(findings);
    config
}
