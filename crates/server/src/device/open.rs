//! Opens the device that a configuration describes.
//!
//! A reactor belongs to its thread, so opening has two steps. [`open`] checks on the caller's thread that the device can be used, and
//! finds its size. [`OpenDevice::start`] gives it to the reactor of its pipeline.
//!
//! A target that serves the wrong device destroys data. So: a file is created only on request, and never in `/dev`; a device or file
//! that other programs use is refused; a file with another size than the configured one is refused. An empty file is accepted as new:
//! the power may have failed while it was created. A write-protected device is served read-only, unless the configuration says otherwise.
//!
//! Holds: each of these rules (`tests/in_use.rs`, `tests/devices.rs` of the crate `gimbal`).
//! Elsewhere: `in_use` finds who uses a disk, `space` checks the room for sparse files, `error` has the texts.

use super::auxiliary::{self, AuxiliaryDevice, OpenAuxiliary};
use super::back_end::{FenceHandle, OpenBackEnd};
use super::directory::{DirectoryDevice, Pool, PoolOptions};
use super::emulated::{Contents, EmulatedDevice};
use super::error::DeviceError;
use super::faulty::FaultyDevice;
use super::file::FileDevice;
use super::flush_guard::FlushGuard;
use super::held::{Held, is_protected_disk};
use super::in_use::{self, User};
use super::null::NullDevice;
use super::nvme;
use super::sparse::{ChunkMap, SparseMemory};
use super::usage::{Allocation, has_holes};
use super::{Device, DeviceClock};
use crate::config::{
    Backing, BlockAccess, Condition, DeviceConfig, DeviceKind, DirectoryConfig, EmulatedConfig, FaultConfig,
};
use crate::retry::retry_while_in_use;
use crate::state::Keeper;
use reactor::{IoBuffer, NvmeNamespace, Reactor};
use ssd::{Profile, ProfileError, Ssd};
use std::fs::{self, File, FileType, Metadata, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use units::{Bytes, Instant};

/// The block size of Linux block devices that are not formatted for larger blocks.
const SECTOR_SIZE: u32 = 512;
/// The alignment that direct IO accepts on every device.
const PAGE_SIZE: u32 = IoBuffer::ALIGNMENT as u32;

/// The properties of a device.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// Its size in bytes.
    pub(crate) size: Bytes,
    /// The smallest block that can be read and written.
    pub(crate) block_size_min: u32,
    /// Whether a discarded range always reads as zeros. Not so on a disk or in a file: not every file system makes holes.
    pub(crate) discard_zeroes: bool,
    /// Whether a write can fail because no space is left: blocks that were never written, or were deallocated, have no storage yet. False
    /// for a block device, which does not tell, and for a file that had no holes when it was opened.
    pub(crate) thin: bool,
    /// Whether nothing of it can be written.
    pub(crate) read_only: bool,
    /// Its file or disk, and that of the log of its auxiliary store: empty for a device without any.
    pub(crate) held: Vec<Arc<Held>>,
    /// Map of the blocks that have storage, for devices where a block may have none: files, because deallocated blocks become holes, and
    /// the memory of a modelled SSD.
    pub(crate) allocation: Option<Arc<Allocation>>,
    /// Whether a flush of it has failed since it was opened.
    pub(crate) flush_failed: Arc<AtomicBool>,
    /// The files of a directory.
    pub(crate) pool: Option<Arc<Pool>>,
    /// The way to a fenced back-end.
    pub(crate) fence: Option<Arc<FenceHandle>>,
}

/// A device that is open and not on a reactor yet.
pub(crate) struct OpenDevice {
    /// Its properties.
    pub(crate) facts: Facts,
    source: Source,
    name: String,
    faults: Vec<FaultConfig>,
    auxiliary: Option<OpenAuxiliary>,
}

