//! Snapshots of namespaces in directories: taken, listed and deleted.
//!
//! A snapshot is a file of the pool, and the directory is the one truth of them: the target remembers none.
//!
//! Elsewhere: how one is taken is `device::directory`; a namespace that is made of one names it in the configuration.

use super::topology::Topology;
use super::{ServerHandle, pools};
use crate::device::{Pool, Snapshot, SnapshotError};
use std::sync::Arc;
use std::time::Duration;
use tracing::info;
use units::Nanos;

/// A snapshot that was taken just now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// How long writes of the namespace have waited.
    pub pause: Nanos,
}

impl ServerHandle {
    /// Takes a snapshot of the namespace with this UUID. Every write that was answered before is in it, and none that begins after this has
    /// returned. Writes of the namespace wait meanwhile, for at most `limit`.
    ///
    /// # Errors
    /// There is no snapshot, and the namespace goes on.
    pub fn take_snapshot(
        &mut self,
        device: &str,
        name: &str,
        uuid: [u8; 16],
        limit: Duration,
    ) -> Result<Taken, SnapshotError> {
        let (slot, pool) = pool_of(&self.topology, device)?;
        let file = pool.begin_snapshot(name, &uuid)?;
        let taken = pools::taking(&self.topology, slot, Arc::clone(&pool), uuid, limit).clone_into(file);
        let (snapshot, pause) = pool.end_snapshot(name, &uuid, taken)?;
        info!(device, snapshot = name, namespace = snapshot.namespace, ?pause, "a snapshot was taken");
        Ok(Taken { snapshot, pause })
    }

    /// Whether [`ServerHandle::take_snapshot`] may be asked for this, as far as that is known before.
    ///
    /// # Errors
    /// The reason why not.
    pub fn check_snapshot(&self, device: &str, name: &str, uuid: [u8; 16]) -> Result<(), SnapshotError> {
        pool_of(&self.topology, device)?.1.expect_possible(name, &uuid)
    }

    /// The snapshots in a directory, by name.
    ///
    /// # Errors
    /// There is no such directory, or it cannot be read.
    pub fn snapshots(&self, device: &str) -> Result<Vec<Snapshot>, SnapshotError> {
        self.remote.snapshots(device)
    }

    /// Deletes a snapshot. Namespaces that were made of it stay.
    ///
    /// # Errors
    /// There is no such snapshot, or it cannot be removed.
    pub fn delete_snapshot(&mut self, device: &str, name: &str) -> Result<(), SnapshotError> {
        pool_of(&self.topology, device)?.1.delete_snapshot(name)?;
        info!(device, snapshot = name, "a snapshot was deleted");
        Ok(())
    }
}

/// The slot and the files of a directory.
fn pool_of(topology: &Topology, device: &str) -> Result<(usize, Arc<Pool>), SnapshotError> {
    let found = topology.ssd(device).and_then(|(slot, ssd)| Some((slot, ssd.facts.pool.clone()?)));
    found.ok_or_else(|| SnapshotError::NoDevice(device.to_owned()))
}
