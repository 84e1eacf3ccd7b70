//! The device under test, of whatever kind.

use super::local::Local;
use super::name::DeviceName;
use super::simulated::Simulated;
use super::stop::Stop;
use anyhow::Result;
use probe::{Completion, Device, Io};
use server::LocalOptions;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use units::{Bytes, Instant};

/// The device.
pub(super) enum Tested {
    Simulated(Box<Simulated>),
    Local(Box<Local>),
}

/// What is known of it before the first IO.
pub(super) struct Facts {
    pub(super) size: Bytes,
    pub(super) block_size: u32,
    /// For people: what kind of device it is.
    pub(super) about: String,
    /// Tells it from others, for the journal.
    pub(super) identity: String,
}

impl Tested {
    /// Opens it.
    pub(super) fn open(name: &DeviceName, options: LocalOptions, stop: &Stop) -> Result<Tested> {
        Ok(match name {
            DeviceName::Simulated(profile) => {
                Tested::Simulated(Box::new(Simulated::new(profile, stop.clone())?))
            }
            DeviceName::Local(path) => Tested::Local(Box::new(Local::open(path, options, stop.clone())?)),
        })
    }

    pub(super) fn facts(&self, name: &DeviceName) -> Result<Facts> {
        Ok(match (self, name) {
            (Tested::Simulated(device), _) => Facts {
                size: device.size(),
                block_size: ssd::SLOT_BYTES as u32,
                about: format!("a simulated SSD of {}, in virtual time", device.size()),
                identity: device.identity(),
            },
            (Tested::Local(device), DeviceName::Local(path)) => {
                let opened = device.opened();
                let metadata = fs::metadata(path)?;
                let kind = if metadata.file_type().is_block_device() { "block device" } else { "file" };
                let path = fs::canonicalize(path)?;
                let cache = match opened.cached_by() {
                    None => "the page cache is bypassed".to_owned(),
                    Some(by) => format!("NOT only the device is measured: IOs are served by {by}"),
                };
                Facts {
                    size: opened.size(),
                    block_size: opened.block_size_min(),
                    about: format!("a {kind} of {}; {cache}", opened.size()),
                    identity: format!("{} {}", path.display(), serial(&path, &metadata)),
                }
            }
            (Tested::Local(_), _) => unreachable!("a path was opened"),
        })
    }

    /// What is opened by a path.
    pub(super) fn as_local(&mut self) -> Option<&mut Local> {
        match self {
            Tested::Local(local) => Some(local),
            Tested::Simulated(_) => None,
        }
    }
}

/// What stays the same when a disk gets another name: the first of the names that the kernel gives it, or the number of the file.
fn serial(path: &Path, metadata: &fs::Metadata) -> String {
    if metadata.is_file() {
        return format!("inode {} of device {}", metadata.ino(), metadata.dev());
    }
    let folder = Path::new("/sys/class/block").join(path.file_name().unwrap_or_default());
    let names = ["wwid", "device/wwid", "serial", "device/serial", "loop/backing_file"];
    let read = |name: &&str| fs::read_to_string(folder.join(name)).ok();
    let found = names.iter().find_map(read).unwrap_or_default();
    found.trim().to_owned()
}

impl Device for Tested {
    type Error = anyhow::Error;

    fn now(&self) -> Instant {
        match self {
            Tested::Simulated(device) => device.now(),
            Tested::Local(device) => device.now(),
        }
    }

    fn submit(&mut self, io: Io) -> Result<()> {
        match self {
            Tested::Simulated(device) => device.submit(io),
            Tested::Local(device) => device.submit(io),
        }
    }

    fn wait(&mut self, until: Option<Instant>, done: &mut Vec<Completion>) -> Result<()> {
        match self {
            Tested::Simulated(device) => device.wait(until, done),
            Tested::Local(device) => device.wait(until, done),
        }
    }
}