enum Source {
    File {
        file: File,
        is_direct: bool,
    },
    Disk {
        file: File,
        is_direct: bool,
        is_polled: bool,
    },
    /// A namespace, and its block device.
    Namespace {
        file: File,
        disk: File,
        namespace: NvmeNamespace,
        is_polled: bool,
    },
    Emulated {
        model: Box<Ssd>,
        config: EmulatedConfig,
        backing: EmulatedBacking,
    },
    /// A directory, whose files come one by one.
    Directory {
        is_direct: bool,
    },
    BackEnd(OpenBackEnd),
    Null,
}

enum EmulatedBacking {
    Memory(Arc<ChunkMap>),
    File(File),
    Nothing,
}

impl OpenDevice {
    /// Gives the device to the reactor of its pipeline.
    pub(crate) fn start(self, now: Instant, reactor: &mut Reactor) -> io::Result<Box<dyn Device>> {
        // The contents of an emulated SSD in a file go through the page cache.
        let is_buffered = match &self.source {
            Source::File { is_direct, .. }
            | Source::Disk { is_direct, .. }
            | Source::Directory { is_direct } => !is_direct,
            Source::Emulated { backing, .. } => matches!(backing, EmulatedBacking::File(_)),
            Source::Namespace { .. } | Source::BackEnd(_) | Source::Null => false,
        };
        let device: Box<dyn Device> = match self.source {
            Source::File { file, .. } => Box::new(FileDevice::start(file, &self.name, reactor)?),
            Source::Disk { file, is_polled, .. } => {
                Box::new(FileDevice::start_disk(file, is_polled, reactor)?)
            }
            Source::Namespace { file, disk, namespace, is_polled } => {
                Box::new(FileDevice::start_namespace((file, disk), namespace, is_polled, reactor)?)
            }
            Source::Emulated { model, config, backing } => {
                let contents = match backing {
                    EmulatedBacking::File(file) => {
                        Contents::File(FileDevice::start(file, &self.name, reactor)?)
                    }
                    EmulatedBacking::Memory(map) => {
                        Contents::Memory(SparseMemory::new(config.size.get(), map))
                    }
                    EmulatedBacking::Nothing => Contents::Nothing,
                };
                let clock = DeviceClock::starting(now, config.speed);
                Box::new(EmulatedDevice::new(*model, clock, contents))
            }
            Source::Directory { .. } => Box::new(DirectoryDevice::new(&self.name)),
            Source::BackEnd(back_end) => Box::new(back_end.start(reactor)),
            Source::Null => Box::new(NullDevice::default()),
        };
        let device = match &self.faults[..] {
            [] => device,
            faults => Box::new(FaultyDevice::new(now, device, faults)),
        };
        let device: Box<dyn Device> = match self.auxiliary {
            None => device,
            Some(opened) => {
                let name = self.name.clone();
                Box::new(AuxiliaryDevice::start(opened, name, device, (now, reactor))?)
            }
        };
        Ok(Box::new(FlushGuard::new(device, self.name, is_buffered, self.facts.flush_failed)))
    }
}

/// Opens the device that `config` describes. `keeper` knows which log may have data of it, and which pool a
/// directory had.
pub(crate) fn open(config: &DeviceConfig, keeper: Option<&Keeper>) -> Result<OpenDevice, DeviceError> {
    let mut sound = open_sound(config, keeper)?;
    if let Some(held) = sound.facts.held.first().filter(|_| sound.facts.read_only && config.ais.is_some()) {
        let why =
            "is read-only, so there is nothing to keep in an auxiliary store; remove [device.ais]".to_owned();
        return Err(DeviceError::Unusable { path: held.path().to_owned(), why });
    }
    let open = |ais| auxiliary::open(config, ais, sound.facts.size, keeper);
    let auxiliary = config.ais.as_ref().map(open).transpose()?;
    auxiliary::expect_log(config, keeper, auxiliary.as_ref())?;
    sound.facts.held.extend(auxiliary.iter().filter_map(OpenAuxiliary::held).cloned());
    Ok(OpenDevice { name: config.name.clone(), faults: config.faults.clone(), auxiliary, ..sound })
}

