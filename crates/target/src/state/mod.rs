//! What outlives the target: reservations that persist through power loss, in its state directory.
//!
//! ```text
//!   server  ── load ──►┐                       DIRECTORY/reservations/UUID-HASH.json
//!   pipeline ─ store ─►│ keeper's thread ─────► temporary file ─ fsync ─ rename ─ fsync of the directory
//!   pipeline ◄─ stored ┘        (one request after the other)
//! ```
//!
//! Files are written by a thread of their own, as a disk can take its time: pipelines go on meanwhile, and answer the command
//! when its change is stored. Requests are served in the order in which they came, so what is loaded is what was stored last.
//!
//! Each namespace has a file of its own, named after its UUID and its subsystem, and locked by the target that serves it: two
//! targets may use one directory, but not for the same namespace.
//!
//! Holds: what was answered is there after `kill -9`, and a file that is damaged keeps the target from starting
//!        (`crates/gimbal/tests/reservations.rs`); a directory that cannot be written to fails the command and changes nothing
//!        (`tests/reservations.rs`).
//! Elsewhere: the form of a file is `format`, one file on the disk `file`; when a command is answered is
//!            `nvme::subsystem`'s `persistence`.

mod error;
mod file;
mod format;

pub use error::StateError;

use crate::mailbox::Mailbox;
use crate::pipeline::message::ToPipeline;
use file::StateFile;
use nvme::subsystem::SavedReservations;
use std::collections::HashMap;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tracing::error;

/// Where in the state directory reservations are.
const RESERVATIONS: &str = "reservations";
/// Keys and names of hosts are nobody else's business.
const DIRECTORY_MODE: u32 = 0o700;
/// How long the end of the thread is waited for: one whose disk hangs never ends.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// A namespace as files know it, whatever its number and its device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NamespaceName {
    /// The subsystem's NQN.
    pub(crate) subsystem: String,
    /// The namespace's UUID.
    pub(crate) uuid: [u8; 16],
}

/// Makes a state directory if it is not there, and finds out whether it can be written to.
///
/// # Errors
/// Says what is in the way.
pub fn prepare_state_directory(directory: &Path) -> Result<(), StateError> {
    let reservations = directory.join(RESERVATIONS);
    let is_new = !reservations.exists();
    let failed = |action: &'static str, path: &Path| {
        let path = path.to_owned();
        move |error| StateError::Io { action, path, error }
    };
    DirBuilder::new()
        .recursive(true)
        .mode(DIRECTORY_MODE)
        .create(&reservations)
        .map_err(failed("make the directory", &reservations))?;
    if is_new {
        file::sync_directory(directory).map_err(failed("make the directory last", directory))?;
    }
    let probe = reservations.join(format!(".probe-{}", std::process::id()));
    File::create(&probe).map_err(failed("write to the directory", &reservations))?;
    fs::remove_file(&probe).map_err(failed("write to the directory", &reservations))
}

enum Request {
    Load { namespace: NamespaceName, answer: Sender<Result<Option<SavedReservations>, StateError>> },
    Store(Box<ToStore>),
    Release(NamespaceName),
    Barrier(Sender<()>),
    End,
}

/// Reservations on their way to the disk.
pub(crate) struct ToStore {
    /// Whose they are.
    pub(crate) namespace: NamespaceName,
    /// What they are; none are to be stored any more if `None`.
    pub(crate) saved: Option<SavedReservations>,
    /// The pipeline to be told, by [`ToPipeline::Stored`].
    pub(crate) pipeline: Mailbox<ToPipeline>,
    /// The subsystem's slot there.
    pub(crate) subsystem: usize,
    /// The namespace's number there.
    pub(crate) nsid: u32,
    /// What the subsystem knows this copy by.
    pub(crate) ticket: u64,
}

/// Whoever wants something of the state directory.
#[derive(Clone)]
pub(crate) struct Keeper(Sender<Request>);

impl Keeper {
    /// What is stored of a namespace's reservations. From then on the file is this target's alone.
    pub(crate) fn load(&self, namespace: NamespaceName) -> Result<Option<SavedReservations>, StateError> {
        let (answer, answered) = channel();
        drop(self.0.send(Request::Load { namespace, answer }));
        answered.recv().unwrap_or(Err(StateError::Gone))
    }

