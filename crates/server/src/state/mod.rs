//! The state directory, which outlives the target: reservations that persist through power loss, learnt models of SSDs (`learnt`),
//! which SSDs may have data in a log (`logs`), which blocks have to be erased (`wipes`), and which pools directories had (`pools`). Its version is in a file of its own (`version`).
//!
//! ```text
//!   server  ── load ──►┐                       DIRECTORY/reservations/UUID-HASH.json
//!   pipeline ─ store ─►│ keeper's thread ─────► temporary file ─ fsync ─ rename ─ fsync of the directory
//!   pipeline ◄─ stored ┘        (one request after the other)
//! ```
//!
//! A disk can be slow, so a thread of its own writes the files. Pipelines continue, and answer a command when its change is stored.
//! Requests are served in order, so a load returns the content that was stored last.
//!
//! Each namespace has its own file, named after its UUID and its subsystem. The target that serves the namespace locks the file. So two
//! targets can use one directory, but not for the same namespace.
//!
//! Holds: a change that was answered survives `kill -9`; a damaged file prevents the start
//!        (`crates/gimbal/tests/reservations.rs`); if the directory cannot be written, the command fails and changes nothing
//!        (`tests/reservations.rs`).
//! Elsewhere: `format` is the format of a file, `file` one file on the disk; `nvme::subsystem`'s `persistence` decides when a command
//!            is answered.

mod error;
mod file;
mod format;
mod frame;
mod inspect;
mod learnt;
mod logs;
mod pools;
mod trust;
mod version;
mod wipes;

pub use error::StateError;
pub use inspect::{StateContents, StoredReservations, check_state_directory, inspect_state_directory};
pub(crate) use logs::LogRecord;
pub(crate) use pools::PoolRecord;
pub(crate) use wipes::WipeRecord;

use file::StateFile;
use nvme::subsystem::SavedReservations;
use sched::Learnt;
use std::collections::HashMap;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tracing::{error, warn};

/// The folder of the reservations in the state directory.
const RESERVATIONS: &str = "reservations";
/// The folder of learnt models of SSDs.
const LEARNT: &str = "learnt";
/// That of the notes which SSDs may have data in a log.
const LOGS: &str = "logs";
/// That of the notes which blocks have to be erased.
const WIPES: &str = "wipes";
/// That of the pools that directories had.
const POOLS: &str = "pools";
/// All folders of notes.
const NOTES: [&str; 4] = [LEARNT, LOGS, WIPES, POOLS];
/// Only the owner may read the keys and names of hosts.
const DIRECTORY_MODE: u32 = 0o700;
/// Longest wait for the end of the thread. A thread whose disk hangs never ends.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// The name of a namespace in files. It does not depend on its number and its device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NamespaceName {
    /// The subsystem's NQN.
    pub(crate) subsystem: String,
    /// The namespace's UUID.
    pub(crate) uuid: [u8; 16],
}

/// Creates a state directory if it does not exist, checks that it can be written, and brings it to the version of this program.
///
/// # Errors
/// Says what failed, and what to do.
pub fn prepare_state_directory(directory: &Path) -> Result<(), StateError> {
    let reservations = directory.join(RESERVATIONS);
    version::expect_kind(directory, version::Kind::Directory)?;
    let is_new = !reservations.exists();
    if directory.exists() {
        trust::expect_trusted(directory, trust::Others::MayAddFiles)?;
        version::known(directory)?;
    }
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
    for folder in NOTES.map(|name| directory.join(name)) {
        DirBuilder::new()
            .recursive(true)
            .mode(DIRECTORY_MODE)
            .create(&folder)
            .map_err(failed("make the directory", &folder))?;
    }
    for folder in [RESERVATIONS].into_iter().chain(NOTES) {
        trust::expect_trusted(&directory.join(folder), trust::Others::MayNotWrite)?;
    }
    let probe = reservations.join(format!(".probe-{}", std::process::id()));
    file::write_new(&probe, &[]).map_err(failed("write to the directory", &reservations))?;
    fs::remove_file(&probe).map_err(failed("write to the directory", &reservations))?;
    version::settle(directory, &reservations)
}

enum Request {
    Load { namespace: NamespaceName, answer: Sender<Result<Option<SavedReservations>, StateError>> },
    Store(Box<ToStore>),
    Release(NamespaceName),
    LoadLearnt { ssd: String, answer: Sender<Result<Option<Learnt>, StateError>> },
    StoreLearnt { ssd: String, learnt: Learnt },
    LoadLog { ssd: String, answer: Sender<Result<Option<(LogRecord, PathBuf)>, StateError>> },
    StoreLog { record: LogRecord, answer: Sender<Result<(), StateError>> },
    ForgetLog(String),
    LoadWipes { ssd: String, answer: Sender<Result<Vec<WipeRecord>, StateError>> },
    NoteWipe { ssd: String, record: WipeRecord, answer: Sender<Result<(), StateError>> },
    ForgetWipe { ssd: String, record: WipeRecord, answer: Sender<Result<(), String>> },
    LoadPool { directory: PathBuf, answer: Sender<Result<Option<(PoolRecord, PathBuf)>, StateError>> },
    StorePool { record: PoolRecord, answer: Sender<Result<(), StateError>> },
    Barrier(Sender<()>),
    End,
}