/// Opens a device without its name and its configured faults.
fn open_sound(config: &DeviceConfig, keeper: Option<&Keeper>) -> Result<OpenDevice, DeviceError> {
    let force = config.force;
    let writing = Writing::of(config.read_only);
    match &config.kind {
        DeviceKind::File { path, size, create, direct } => {
            let wanted = Wanted { size: *size, create: *create, direct: *direct, force, writing };
            let Opened { file, read_only } = open_file(path, wanted)?;
            let length = file.metadata().map_err(system(path, "measured"))?.len();
            let (thin, allocation) = allocation_of(path, &file)?;
            let facts =
                Facts { thin, allocation: Some(allocation), ..facts_of(path, &file, length, read_only)? };
            Ok(sound(facts, Source::File { file, is_direct: *direct }))
        }
        DeviceKind::Block { path, access: BlockAccess { passthrough: true, polled }, .. } => {
            let block = nvme::block_path(path)?;
            let Opened { file: disk, read_only } = open_disk(&block, true, force, writing)?;
            expect_polled(path, &disk, *polled)?;
            let nvme::Found { file, namespace, size } = nvme::open(path, !read_only)?;
            let facts = Facts {
                size: usable(path, size.get())?,
                block_size_min: 1 << namespace.block_size_log2,
                held: vec![Arc::new(Held::new(path, &disk)?)],
                read_only,
                ..Facts::of_size(size)
            };
            Ok(sound(facts, Source::Namespace { file, disk, namespace, is_polled: *polled }))
        }
        DeviceKind::Block { path, direct, access: BlockAccess { polled, .. } } => {
            let Opened { mut file, read_only } = open_disk(path, *direct, force, writing)?;
            expect_polled(path, &file, *polled)?;
            let length = file.seek(SeekFrom::End(0)).map_err(system(path, "measured"))?;
            let facts = facts_of(path, &file, length, read_only)?;
            Ok(sound(facts, Source::Disk { file, is_direct: *direct, is_polled: *polled }))
        }
        DeviceKind::Directory(DirectoryConfig { path, create, direct, reserve }) => {
            let (create, direct, reserve) = (*create, *direct, *reserve);
            let options = PoolOptions { path, direct, create, read_only: config.read_only, reserve };
            let pool = Pool::open(&options, keeper)?;
            let facts = Facts {
                block_size_min: pool.block_size_min(),
                // The files were tried: they make holes, and holes read as zeros.
                discard_zeroes: true,
                thin: true,
                read_only: pool.read_only(),
                held: vec![pool.held()],
                ..Facts::of_size(pool.size()?)
            };
            let facts = Facts { pool: Some(Arc::new(pool)), ..facts };
            Ok(sound(facts, Source::Directory { is_direct: direct }))
        }
        DeviceKind::NvmeTcp(back_end) => {
            let opened = OpenBackEnd::connect(&config.name, back_end)?;
            let facts = Facts {
                block_size_min: opened.block_size(),
                read_only: opened.read_only() || config.read_only == Some(true),
                fence: opened.fence.clone(),
                ..Facts::of_size(opened.size())
            };
            Ok(sound(facts, Source::BackEnd(opened)))
        }
        DeviceKind::Emulated(emulated) => {
            let profile = load_profile(&emulated.profile).map_err(DeviceError::Profile)?;
            let read_only = config.read_only == Some(true);
            let of_size = Facts { read_only, ..Facts::of_size(emulated.size) };
            let (backing, facts) = match &emulated.backing {
                Backing::None => (EmulatedBacking::Nothing, Facts { discard_zeroes: true, ..of_size }),
                Backing::Ram => {
                    let map = Arc::new(ChunkMap::new(emulated.size.get()));
                    let allocation = Some(Arc::new(Allocation::Memory(Arc::clone(&map))));
                    let facts = Facts { thin: true, allocation, discard_zeroes: true, ..of_size };
                    (EmulatedBacking::Memory(map), facts)
                }
                Backing::File(path) => {
                    let (size, create) = (Some(emulated.size), emulated.create);
                    let wanted = Wanted { size, create, direct: false, force, writing };
                    let Opened { file, read_only } = open_file(path, wanted)?;
                    let (thin, allocation) = allocation_of(path, &file)?;
                    let held = vec![Arc::new(Held::new(path, &file)?)];
                    let facts = Facts { thin, allocation: Some(allocation), read_only, held, ..of_size };
                    (EmulatedBacking::File(file), facts)
                }
            };
            let condition = match emulated.condition {
                Condition::Clean => ssd::Condition::Clean,
                Condition::Fragmented => ssd::Condition::Fragmented,
            };
            let model = Box::new(Ssd::new(&profile, condition, emulated.seed));
            Ok(sound(facts, Source::Emulated { model, config: emulated.clone(), backing }))
        }
        DeviceKind::Null { size } => {
            let read_only = config.read_only == Some(true);
            let facts = Facts { discard_zeroes: true, read_only, ..Facts::of_size(*size) };
            Ok(sound(facts, Source::Null))
        }
    }
}