    /// Stores reservations, and tells the pipeline. False if nobody is there to do it.
    pub(crate) fn store(&self, to_store: ToStore) -> bool {
        self.0.send(Request::Store(Box::new(to_store))).is_ok()
    }

    /// A namespace is served no more: another target may serve it.
    pub(crate) fn release(&self, namespace: NamespaceName) {
        drop(self.0.send(Request::Release(namespace)));
    }

    /// Waits until everything that was asked for before is done; false if it is not by `deadline`.
    pub(crate) fn barrier(&self, deadline: Instant) -> bool {
        let (answer, answered) = channel();
        drop(self.0.send(Request::Barrier(answer)));
        let left = deadline.saturating_duration_since(Instant::now());
        answered.recv_timeout(left) != Err(RecvTimeoutError::Timeout)
    }
}

/// The keeper's thread. Dropping it ends it, after everything that was asked for before.
pub(crate) struct StateThread {
    keeper: Keeper,
    ended: Receiver<()>,
    handle: Option<JoinHandle<()>>,
}

impl StateThread {
    /// Starts it over a directory, which is made if it is not there.
    pub(crate) fn start(directory: &Path) -> Result<StateThread, StateError> {
        prepare_state_directory(directory)?;
        let (sender, requests) = channel();
        let (end, ended) = channel();
        let mut files = Files { directory: directory.join(RESERVATIONS), open: HashMap::new(), failures: 0 };
        let handle = thread::Builder::new().name("state".to_owned()).spawn(move || {
            while let Ok(request) = requests.recv() {
                if files.serve(request) {
                    break;
                }
            }
            drop(end);
        });
        let handle = handle.map_err(|error| StateError::Io {
            action: "start a thread for the directory",
            path: directory.to_owned(),
            error,
        })?;
        Ok(StateThread { keeper: Keeper(sender), ended, handle: Some(handle) })
    }

    /// For whoever wants something of it.
    pub(crate) fn keeper(&self) -> &Keeper {
        &self.keeper
    }
}

impl Drop for StateThread {
    fn drop(&mut self) {
        drop(self.keeper.0.send(Request::End));
        if self.ended.recv_timeout(STOP_GRACE) == Err(RecvTimeoutError::Timeout) {
            return error!("the state directory's disk hangs: its thread is left behind");
        }
        if let Some(handle) = self.handle.take()
            && handle.join().is_err()
        {
            error!("the state directory's thread panicked");
        }
    }
}

/// The files of this target.
struct Files {
    directory: PathBuf,
    open: HashMap<NamespaceName, StateFile>,
    failures: u64,
}

impl Files {
    /// Whether that was the end.
    fn serve(&mut self, request: Request) -> bool {
        match request {
            // Whoever asked may have waited too long.
            Request::Load { namespace, answer } => drop(answer.send(self.load(&namespace))),
            Request::Store(to_store) => self.store(*to_store),
            Request::Release(namespace) => drop(self.open.remove(&namespace)),
            Request::Barrier(answer) => drop(answer.send(())),
            Request::End => return true,
        }
        false
    }

    fn load(&mut self, namespace: &NamespaceName) -> Result<Option<SavedReservations>, StateError> {
        if let Some(file) = self.open.get_mut(namespace) {
            return file.load();
        }
        let mut file = StateFile::new(&self.directory, namespace);
        let loaded = file.load()?;
        self.open.insert(namespace.clone(), file);
        Ok(loaded)
    }

    fn store(&mut self, to_store: ToStore) {
        let ToStore { namespace, saved, pipeline, subsystem, nsid, ticket } = to_store;
        let file = self.open.get_mut(&namespace);
        let result = match file {
            Some(file) => file.store(saved.as_ref()),
            // It was loaded before it was served.
            None => Err(StateError::Gone),
        };
        if let Err(error) = &result {
            self.failures += 1;
            // Hosts can ask again and again: the log gets the first, the second, the fourth …
            if self.failures.is_power_of_two() {
                let (subsystem, count) = (&namespace.subsystem, self.failures);
                error!(subsystem, nsid, count, %error, "a change of reservations cannot be stored: the command fails, and nothing changes");
            }
        }
        pipeline.tell(ToPipeline::Stored { subsystem, nsid, ticket, is_stored: result.is_ok() });
    }
}
