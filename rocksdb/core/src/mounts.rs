//! The mounts of this process: one per volume, however often its URI is used.
//!
//! A mount ends, in order, when nobody uses it any more; what is still mounted when the process ends is unmounted then. So the
//! next process need not wait for the lease.

use crate::uri::{STORE_VARIABLE, Uri};
use crate::volume::Volume;
use blob_client::Mount;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Volumes that may be mounted, with what was asked for.
static MOUNTS: Mutex<Vec<(Uri, Weak<Volume>)>> = Mutex::new(Vec::new());

/// The volume of a URI: that which is mounted already, or mounted now.
///
/// # Errors
/// A text for the user: what is wrong, with which volume, and what to do.
pub fn open(text: &str) -> Result<Arc<Volume>, String> {
    let uri = Uri::parse(text, std::env::var(STORE_VARIABLE).ok()).map_err(|error| error.to_string())?;
    let mut mounts = MOUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    mounts.retain(|(_, volume)| volume.strong_count() > 0);
    let same = mounts.iter().find(|(other, _)| other.volume == uri.volume && other.store == uri.store);
    if let Some((other, volume)) = same
        && let Some(volume) = volume.upgrade()
    {
        if *other != uri {
            let name = &uri.volume;
            return Err(format!(
                "volume {name} is mounted in this process with other options: use the same URI everywhere"
            ));
        }
        return Ok(volume);
    }
    let name = &uri.volume;
    let files = uri.etcd.clone().or_environment();
    let store =
        blob_meta::open(&uri.store, &files).map_err(|why| format!("volume {name}: its store: {why}"))?;
    files
        .warnings()
        .iter()
        .for_each(|warning| eprintln!("gimbal-rocksdb: volume {name}: warning: {warning}"));
    let options = uri.options().map_err(|error| format!("volume {name}: {error}"))?;
    let mount = Mount::open(options, store).map_err(|error| {
        format!("volume {name} of store {} cannot be mounted: {error}; see `gimbal volume list`", uri.store)
    })?;
    let volume = Arc::new(Volume::new(mount, name, uri.flush));
    mounts.push((uri, Arc::downgrade(&volume)));
    Ok(volume)
}

/// The process ends: unmounts all volumes in order.
pub fn unmount_all() {
    let mounts = std::mem::take(&mut *MOUNTS.lock().unwrap_or_else(PoisonError::into_inner));
    for volume in mounts.iter().filter_map(|(_, volume)| volume.upgrade()) {
        volume.unmount();
    }
}