impl Facts {
    /// A writable device of this size, in sectors, with no file behind it.
    fn of_size(size: Bytes) -> Facts {
        Facts {
            size,
            block_size_min: SECTOR_SIZE,
            discard_zeroes: false,
            thin: false,
            read_only: false,
            held: Vec::new(),
            allocation: None,
            flush_failed: Arc::default(),
            pool: None,
            fence: None,
        }
    }
}

/// The SSD profile with this name, or in the file with this name.
pub(crate) fn load_profile(name: &str) -> Result<Profile, ProfileError> {
    Profile::find(name, Path::new(""))
}

/// Examines an open device again, as its name, size or write protection may have changed. Returns its properties. A file that is
/// smaller than its new configured `size` is extended.
pub(crate) fn measure(config: &DeviceConfig, known: &Facts) -> Result<Facts, DeviceError> {
    known.held.iter().try_for_each(|held| held.expect_named())?;
    if let Some(pool) = &known.pool {
        pool.expect_named()?;
        return Ok(Facts { size: pool.size()?, ..known.clone() });
    }
    let Some(held) = known.held.first() else {
        let size = match &config.kind {
            DeviceKind::Emulated(EmulatedConfig { size, .. }) | DeviceKind::Null { size } => *size,
            DeviceKind::File { .. }
            | DeviceKind::Block { .. }
            | DeviceKind::Directory(_)
            | DeviceKind::NvmeTcp(_) => known.size,
        };
        return Ok(Facts { size, ..known.clone() });
    };
    let path = held.path();
    let length = held.length().map_err(system(path, "measured"))?;
    let size = match &config.kind {
        DeviceKind::File { size: Some(size), .. } if length < size.get() => {
            if length < known.size.get() {
                let (found, before) = (Bytes(length), known.size);
                return Err(DeviceError::Cut { path: path.to_owned(), found, before });
            }
            held.extend(size.get()).map_err(system(path, "extended"))?;
            *size
        }
        DeviceKind::File { size: Some(size), .. } => expect_size(path, length, *size).map(|()| *size)?,
        DeviceKind::File { size: None, .. } | DeviceKind::Block { .. } | DeviceKind::Directory(_) => {
            usable(path, length)?
        }
        DeviceKind::NvmeTcp(_) => known.size,
        DeviceKind::Emulated(EmulatedConfig { size, .. }) | DeviceKind::Null { size } => *size,
    };
    let read_only = known.read_only || held.is_write_protected();
    Ok(Facts { size, read_only, ..known.clone() })
}

/// The part of a file that direct IO can read and write.
fn usable(path: &Path, length: u64) -> Result<Bytes, DeviceError> {
    match length - length % u64::from(PAGE_SIZE) {
        0 => Err(DeviceError::Empty(path.to_owned())),
        size => Ok(Bytes(size)),
    }
}

/// Whether `path` is a block device; otherwise it should be a file.
pub(super) fn is_block_device(path: &Path) -> Result<bool, DeviceError> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.file_type().is_block_device()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(absent(path)),
        Err(error) => Err(system(path, "examined")(error)),
    }
}

