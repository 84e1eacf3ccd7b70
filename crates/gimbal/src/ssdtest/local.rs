//! A file or block device of this machine.

use super::real::{Carrier, Ended};
use super::tested::{Facts, Storage};
use anyhow::{Context, Result, anyhow};
use probe::{Io, IoKind};
use reactor::IoBuffer;
use server::{DeviceError, LocalDevice, LocalDone, LocalOp, LocalOptions};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use units::Instant;

/// The device.
pub(super) struct Local {
    device: LocalDevice,
    done: Vec<LocalDone>,
}

impl Local {
    /// Opens it.
    pub(super) fn open(path: &Path, options: LocalOptions) -> Result<(Local, Facts)> {
        let device = LocalDevice::open(path, options).map_err(|error| explained(error, options))?;
        let metadata = fs::metadata(path)?;
        let path = fs::canonicalize(path)?;
        let (kind, storage) = if metadata.is_file() {
            ("file", Storage::File(device.holes()))
        } else {
            ("block device", Storage::Blocks)
        };
        let cache = match device.cached_by() {
            None => "the page cache is bypassed".to_owned(),
            Some(by) => format!("NOT only the device is measured: IOs are served by {by}"),
        };
        let facts = Facts {
            size: device.size(),
            block_size: device.block_size_min(),
            about: format!("a {kind} of {}; {cache}", device.size()),
            identity: format!("{} {}", path.display(), serial(&path, &metadata)),
            storage,
            notes: device.cached_by().map(|by| format!("IOs were served by {by}")).into_iter().collect(),
        };
        Ok((Local { device, done: Vec::new() }, facts))
    }
}

impl Carrier for Local {
    fn submit(&mut self, io: &Io, buffer: IoBuffer) -> Result<()> {
        let op = match io.kind {
            IoKind::Read => LocalOp::Read(buffer),
            IoKind::Write => LocalOp::Write(buffer),
        };
        self.device.submit(io.tag, io.offset, op);
        Ok(())
    }

    fn wait(&mut self, until: Instant, done: &mut Vec<Ended>) -> Result<()> {
        self.device.wait(Some(until), &mut self.done).context("the system does not carry out IOs")?;
        done.extend(self.done.drain(..).map(|LocalDone { tag, at, result, buffer }| Ended {
            tag,
            at,
            result: result.map_err(anyhow::Error::from),
            buffer: buffer.expect("a read or write returns its buffer"),
        }));
        Ok(())
    }
}

/// An identity that stays when a disk gets another name: the first of the identifiers that the kernel has for it, or
/// the inode of the file.
fn serial(path: &Path, metadata: &Metadata) -> String {
    if metadata.is_file() {
        return format!("inode {} of device {}", metadata.ino(), metadata.dev());
    }
    let folder = Path::new("/sys/class/block").join(path.file_name().unwrap_or_default());
    let names = ["wwid", "device/wwid", "serial", "device/serial", "loop/backing_file"];
    let found = names.iter().find_map(|name| fs::read_to_string(folder.join(name)).ok());
    found.unwrap_or_default().trim().to_owned()
}

/// Adds to an error of opening the advice that fits this command.
fn explained(error: DeviceError, options: LocalOptions) -> anyhow::Error {
    match error {
        DeviceError::Missing { path, device: None } => anyhow!(
            "{}: does not exist; to probe a new file there, say how large it shall be: --size 8G",
            path.display()
        ),
        DeviceError::InUse(path, users) => {
            let users: Vec<String> = users.iter().map(ToString::to_string).collect();
            let users = if users.is_empty() {
                "by whom is not visible from here (lsof and lsblk may tell)".to_owned()
            } else {
                users.join(", ")
            };
            let risk = if options.read_only {
                "its user disturbs the measurement"
            } else {
                "this destroys what is on it under its user"
            };
            anyhow!(
                "{}: is in use: {users}; end that first; to probe it all the same (but {risk}): --force",
                path.display()
            )
        }
        DeviceError::System { path, step, error } => {
            anyhow!("{}: cannot be {step}: {error}", path.display())
        }
        error => anyhow!(error),
    }
}