/// Reservations to store.
pub(crate) struct ToStore {
    /// The namespace.
    pub(crate) namespace: NamespaceName,
    /// The number of the namespace in its subsystem, for the log.
    pub(crate) nsid: u32,
    /// The reservations; `None` removes the file.
    pub(crate) saved: Option<SavedReservations>,
    /// Called by the keeper's thread when the reservations are on the disk (true) or cannot be stored (false).
    pub(crate) answer: Box<dyn FnOnce(bool) + Send>,
}

/// The handle of the state directory's thread.
#[derive(Clone)]
pub(crate) struct Keeper(Sender<Request>);

impl Keeper {
    /// Loads the stored reservations of a namespace. From then on this target holds the lock of the file.
    pub(crate) fn load(&self, namespace: NamespaceName) -> Result<Option<SavedReservations>, StateError> {
        let (answer, answered) = channel();
        drop(self.0.send(Request::Load { namespace, answer }));
        answered.recv().unwrap_or(Err(StateError::Gone))
    }

    /// Stores reservations, and calls `answer` afterwards. Returns false if the thread has ended.
    pub(crate) fn store(&self, to_store: ToStore) -> bool {
        self.0.send(Request::Store(Box::new(to_store))).is_ok()
    }

    /// Releases the file of a namespace that is no longer served. Another target may serve it.
    pub(crate) fn release(&self, namespace: NamespaceName) {
        drop(self.0.send(Request::Release(namespace)));
    }

    /// Loads the model of the SSD of this name.
    pub(crate) fn load_learnt(&self, ssd: String) -> Result<Option<Learnt>, StateError> {
        let (answer, answered) = channel();
        drop(self.0.send(Request::LoadLearnt { ssd, answer }));
        answered.recv().unwrap_or(Err(StateError::Gone))
    }

    /// Stores the model of an SSD. A failure is logged, and the model is learnt again after a restart.
    pub(crate) fn store_learnt(&self, ssd: String, learnt: Learnt) {
        drop(self.0.send(Request::StoreLearnt { ssd, learnt }));
    }

    /// The log that may have data of the SSD of this name, and the file that says so.
    pub(crate) fn load_log(&self, ssd: String) -> Result<Option<(LogRecord, PathBuf)>, StateError> {
        let (answer, answered) = channel();
        drop(self.0.send(Request::LoadLog { ssd, answer }));
        answered.recv().unwrap_or(Err(StateError::Gone))
    }

    /// Notes that an SSD may have data in a log. When this returns, that survives a kill.
    pub(crate) fn store_log(&self, record: LogRecord) -> Result<(), StateError> {
        let (answer, answered) = channel();
        drop(self.0.send(Request::StoreLog { record, answer }));
        answered.recv().unwrap_or(Err(StateError::Gone))
    }

    /// Notes that the SSD of this name has all of its data.
    pub(crate) fn forget_log(&self, ssd: String) {
        drop(self.0.send(Request::ForgetLog(ssd)));
    }

    /// The blocks of an SSD that have to be erased.
    pub(crate) fn load_wipes(&self, ssd: String) -> Result<Vec<WipeRecord>, StateError> {
        let (answer, answered) = channel();
        drop(self.0.send(Request::LoadWipes { ssd, answer }));
        answered.recv().unwrap_or(Err(StateError::Gone))
    }

    /// Notes that blocks have to be erased, or that they are due. When this returns, that survives a kill.
    pub(crate) fn note_wipe(&self, ssd: String, record: WipeRecord) -> Result<(), StateError> {
        let (answer, answered) = channel();
        drop(self.0.send(Request::NoteWipe { ssd, record, answer }));
        answered.recv().unwrap_or(Err(StateError::Gone))
    }

    /// Notes that blocks are erased, and says so to `answer` when that survives a kill.
    pub(crate) fn forget_wipe(&self, ssd: String, record: WipeRecord, answer: Sender<Result<(), String>>) {
        drop(self.0.send(Request::ForgetWipe { ssd, record, answer }));
    }

    /// The pool that a directory had, and the file that says so.
    pub(crate) fn load_pool(&self, directory: PathBuf) -> Result<Option<(PoolRecord, PathBuf)>, StateError> {
        let (answer, answered) = channel();
        drop(self.0.send(Request::LoadPool { directory, answer }));
        answered.recv().unwrap_or(Err(StateError::Gone))
    }

    /// Notes the pool of a directory. When this returns, that survives a kill.
    pub(crate) fn store_pool(&self, record: PoolRecord) -> Result<(), StateError> {
        let (answer, answered) = channel();
        drop(self.0.send(Request::StorePool { record, answer }));
        answered.recv().unwrap_or(Err(StateError::Gone))
    }