/// The device in a file or block device that was opened by `open_file` or `open_disk`.
pub(super) fn over_local(
    path: &Path,
    mut file: File,
    is_direct: bool,
    is_block: bool,
) -> Result<OpenDevice, DeviceError> {
    let length = file.seek(SeekFrom::End(0)).map_err(system(path, "measured"))?;
    let facts = facts_of(path, &file, length, false)?;
    let source = if is_block {
        Source::Disk { file, is_direct, is_polled: false }
    } else {
        Source::File { file, is_direct }
    };
    Ok(sound(facts, source))
}

/// A device without a name and without faults.
fn sound(facts: Facts, source: Source) -> OpenDevice {
    OpenDevice { facts, source, name: String::new(), faults: Vec::new(), auxiliary: None }
}

/// The properties of a file or disk of `length` bytes.
fn facts_of(path: &Path, file: &File, length: u64, read_only: bool) -> Result<Facts, DeviceError> {
    let block_size_min = if accepts_sectors(file) { SECTOR_SIZE } else { PAGE_SIZE };
    let held = vec![Arc::new(Held::new(path, file)?)];
    Ok(Facts { block_size_min, read_only, held, ..Facts::of_size(usable(path, length)?) })
}

/// Refuses to poll a block device that has no polled queues.
fn expect_polled(path: &Path, disk: &File, is_polled: bool) -> Result<(), DeviceError> {
    let number = disk.metadata().map_err(system(path, "examined"))?.rdev();
    if is_polled && !nvme::has_polled_queues(number) { Err(nvme::unpolled(path)) } else { Ok(()) }
}

/// Whether a regular file has holes, and the map of its blocks that have storage.
fn allocation_of(path: &Path, file: &File) -> Result<(bool, Arc<Allocation>), DeviceError> {
    let thin = has_holes(file).map_err(system(path, "examined"))?;
    // The clone shares the lock: another target gets the file only after this one has dropped its namespaces, too.
    let file = file.try_clone().map_err(system(path, "examined"))?;
    Ok((thin, Arc::new(Allocation::File(file))))
}

/// Options for opening a regular file.
pub(super) struct Wanted {
    pub(super) size: Option<Bytes>,
    pub(super) create: bool,
    pub(super) direct: bool,
    pub(super) force: bool,
    pub(super) writing: Writing,
}

/// Whether a file or disk is opened for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writing {
    /// Yes; one that cannot be written is refused.
    Must,
    /// If it can be written.
    May,
    /// No.
    Never,
}

impl Writing {
    /// As `read_only` of the configuration says.
    fn of(read_only: Option<bool>) -> Writing {
        match read_only {
            None => Writing::May,
            Some(true) => Writing::Never,
            Some(false) => Writing::Must,
        }
    }
}

/// A file or disk that is open.
pub(super) struct Opened {
    pub(super) file: File,
    /// Whether it cannot, or is not to, be written.
    pub(super) read_only: bool,
}

/// Opens and locks a regular file that has no other users.
pub(super) fn open_file(path: &Path, wanted: Wanted) -> Result<Opened, DeviceError> {
    let Wanted { size, create, direct, force, writing } = wanted;
    match fs::metadata(path) {
        Ok(metadata) => expect_kind(path, &metadata, FileType::is_file, FILE)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => match size {
            Some(_) if create => make(path)?,
            _ => return Err(absent(path)),
        },
        Err(error) => return Err(system(path, "examined")(error)),
    }
    let Opened { file, read_only } = open_for(path, writing, |writes| open_existing(path, direct, writes, 0))
        .map_err(not_opened(path, direct))??;
    let metadata = file.metadata().map_err(system(path, "examined"))?;
    expect_kind(path, &metadata, FileType::is_file, FILE)?;
    lock(path, &file)?;
    refuse_users(path, in_use::users_of_file(&metadata), force)?;
    let length = file.metadata().map_err(system(path, "measured"))?.len();
    match size {
        Some(size) if length == 0 && create => {
            file.set_len(size.get()).map_err(system(path, "extended"))?;
        }
        Some(size) => expect_size(path, length, size)?,
        None => {}
    }
    Ok(Opened { file, read_only })
}

