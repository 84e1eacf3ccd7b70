//! From the configuration of a device to the device.
//!
//! Opening has two steps, as a reactor belongs to its thread: [`open`] finds out on the caller's thread whether the device can
//! be had at all and how large it is; [`OpenDevice::start`] hands it to the reactor of its pipeline.

use super::emulated::{Contents, EmulatedDevice};
use super::faulty::FaultyDevice;
use super::file::FileDevice;
use super::flush_guard::FlushGuard;
use super::null::NullDevice;
use super::sparse::SparseMemory;
use super::{Device, DeviceClock};
use crate::config::{Backing, Condition, DeviceConfig, DeviceKind, EmulatedConfig, FaultConfig};
use crate::patience::patiently;
use reactor::{IoBuffer, Reactor};
use ssd::{Profile, ProfileError, Ssd};
use std::fmt;
use std::fs::{File, FileType, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use units::{Bytes, Instant};

/// The granularity of every Linux block device that is not formatted for larger blocks.
const SECTOR_SIZE: u32 = 512;
/// What direct IO accepts on every device there is.
const PAGE_SIZE: u32 = IoBuffer::ALIGNMENT as u32;

/// Why a device cannot be had.
#[derive(Debug)]
pub enum DeviceError {
    /// The file does not exist, and `create` or `size` is not given.
    Missing(PathBuf),
    /// The system refuses to open, make or extend it.
    System {
        /// The file.
        path: PathBuf,
        /// What was tried.
        step: &'static str,
        /// What the system answered.
        error: io::Error,
    },
    /// It is not what the configuration says it is.
    WrongKind {
        /// The file.
        path: PathBuf,
        /// What it should be.
        expected: &'static str,
    },
    /// Another target has it.
    InUse(PathBuf),
    /// It is smaller than one block.
    Empty(PathBuf),
    /// Its file system goes through the page cache only, which was not asked for.
    NoDirectIo(PathBuf),
    /// The profile of an emulated SSD cannot be had.
    Profile(ProfileError),
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceError::Missing(path) => {
                write!(f, "{}: does not exist; give it a size to have it made", path.display())
            }
            DeviceError::System { path, step, error } => {
                write!(
                    f,
                    "{}: cannot be {step}: {error}; check the path, its permissions and the space",
                    path.display()
                )
            }
            DeviceError::WrongKind { path, expected } => {
                write!(f, "{}: is not a {expected}; set the device's kind to what it is", path.display())
            }
            DeviceError::InUse(path) => {
                write!(f, "{}: another target shares it already; stop that one first", path.display())
            }
            DeviceError::Empty(path) => {
                write!(f, "{}: is smaller than 4 KiB; give it a size", path.display())
            }
            DeviceError::NoDirectIo(path) => {
                write!(
                    f,
                    "{}: the file system has no direct IO; put the file on another one, or set `direct = false` in the \
                     configuration of the device to go through the page cache",
                    path.display()
                )
            }
            DeviceError::Profile(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for DeviceError {}

/// What there is to know of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// Bytes it holds.
    pub(crate) size: Bytes,
    /// The smallest block it can be read and written in.
    pub(crate) block_size_min: u32,
    /// Whether a discarded range is sure to read as zeros. Not on disk: not every file system makes holes.
    pub(crate) discard_zeroes: bool,
}

/// A device that was found and is not on a reactor yet.
pub(crate) struct OpenDevice {
    /// What is known of it.
    pub(crate) facts: Facts,
    source: Source,
    name: String,
    faults: Vec<FaultConfig>,
}

enum Source {
    File { file: File, is_regular: bool, is_direct: bool },
    Emulated { model: Box<Ssd>, config: EmulatedConfig, backing: Option<File> },
    Null,
}

impl OpenDevice {
    /// Hands the device to the reactor of its pipeline.
    pub(crate) fn start(self, now: Instant, reactor: &mut Reactor) -> io::Result<Box<dyn Device>> {
        // The contents of an emulated SSD in a file go through the page cache.
        let is_buffered = match &self.source {
            Source::File { is_direct, .. } => !is_direct,
            Source::Emulated { backing, .. } => backing.is_some(),
            Source::Null => false,
        };
        let device: Box<dyn Device> = match self.source {
            Source::File { file, is_regular, .. } => Box::new(FileDevice::start(file, is_regular, reactor)?),
            Source::Emulated { model, config, backing } => {
                let contents = match (backing, config.backing) {
                    (Some(file), _) => Contents::File(FileDevice::start(file, true, reactor)?),
                    (None, Backing::None) => Contents::Nothing,
                    (None, _) => Contents::Memory(SparseMemory::new(config.size.get())),
                };
                let clock = DeviceClock::starting(now, config.speed);
                Box::new(EmulatedDevice::new(*model, clock, contents))
            }
            Source::Null => Box::new(NullDevice::default()),
        };
        let device = match &self.faults[..] {
            [] => device,
            faults => Box::new(FaultyDevice::new(now, device, faults)),
        };
        Ok(Box::new(FlushGuard::new(device, self.name, is_buffered)))
    }
}

/// Finds the device that `config` describes.
pub(crate) fn open(config: &DeviceConfig) -> Result<OpenDevice, DeviceError> {
    Ok(OpenDevice { name: config.name.clone(), faults: config.faults.clone(), ..open_sound(config)? })
}

/// The same, without its name and the faults it is to have.
fn open_sound(config: &DeviceConfig) -> Result<OpenDevice, DeviceError> {
    match &config.kind {
        DeviceKind::File { path, size, create, direct } => {
            let file = open_file(path, *size, *create, *direct)?;
            let length = file.metadata().map_err(system(path, "measured"))?.len();
            on_disk(path, file, length, (true, *direct))
        }
        DeviceKind::Block { path, direct } => {
            let mut file = open_existing(path, *direct)?;
            expect_kind(path, &file, FileTypeExt::is_block_device, "block device")?;
            let length = file.seek(SeekFrom::End(0)).map_err(system(path, "measured"))?;
            on_disk(path, file, length, (false, *direct))
        }
        DeviceKind::Emulated(emulated) => {
            let profile = load_profile(&emulated.profile).map_err(DeviceError::Profile)?;
            let backing = match &emulated.backing {
                Backing::Ram | Backing::None => None,
                Backing::File(path) => {
                    let file = open_file(path, Some(emulated.size), true, false)?;
                    lock(path, &file)?;
                    Some(file)
                }
            };
            let condition = match emulated.condition {
                Condition::Clean => ssd::Condition::Clean,
                Condition::Fragmented => ssd::Condition::Fragmented,
            };
            let model = Box::new(Ssd::new(&profile, condition, emulated.seed));
            let discard_zeroes = backing.is_none();
            let source = Source::Emulated { model, config: emulated.clone(), backing };
            let facts = Facts { size: emulated.size, block_size_min: SECTOR_SIZE, discard_zeroes };
            Ok(OpenDevice { facts, source, name: String::new(), faults: Vec::new() })
        }
        DeviceKind::Null { size } => Ok(OpenDevice {
            facts: Facts { size: *size, block_size_min: SECTOR_SIZE, discard_zeroes: true },
            source: Source::Null,
            name: String::new(),
            faults: Vec::new(),
        }),
    }
}

/// The profile called `name`, or in the file of that name.
pub(crate) fn load_profile(name: &str) -> Result<Profile, ProfileError> {
    if name.contains('/') || name.ends_with(".toml") {
        Profile::load(Path::new(name))
    } else {
        Profile::named(name)
    }
}

/// How large a device is that was opened before, after what `config` says about its size has changed, or the device itself.
pub(crate) fn measure(config: &DeviceConfig) -> Result<Bytes, DeviceError> {
    match &config.kind {
        DeviceKind::File { path, size, direct, .. } => {
            let file = open_file(path, *size, false, *direct)?;
            usable(path, file.metadata().map_err(system(path, "measured"))?.len())
        }
        DeviceKind::Block { path, direct } => {
            let mut file = open_existing(path, *direct)?;
            usable(path, file.seek(SeekFrom::End(0)).map_err(system(path, "measured"))?)
        }
        DeviceKind::Emulated(EmulatedConfig { size, .. }) | DeviceKind::Null { size } => Ok(*size),
    }
}

/// As much of a file as can be read and written directly.
fn usable(path: &Path, length: u64) -> Result<Bytes, DeviceError> {
    match length - length % u64::from(PAGE_SIZE) {
        0 => Err(DeviceError::Empty(path.to_owned())),
        size => Ok(Bytes(size)),
    }
}

fn on_disk(
    path: &Path,
    file: File,
    length: u64,
    (is_regular, is_direct): (bool, bool),
) -> Result<OpenDevice, DeviceError> {
    lock(path, &file)?;
    let size = usable(path, length)?;
    let block_size_min = if accepts_sectors(&file) { SECTOR_SIZE } else { PAGE_SIZE };
    let source = Source::File { file, is_regular, is_direct };
    Ok(OpenDevice {
        facts: Facts { size, block_size_min, discard_zeroes: false },
        source,
        name: String::new(),
        faults: Vec::new(),
    })
}

fn open_file(path: &Path, size: Option<Bytes>, create: bool, direct: bool) -> Result<File, DeviceError> {
    if !path.exists() {
        if !create || size.is_none() {
            return Err(DeviceError::Missing(path.to_owned()));
        }
        OpenOptions::new().write(true).create_new(true).open(path).map_err(system(path, "made"))?;
    }
    let file = open_existing(path, direct)?;
    expect_kind(path, &file, FileType::is_file, "regular file")?;
    let length = file.metadata().map_err(system(path, "measured"))?.len();
    if let Some(size) = size
        && length < size.get()
    {
        file.set_len(size.get()).map_err(system(path, "extended"))?;
    }
    Ok(file)
}

fn open_existing(path: &Path, direct: bool) -> Result<File, DeviceError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    if direct {
        return match options.custom_flags(libc::O_DIRECT).open(path) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                Err(DeviceError::NoDirectIo(path.to_owned()))
            }
            result => result.map_err(system(path, "opened")),
        };
    }
    options.open(path).map_err(system(path, "opened"))
}

