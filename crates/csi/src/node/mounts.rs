//! The mounts of this machine.

use super::command::{done, run};
use serde_json::Value;
use std::path::{Path, PathBuf};
use tonic::Status;

/// The exit code of findmnt if there is nothing.
const NOTHING: i32 = 1;

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// Where it is.
    pub(super) target: PathBuf,
    /// Of what: a device, or `SOURCE[/PATH]` for a part of a file system.
    source: String,
}

/// All mounts.
pub(super) fn all() -> Result<Vec<Mount>, Status> {
    let ended = run("findmnt", &["--json", "--list", "--output", "TARGET,SOURCE"])?;
    match ended.code {
        0 => parse(&ended.stdout),
        NOTHING => Ok(Vec::new()),
        _ => Err(Status::internal(ended.said())),
    }
}

fn parse(json: &str) -> Result<Vec<Mount>, Status> {
    let list: Value = serde_json::from_str(json)
        .map_err(|error| Status::internal(format!("findmnt has not written JSON: {error}")))?;
    let mount = |entry: &Value| {
        let text = |name: &str| entry[name].as_str().map(str::to_owned);
        Some(Mount { target: text("target")?.into(), source: text("source").unwrap_or_default() })
    };
    Ok(list["filesystems"].as_array().into_iter().flatten().filter_map(mount).collect())
}

/// The mount at a path; the last one is on top.
pub(super) fn at(path: &Path) -> Result<Option<Mount>, Status> {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    Ok(all()?.into_iter().rev().find(|mount| mount.target == real || mount.target == path))
}

/// The mounts of a device: its file system, parts of that, and the device itself for workloads that have it as a block device.
pub(super) fn of(device: &Path) -> Result<Vec<Mount>, Status> {
    let mut mounts = all()?;
    mounts.retain(|mount| mount.is_of(device));
    Ok(mounts)
}

/// Unmounts what is at a path, if there is something.
pub(super) fn unmount(path: &Path) -> Result<(), Status> {
    if at(path)?.is_some() {
        let path = path.to_string_lossy();
        done("umount", &[&path]).map_err(|status| {
            Status::failed_precondition(format!("{}; end what uses it", status.message()))
        })?;
    }
    Ok(())
}

impl Mount {
    /// Whether it is of this device.
    pub(super) fn is_of(&self, device: &Path) -> bool {
        let real = device.canonicalize().unwrap_or_else(|_| device.to_owned());
        let Mount { source, .. } = self;
        let is = |device: &Path| {
            let text = device.to_string_lossy();
            let rest = source.strip_prefix(&*text);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('['))
        };
        // A device node is a file of the file system of /dev.
        let name = real.strip_prefix("/dev").ok();
        let is_node = name.is_some_and(|name| source.ends_with(&format!("[/{}]", name.display())));
        is(&real) || is(device) || is_node
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_those_of_the_device_and_of_no_other() {
        let json = r#"{"filesystems": [
            {"target": "/", "source": "/dev/vda"},
            {"target": "/a b", "source": "/dev/nvme0n1"},
            {"target": "/c", "source": "/dev/nvme0n1[/sub]"},
            {"target": "/d", "source": "udev[/nvme0n1]"},
            {"target": "/e", "source": "/dev/nvme0n12"},
            {"target": "/f", "source": null}]}"#;
        let mounts = parse(json).expect("JSON");
        let of = mounts.iter().filter(|mount| mount.is_of(Path::new("/dev/nvme0n1")));
        let targets: Vec<&str> = of.filter_map(|mount| mount.target.to_str()).collect();
        assert_eq!(targets, ["/a b", "/c", "/d"]);
        assert!(parse("no").is_err());
    }
}