/// Opens a file or disk for writing or reading. The inner error is one that says so.
fn open_for(
    path: &Path,
    writing: Writing,
    open: impl Fn(bool) -> io::Result<File>,
) -> io::Result<Result<Opened, DeviceError>> {
    if writing == Writing::Never {
        return open(false).map(|file| Ok(Opened { file, read_only: true }));
    }
    // The open file is judged, not its name.
    let why = match open(true) {
        Ok(file) => match protection(&file.metadata()?) {
            None => return Ok(Ok(Opened { file, read_only: false })),
            Some(why) => why,
        },
        Err(error) if is_refusal_to_write(&error) => error.to_string(),
        Err(error) => return Err(error),
    };
    let file = open(false)?;
    if writing == Writing::Must {
        return Ok(Err(DeviceError::ReadOnly { path: path.to_owned(), why }));
    }
    tracing::warn!(path = %path.display(), why, "it cannot be written and is served read-only");
    Ok(Ok(Opened { file, read_only: true }))
}

fn is_refusal_to_write(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// The reason why a file or disk is not to be written although the system has opened it for writing: root may open everything.
fn protection(metadata: &Metadata) -> Option<String> {
    if metadata.file_type().is_block_device() {
        return is_protected_disk(metadata.rdev()).then(|| "the device is write-protected".to_owned());
    }
    (metadata.mode() & 0o222 == 0).then(|| "its permissions let nobody write".to_owned())
}

/// Creates an empty file, but never in `/dev`: there, a name that does not exist is a mistake.
fn make(path: &Path) -> Result<(), DeviceError> {
    if is_among_devices(path) || is_link(path) {
        return Err(absent(path));
    }
    OpenOptions::new().write(true).create_new(true).open(path).map(drop).map_err(system(path, "made"))
}

/// The error for a `path` that does not exist.
fn absent(path: &Path) -> DeviceError {
    if is_link(path)
        && let Ok(to) = fs::read_link(path)
    {
        return DeviceError::Dangling { path: path.to_owned(), to };
    }
    if is_among_devices(path) {
        return DeviceError::NoDevice(path.to_owned());
    }
    let device = Path::new("/dev").join(path);
    let is_device =
        path.is_relative() && fs::metadata(&device).is_ok_and(|at| at.file_type().is_block_device());
    DeviceError::Missing { path: path.to_owned(), device: is_device.then_some(device) }
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink())
}

/// Whether `path` is in the file system of `/dev` itself. `/dev/shm` and others are file systems of their own.
fn is_among_devices(path: &Path) -> bool {
    let Ok(devices) = fs::metadata("/dev") else { return false };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(parent) = fs::canonicalize(parent) else { return path.starts_with("/dev") };
    parent.starts_with("/dev") && fs::metadata(&parent).is_ok_and(|parent| parent.dev() == devices.dev())
}

/// Opens and locks a block device that has no other users.
pub(super) fn open_disk(
    path: &Path,
    direct: bool,
    force: bool,
    writing: Writing,
) -> Result<Opened, DeviceError> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(match absent(path) {
                DeviceError::Missing { path, device: None } => DeviceError::NoDevice(path),
                error => error,
            });
        }
        Err(error) => return Err(system(path, "examined")(error)),
    };
    expect_kind(path, &metadata, FileTypeExt::is_block_device, DISK)?;
    let users = in_use::users_of_disk(&metadata);
    refuse_users(path, users, force)?;
    let exclusive = if force { 0 } else { libc::O_EXCL };
    let is_busy = |error: &io::Error| error.kind() == io::ErrorKind::ResourceBusy;
    // A killed target holds the device until its last write has ended.
    let may_go =
        |error: &io::Error| is_busy(error) && in_use::users_of_disk(&metadata).iter().all(User::may_go);
    let open = || open_for(path, writing, |writes| open_existing(path, direct, writes, exclusive));
    let Opened { file, read_only } = match retry_while_in_use(open, may_go) {
        Err(error) if is_busy(&error) => {
            let mut users = in_use::users_of_disk(&metadata);
            users.extend(in_use::processes_with(&metadata));
            return Err(DeviceError::InUse(path.to_owned(), users));
        }
        result => result.map_err(not_opened(path, direct))??,
    };
    let opened = file.metadata().map_err(system(path, "examined"))?;
    expect_kind(path, &opened, FileTypeExt::is_block_device, DISK)?;
    lock(path, &file)?;
    Ok(Opened { file, read_only })
}

