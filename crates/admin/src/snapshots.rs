//! Directories: their space, and the snapshots of namespaces in them.
//!
//! ```text
//!   GET     /v1/devices/NAME/room                 {"size", "free", "promised"}
//!   GET     /v1/devices/NAME/snapshots            all, by name: {"snapshots": [{"name", "namespace", "size", "taken"}]}
//!   PUT     /v1/devices/NAME/snapshots/SNAPSHOT   takes one: {"subsystem": NQN, "nsid": N}
//!   DELETE  /v1/devices/NAME/snapshots/SNAPSHOT
//! ```
//!
//! They are no part of the document: the directory is the one truth of them, so no If-Match is asked for.

use crate::order::{OnSnapshot, Source};
use crate::refusal::Refusal;
use serde_json::{Value, json};
use server::{Room, Snapshot, SnapshotError};
use std::sync::Arc;

/// The answer to GET of the snapshots of a device. The thread of the API goes on meanwhile.
pub(crate) async fn list(source: &Arc<dyn Source>, device: &str) -> Result<Value, Refusal> {
    let found = elsewhere(source, device, |source, device| source.snapshots(device)).await?;
    Ok(json!({ "snapshots": found.iter().map(shown).collect::<Vec<_>>() }))
}

/// The answer to GET of the space of a device.
pub(crate) async fn room(source: &Arc<dyn Source>, device: &str) -> Result<Value, Refusal> {
    let Room { size, free, promised } =
        elsewhere(source, device, |source, device| source.room(device)).await?;
    Ok(json!({ "size": size.get(), "free": free.get(), "promised": promised.get() }))
}

/// Asks the source on a thread that may wait.
async fn elsewhere<T: Send + 'static>(
    source: &Arc<dyn Source>,
    device: &str,
    ask: fn(&dyn Source, &str) -> Result<T, SnapshotError>,
) -> Result<T, Refusal> {
    let (source, device) = (Arc::clone(source), device.to_owned());
    let asked = tokio::task::spawn_blocking(move || ask(&*source, &device)).await;
    let found = asked.map_err(|_| Refusal::new(503, "the target is stopping"))?;
    found.map_err(|error| Refusal::of_snapshot(&error))
}

pub(crate) fn shown(snapshot: &Snapshot) -> Value {
    let Snapshot { name, namespace, size, taken } = snapshot;
    json!({ "name": name, "namespace": namespace, "size": size, "taken": taken })
}

/// The order that the body of a PUT describes.
pub(crate) fn taking(device: &str, name: &str, body: &[u8], dry_run: bool) -> Result<OnSnapshot, Refusal> {
    let wrong = || Refusal::new(400, "the body is not {\"subsystem\": NQN, \"nsid\": NUMBER}");
    let body: Value = serde_json::from_slice(body).map_err(|_| wrong())?;
    let fields = body.as_object().filter(|fields| fields.len() == 2).ok_or_else(wrong)?;
    let nqn = fields.get("subsystem").and_then(Value::as_str).ok_or_else(wrong)?;
    let nsid = fields.get("nsid").and_then(Value::as_u64).and_then(|nsid| u32::try_from(nsid).ok());
    let taken_of = Some((nqn.to_owned(), nsid.ok_or_else(wrong)?));
    Ok(OnSnapshot { device: device.to_owned(), name: name.to_owned(), taken_of, dry_run })
}

impl Refusal {
    /// There is no snapshot, for this reason.
    pub fn of_snapshot(error: &SnapshotError) -> Refusal {
        let status = match error {
            SnapshotError::Name(_) => 400,
            SnapshotError::Absent(_) | SnapshotError::NoNamespace(_) | SnapshotError::NoDevice(_) => 404,
            SnapshotError::Exists(_) | SnapshotError::Device(_) => 409,
            SnapshotError::Slow { .. } => 504,
        };
        Refusal::new(status, error.to_string())
    }
}