fn expect_kind(
    path: &Path,
    file: &File,
    is_kind: impl FnOnce(&FileType) -> bool,
    expected: &'static str,
) -> Result<(), DeviceError> {
    let kind = file.metadata().map_err(system(path, "examined"))?.file_type();
    if is_kind(&kind) { Ok(()) } else { Err(DeviceError::WrongKind { path: path.to_owned(), expected }) }
}

/// An advisory lock for as long as the file is open: two targets over one file would each cache and reserve alone.
fn lock(path: &Path, file: &File) -> Result<(), DeviceError> {
    match patiently(|| file.try_lock(), |error| matches!(error, TryLockError::WouldBlock)) {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(DeviceError::InUse(path.to_owned())),
        // Some network file systems have no locks; to refuse those would help nobody.
        Err(TryLockError::Error(error)) => {
            tracing::warn!(path = %path.display(), %error, "cannot be locked against a second target");
            Ok(())
        }
    }
}

/// Whether the file can be read in sectors of 512 bytes: not so with direct IO on a device of 4 KiB sectors.
fn accepts_sectors(file: &File) -> bool {
    let mut memory = vec![0u8; 2 * PAGE_SIZE as usize];
    let aligned = memory.as_ptr().align_offset(PAGE_SIZE as usize);
    let sector = &mut memory[aligned..aligned + SECTOR_SIZE as usize];
    file.read_exact_at(sector, u64::from(SECTOR_SIZE)).is_ok()
}

fn system(path: &Path, step: &'static str) -> impl FnOnce(io::Error) -> DeviceError {
    let path = path.to_owned();
    move |error| DeviceError::System { path, step, error }
}
