//! Opens the auxiliary store that a configuration describes, and reads its log.
//!
//! A log belongs to one SSD. It names the SSD by properties that the system knows: a block device by its world-wide name or serial number, a
//! file by its path and its number in the file system.

use super::super::contents::{identity, keeps_contents};
use super::super::error::DeviceError;
use super::super::held::Held;
use super::super::open::{Opened, Wanted, Writing, is_block_device, open_disk, open_file};
use crate::config::{AisConfig, AisStore, DeviceConfig, FaultConfig};
use crate::state::{Keeper, LogRecord};
use ais::{Drive, LogOptions, Medium, OpenLog};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use tracing::{info, warn};
use units::Bytes;

/// A store that is open and not on a reactor yet.
pub(crate) struct OpenAuxiliary {
    pub(super) drive: Drive,
    pub(super) size: Bytes,
    pub(super) log: Option<OpenedLog>,
    pub(super) faults: Vec<FaultConfig>,
}

/// A log and its file or device.
pub(super) struct OpenedLog {
    pub(super) note: Option<LogNote>,
    pub(super) log: OpenLog,
    pub(super) file: File,
    pub(super) is_block: bool,
    held: Arc<Held>,
}

impl OpenAuxiliary {
    /// The file or disk of its log, if it has one.
    pub(in super::super) fn held(&self) -> Option<&Arc<Held>> {
        self.log.as_ref().map(|log| &log.held)
    }
}

/// A file, read and written at once.
struct Synchronous(File);

impl Medium for Synchronous {
    fn read(&mut self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(into, at)
    }

    fn write_durably(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, at)?;
        self.0.sync_data()
    }
}

/// The note in the state directory that an SSD may have data in a log.
pub(super) struct LogNote {
    keeper: Keeper,
    record: LogRecord,
}

impl LogNote {
    /// Makes the note, before the first host writes.
    pub(super) fn make(&self) -> io::Result<()> {
        self.keeper.store_log(self.record.clone()).map_err(io::Error::other)
    }

    /// Takes the note back: the SSD has all of its data.
    pub(super) fn take_back(&self) {
        self.keeper.forget_log(self.record.ssd.clone());
    }
}

/// Refuses to serve `device` without the log that may have data of it.
pub(crate) fn expect_log(
    device: &DeviceConfig,
    keeper: Option<&Keeper>,
    opened: Option<&OpenAuxiliary>,
) -> Result<(), DeviceError> {
    let (Some(keeper), true) = (keeper, keeps_contents(device)) else { return Ok(()) };
    let found = keeper.load_log(identity(device)).map_err(DeviceError::State)?;
    let Some((LogRecord { log: path, name, epoch, size, .. }, note)) = found else { return Ok(()) };
    let opened = opened.and_then(|opened| opened.log.as_ref());
    let why = match opened {
        Some(opened) if opened.log.follows(name, epoch) => return Ok(()),
        Some(_) => "the log that is configured is another one, a new one, or an older copy",
        None => "no log is configured",
    };
    Err(DeviceError::LogMissing { device: device.name.clone(), path, size, why, note })
}

/// Opens the store of `device`, which has `size` bytes.
pub(crate) fn open(
    device: &DeviceConfig,
    config: &AisConfig,
    size: Bytes,
    keeper: Option<&Keeper>,
) -> Result<OpenAuxiliary, DeviceError> {
    let drive = load_drive(&config.profile)?;
    let log = match &config.store {
        AisStore::Ram => None,
        AisStore::Log(path) => Some(open_log((device, config), path, size, keeper)?),
    };
    Ok(OpenAuxiliary { drive, size: config.size, log, faults: config.faults.clone() })
}

/// The profile of the device's write buffer.
pub(crate) fn load_drive(path: &Path) -> Result<Drive, DeviceError> {
    let unusable = |why: String| DeviceError::Unusable { path: path.to_owned(), why };
    let profile = probe::Profile::load(path).map_err(|error| unusable(error.to_string()))?;
    Drive::of(&profile).ok_or_else(|| {
        unusable(
            "says of no write buffer, or not how it recovers: there is nothing to predict. Remove [device.ais], or probe the device \
             again without --quick"
                .to_owned(),
        )
    })
}

fn open_log(
    (device, config): (&DeviceConfig, &AisConfig),
    path: &Path,
    size: Bytes,
    keeper: Option<&Keeper>,
) -> Result<OpenedLog, DeviceError> {
    let is_block = match is_block_device(path) {
        Err(DeviceError::Missing { .. }) if config.create => false,
        is_block => is_block?,
    };
    let open = |direct| {
        if is_block {
            return open_disk(path, direct, false, Writing::Must);
        }
        let (size, create, force) = (Some(config.size), config.create, false);
        open_file(path, Wanted { size, create, direct, force, writing: Writing::Must })
    };
    let Opened { file, .. } = match open(true) {
        Err(DeviceError::NoDirectIo(_)) => open(false)?,
        file => file?,
    };
    let system = |step| move |error| DeviceError::System { path: path.to_owned(), step, error };
    let cached = File::options().read(true).write(true).open(path).map_err(system("opened"))?;
    let length = rustix::fs::seek(&cached, rustix::fs::SeekFrom::End(0)).map_err(io::Error::from);
    let length = length.map_err(system("measured"))?;
    if length < config.size.get() {
        let why = format!("has {length} bytes, fewer than [device.ais] size = {}", config.size);
        return Err(DeviceError::Unusable { path: path.to_owned(), why });
    }
    let options = LogOptions {
        size: config.size.get(),
        identity: identity(device),
        device_size: size.get(),
        name: random().map_err(system("named"))?,
        boot: boot(),
        overwrite: false,
    };
    let mut medium = Synchronous(cached);
    let refused = |error| DeviceError::Log { path: path.to_owned(), error };
    let log = OpenLog::open(&mut medium, &options).map_err(refused)?;
    let pending = Bytes(log.pending());
    info!(device = %device.name, log = %path.display(), %pending, "the auxiliary store is open");
    let held = Arc::new(Held::new(path, &file)?);
    let note = keeper.filter(|_| keeps_contents(device)).map(|keeper| {
        let (ssd, name, epoch) = (options.identity.clone(), log.name(), log.epoch());
        let record = LogRecord { ssd, log: path.to_owned(), name, epoch, size: config.size };
        LogNote { keeper: keeper.clone(), record }
    });
    if note.is_none() && keeps_contents(device) {
        warn!(
            device = %device.name,
            "there is no state directory: after a kill, a start without the log of the auxiliary store would not be noticed"
        );
    }
    Ok(OpenedLog { note, log, file, is_block, held })
}

fn random() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Names the time since the machine was started; zeros if the system does not tell.
fn boot() -> [u8; 16] {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    crate::identity::parse_uuid(text.trim()).unwrap_or_default()
}
