//! The files of namespaces in directories, through a change of the target.
//!
//! ```text
//!   prepare: provide ─► seal                      the files are there, and registered; a change that is refused removes what it made
//!   retire:  doom ─► hosts lose the namespaces ─► their IOs have ended ─► part       files are closed, and erased as configured
//!   commit:  serve                                the thread of the device has the files before hosts have the namespaces
//! ```
//!
//! Elsewhere: the files are `device::directory`; removed ranges of other devices are `wipe`.

use super::StartError;
use super::topology::Topology;
use crate::assemble::Devices;
use crate::config::{Config, NamespaceConfig};
use crate::device::{DeviceError, Pool, SnapshotError, Taking, Wanted};
use crate::identity::{Identifiers, parse_uuid};
use crate::pipeline::change::Change;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use units::Bytes;

/// How long the clone of a namespace for another one may take.
const COPY_LIMIT: Duration = Duration::from_secs(5);

/// The directories of a change that is prepared. Files that were made are removed if it is dropped before [`Prepared::serve`].
#[derive(Default)]
pub(super) struct Prepared(Vec<(usize, Arc<Pool>)>);

impl Prepared {
    /// Provides every namespace in a directory with its file.
    pub(super) fn new(
        topology: &Topology,
        config: &Config,
        devices: &Devices<'_>,
    ) -> Result<Prepared, StartError> {
        let mut prepared = Prepared::default();
        for device in &config.devices {
            let (slot, facts) = &devices[&*device.name];
            let Some(pool) = &facts.pool else { continue };
            let failed = |error| StartError::Device { device: device.name.clone(), error };
            prepared.0.push((*slot, Arc::clone(pool)));
            for (uuid, namespace) in namespaces_on(config, &device.name) {
                let size = namespace.size.expect("the check asks for it");
                let wanted = Wanted { uuid, size, origin: namespace.origin.as_deref() };
                let copy = |pool: &Pool, origin: &str, to: &File| copy(topology, *slot, pool, origin, to);
                pool.provide(wanted, &copy).map_err(failed)?;
            }
            pool.seal().map_err(failed)?;
        }
        Ok(prepared)
    }

    /// Gives the new files to the threads of their devices.
    pub(super) fn serve(&mut self, topology: &Topology, config: &Config) {
        for (slot, pool) in self.0.drain(..) {
            pool.surveyed().iter().for_each(|held| topology.survey.watch_held(Arc::downgrade(held)));
            pool.serve().into_iter().for_each(|change| topology.change_ssd(slot, Change::Files(change)));
            // Leftovers of earlier removals, after a kill.
            close_removed(topology, slot, &pool, config);
            pool.sweep();
        }
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        self.0.iter().for_each(|(_, pool)| pool.roll_back());
    }
}

/// The namespaces on a device, with their UUIDs.
fn namespaces_on<'c>(
    config: &'c Config,
    device: &'c str,
) -> impl Iterator<Item = ([u8; 16], &'c NamespaceConfig)> {
    config.subsystems.iter().flat_map(move |subsystem| {
        let all = subsystem.namespaces.iter().filter(move |namespace| namespace.device == device);
        all.map(|namespace| (Identifiers::of(&subsystem.nqn, namespace).uuid, namespace))
    })
}

/// Fills a new file with what a snapshot or a namespace has. Returns the size of that.
fn copy(
    topology: &Topology,
    slot: usize,
    pool: &Pool,
    origin: &str,
    to: &File,
) -> Result<Bytes, DeviceError> {
    let Some(uuid) = parse_uuid(origin) else { return pool.copy_snapshot(origin, to) };
    let path = pool.path();
    let failed = |error: SnapshotError| match error {
        SnapshotError::Device(error) => error,
        error => DeviceError::Unusable { path: path.to_owned(), why: error.to_string() },
    };
    let served = topology.ssds.get(slot).and_then(Option::as_ref).and_then(|ssd| ssd.facts.pool.clone());
    // At a start nobody writes to it yet.
    let Some(served) = served else { return pool.copy_unserved(&uuid, to) };
    let to = to.try_clone().map_err(|error| unusable(path, &error))?;
    let taking = taking(topology, slot, served, uuid, COPY_LIMIT);
    taking.clone_into(to).map(|(_, size)| size).map_err(failed)
}

fn unusable(path: &Path, error: &dyn std::fmt::Display) -> DeviceError {
    DeviceError::Unusable { path: path.to_owned(), why: error.to_string() }
}

/// A clone of a namespace on the device in `slot`, which is served.
pub(super) fn taking(
    topology: &Topology,
    slot: usize,
    pool: Arc<Pool>,
    uuid: [u8; 16],
    limit: Duration,
) -> Taking {
    let mailbox = topology.ssds[slot].as_ref().map(|ssd| ssd.thread.mailbox.clone());
    let tell = move |change| {
        if let Some(mailbox) = &mailbox {
            mailbox.tell(crate::pipeline::message::ToPipeline::Change(Box::new(Change::Files(change))));
        }
    };
    Taking { pool, uuid, limit, tell: Box::new(tell) }
}

/// Notes what is to be erased when `before` becomes `kept`. Nothing is removed if this fails.
pub(super) fn doom(topology: &Topology, before: &Config, kept: &Config) -> Result<(), StartError> {
    for (_, ssd) in topology.running() {
        let Some(pool) = &ssd.facts.pool else { continue };
        for subsystem in &before.subsystems {
            let staying = kept.subsystem(&subsystem.nqn);
            for namespace in subsystem.namespaces.iter().filter(|namespace| namespace.device == ssd.name) {
                let now = staying
                    .and_then(|kept| kept.namespaces.iter().find(|other| other.nsid == namespace.nsid));
                let keep = now.map_or(Bytes::ZERO, |now| now.size.unwrap_or_default());
                if now.unwrap_or(namespace).wipe_on_remove && Some(keep) < namespace.size {
                    let doomed = pool.doom(&Identifiers::of(&subsystem.nqn, namespace).uuid, keep.get());
                    doomed.map_err(|error| StartError::Device { device: ssd.name.clone(), error })?;
                }
            }
        }
    }
    Ok(())
}

/// Closes the files of all namespaces that `config` does not have. Their IOs have ended.
pub(super) fn part(topology: &Topology, config: &Config) {
    for (slot, ssd) in topology.running() {
        if let Some(pool) = &ssd.facts.pool {
            close_removed(topology, slot, pool, config);
        }
    }
}

fn close_removed(topology: &Topology, slot: usize, pool: &Arc<Pool>, config: &Config) {
    let Some(Some(ssd)) = topology.ssds.get(slot) else { return };
    let there: std::collections::HashSet<[u8; 16]> =
        namespaces_on(config, &ssd.name).map(|(uuid, _)| uuid).collect();
    let closed = pool.part(&|uuid| there.contains(uuid));
    closed.into_iter().for_each(|change| topology.change_ssd(slot, Change::Files(change)));
}