pub(super) fn refuse_users(path: &Path, users: Vec<User>, force: bool) -> Result<(), DeviceError> {
    if users.is_empty() {
        return Ok(());
    }
    if !force {
        return Err(DeviceError::InUse(path.to_owned(), users));
    }
    for user in users {
        tracing::warn!(path = %path.display(), %user, "the device is in use, and is shared as the configuration forces it");
    }
    Ok(())
}

fn open_existing(path: &Path, direct: bool, writes: bool, flags: i32) -> io::Result<File> {
    let flags = if direct { flags | libc::O_DIRECT } else { flags };
    OpenOptions::new().read(true).write(writes).custom_flags(flags).open(path)
}

/// The error for a failed `open_existing`.
fn not_opened(path: &Path, direct: bool) -> impl FnOnce(io::Error) -> DeviceError {
    let path = path.to_owned();
    move |error| match error.kind() {
        io::ErrorKind::InvalidInput if direct => DeviceError::NoDirectIo(path),
        _ => DeviceError::System { path, step: "opened", error },
    }
}

pub(super) const FILE: &str = "regular file";
const DISK: &str = "block device";

pub(super) fn expect_kind(
    path: &Path,
    metadata: &Metadata,
    is_kind: impl FnOnce(&FileType) -> bool,
    expected: &'static str,
) -> Result<(), DeviceError> {
    let kind = metadata.file_type();
    if is_kind(&kind) {
        return Ok(());
    }
    let found = match () {
        () if kind.is_file() => FILE,
        () if kind.is_block_device() => DISK,
        () if kind.is_dir() => "directory",
        () if kind.is_fifo() => "FIFO",
        () if kind.is_socket() => "socket",
        () if kind.is_char_device() => "character device",
        () if kind.is_symlink() => "symbolic link",
        () => "file of a kind that is not known",
    };
    Err(DeviceError::WrongKind { path: path.to_owned(), found, expected })
}

fn expect_size(path: &Path, found: u64, wanted: Bytes) -> Result<(), DeviceError> {
    if found == wanted.get() {
        return Ok(());
    }
    Err(DeviceError::Size { path: path.to_owned(), found: Bytes(found), wanted })
}

/// Takes an advisory lock for as long as the file is open. Two targets with one file would not know each other's reservations.
pub(super) fn lock(path: &Path, file: &File) -> Result<(), DeviceError> {
    match retry_while_in_use(|| file.try_lock(), |error| matches!(error, TryLockError::WouldBlock)) {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(DeviceError::Locked(path.to_owned())),
        // Some network file systems have no locks. They are accepted.
        Err(TryLockError::Error(error)) => {
            tracing::warn!(path = %path.display(), %error, "the file cannot be locked; make sure that no second target uses it");
            Ok(())
        }
    }
}

/// Whether the file can be read in sectors of 512 bytes. With direct IO on a device with 4 KiB sectors it cannot.
pub(super) fn accepts_sectors(file: &File) -> bool {
    let mut memory = vec![0u8; 2 * PAGE_SIZE as usize];
    let aligned = memory.as_ptr().align_offset(PAGE_SIZE as usize);
    let sector = &mut memory[aligned..aligned + SECTOR_SIZE as usize];
    file.read_exact_at(sector, u64::from(SECTOR_SIZE)).is_ok()
}

pub(super) fn system(path: &Path, step: &'static str) -> impl FnOnce(io::Error) -> DeviceError + use<> {
    let path = path.to_owned();
    move |error| DeviceError::System { path, step, error }
}
