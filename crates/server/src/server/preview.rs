//! The changes that a configuration would make, without making them.
//!
//! A preview judges as a reload does, and names the same changes. It opens no device and no address, so that a device that cannot be opened, or
//! an address that is taken, is found by the reload only, which then changes nothing either.
//!
//! Holds: a preview names the changes that the reload then makes, and changes nothing (`a_preview_names_what_the_reload_then_changes` in
//!        `tests/reload.rs`).

use super::change::{Change, Resolved, changes};
use super::reload::Measured;
use super::topology::Topology;
use super::{ReloadError, ServerHandle};
use crate::config::{Config, ConfigError, DeviceKind, NamespaceConfig, transition};
use crate::proof::KeyRing;
use reactor::Clock;
use units::Bytes;

/// The size of a device that its configuration does not have, for people.
const AS_FOUND: &str = "the size of the device";

impl ServerHandle {
    /// The changes that [`ServerHandle::reload`] would make.
    ///
    /// # Errors
    /// The reload would refuse the configuration.
    pub fn preview(&self, config: &Config) -> Result<Vec<Change>, ReloadError> {
        self.admissible(config)?;
        let refused = |problems| ReloadError::Config(ConfigError::Wrong { file: None, problems });
        let keys = KeyRing::read(Clock.now(), config).map_err(refused)?;
        let planned = Planned { topology: &self.topology, config, keys };
        let present = Measured::of(&self.topology, &self.config);
        Ok(changes((&self.config, &present), (config, &planned)))
    }

    /// Checks a configuration, and that the running target can change to it.
    pub(super) fn admissible(&self, config: &Config) -> Result<(), ReloadError> {
        config.judge().map_err(ReloadError::Config)?;
        let problems = transition::problems(&self.config, config, |nqn| self.topology.home_of(nqn));
        if problems.is_empty() {
            return Ok(());
        }
        Err(ReloadError::Config(ConfigError::Wrong { file: None, problems }))
    }
}

/// Sizes and keys of a configuration that does not run.
struct Planned<'t> {
    topology: &'t Topology,
    config: &'t Config,
    keys: KeyRing,
}

impl Planned<'_> {
    /// The size of a device, if it is known before the device is opened.
    fn size(&self, name: &str) -> Option<Bytes> {
        let device = &self.config.devices[self.config.device_index(name)?];
        let running = self.topology.ssd(name).map(|(_, ssd)| ssd.facts.size);
        match &device.kind {
            DeviceKind::File { size, .. } => size.or(running),
            DeviceKind::Emulated(emulated) => Some(emulated.size),
            DeviceKind::Null { size } => Some(*size),
            DeviceKind::Block { .. } | DeviceKind::Directory(_) | DeviceKind::NvmeTcp(_) => running,
        }
    }

    fn size_of(&self, namespace: &NamespaceConfig) -> Option<Bytes> {
        let rest = || Some(self.size(&namespace.device)?.saturating_sub(namespace.offset));
        namespace.size.or_else(rest)
    }
}

impl Resolved for Planned<'_> {
    fn device(&self, name: &str) -> Option<String> {
        self.config.device_index(name)?;
        Some(self.size(name).map_or(AS_FOUND.to_owned(), |size| size.to_string()))
    }

    fn namespace(&self, nqn: &str, nsid: u32) -> Option<String> {
        let namespaces = &self.config.subsystem(nqn)?.namespaces;
        let namespace = namespaces.iter().find(|namespace| namespace.nsid == nsid)?;
        Some(self.size_of(namespace).map_or(AS_FOUND.to_owned(), |size| size.to_string()))
    }

    fn keys(&self, host: &str) -> Option<String> {
        self.keys.fingerprints(host)
    }
}