    /// Waits until all earlier requests are done; false at `deadline`.
    pub(crate) fn barrier(&self, deadline: Instant) -> bool {
        let (answer, answered) = channel();
        drop(self.0.send(Request::Barrier(answer)));
        let left = deadline.saturating_duration_since(Instant::now());
        answered.recv_timeout(left) != Err(RecvTimeoutError::Timeout)
    }
}

/// The keeper's thread. Dropping this ends the thread after all earlier requests.
pub(crate) struct StateThread {
    keeper: Keeper,
    ended: Receiver<()>,
    handle: Option<JoinHandle<()>>,
}

impl StateThread {
    /// Starts the thread. The directory is created if it does not exist.
    pub(crate) fn start(directory: &Path) -> Result<StateThread, StateError> {
        prepare_state_directory(directory)?;
        let (sender, requests) = channel();
        let (end, ended) = channel();
        let mut files = Files {
            directory: directory.join(RESERVATIONS),
            open: HashMap::new(),
            failures: 0,
            learnt: directory.join(LEARNT),
            unlearnt: 0,
            logs: directory.join(LOGS),
            wipes: directory.join(WIPES),
            pools: directory.join(POOLS),
        };
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

    /// A handle of the thread.
    pub(crate) fn keeper(&self) -> &Keeper {
        &self.keeper
    }
}

impl Drop for StateThread {
    fn drop(&mut self) {
        drop(self.keeper.0.send(Request::End));
        if self.ended.recv_timeout(STOP_GRACE) == Err(RecvTimeoutError::Timeout) {
            return error!("the disk of the state directory hangs; the target ends without waiting for it");
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
    /// The folder of learnt models, and the number of failures to store one.
    learnt: PathBuf,
    unlearnt: u64,
    /// The notes which SSDs may have data in a log.
    logs: PathBuf,
    /// The notes which blocks have to be erased.
    wipes: PathBuf,
    /// The pools that directories had.
    pools: PathBuf,
}

impl Files {
    /// Whether that was the end.
    fn serve(&mut self, request: Request) -> bool {
        match request {
            // The receiver may have stopped waiting at its deadline.
            Request::Load { namespace, answer } => drop(answer.send(self.load(&namespace))),
            Request::Store(to_store) => self.store(*to_store),
            Request::Release(namespace) => drop(self.open.remove(&namespace)),
            Request::LoadLearnt { ssd, answer } => drop(answer.send(learnt::load(&self.learnt, &ssd))),
            Request::StoreLearnt { ssd, learnt } => self.store_learnt(&ssd, &learnt),
            Request::LoadLog { ssd, answer } => drop(answer.send(logs::load(&self.logs, &ssd))),
            Request::StoreLog { record, answer } => drop(answer.send(logs::store(&self.logs, &record))),
            Request::ForgetLog(ssd) => {
                if let Err(error) = logs::forget(&self.logs, &ssd) {
                    warn!(ssd, %error, "the SSD has all of its data, but the note of its log stays: it needs the log at the next start");
                }
            }
            Request::LoadWipes { ssd, answer } => drop(answer.send(wipes::load(&self.wipes, &ssd))),
            Request::NoteWipe { ssd, record, answer } => {
                drop(answer.send(wipes::note(&self.wipes, &ssd, &record)));
            }
            Request::ForgetWipe { ssd, record, answer } => {
                let forgotten = wipes::forget(&self.wipes, &ssd, &record);
                drop(answer.send(forgotten.map_err(|error| error.to_string())));
            }
            Request::LoadPool { directory, answer } => {
                drop(answer.send(pools::load(&self.pools, &directory)));
            }
            Request::StorePool { record, answer } => drop(answer.send(pools::store(&self.pools, &record))),
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

    fn store_learnt(&mut self, ssd: &str, learnt: &Learnt) {
        if let Err(error) = learnt::store(&self.learnt, ssd, learnt) {
            self.unlearnt += 1;
            if self.unlearnt.is_power_of_two() {
                let count = self.unlearnt;
                warn!(ssd, count, %error, "cannot save the SSD model; it will be measured again after a restart");
            }
        }
    }

    fn store(&mut self, to_store: ToStore) {
        let ToStore { namespace, nsid, saved, answer } = to_store;
        let file = self.open.get_mut(&namespace);
        let result = match file {
            Some(file) => file.store(saved.as_ref()),
            // It was loaded before it was served.
            None => Err(StateError::Gone),
        };
        if let Err(error) = &result {
            self.failures += 1;
            // Hosts can repeat the command. Only the first, second, fourth, eighth … failure is logged.
            if self.failures.is_power_of_two() {
                let (subsystem, count) = (&namespace.subsystem, self.failures);
                error!(subsystem, nsid, count, %error, "a change of reservations cannot be stored: the command fails and changes nothing");
            }
        }
        answer(result.is_ok());
    }
}
