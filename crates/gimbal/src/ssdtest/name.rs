//! The user's name of the device: `simulated:PROFILE`, the path of an SSD profile, `nvme://…`, or a path.

use anyhow::{Result, bail};
use host::TransportType;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Prefix of the profile of a simulated SSD.
const SIMULATED: &str = "simulated:";
/// Prefixes of the address of a target.
const REMOTES: [(&str, TransportType); 2] =
    [("nvme://", TransportType::Tcp), ("nvme+rdma://", TransportType::Rdma)];
/// Prefix of the folder of results; the device's name follows.
const FOLDER: &str = "ssdtest-";

/// A device, as named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DeviceName {
    /// A simulated SSD with this profile: a name, or a path.
    Simulated(String),
    /// A file or block device.
    Local(PathBuf),
    /// A namespace of a target.
    Remote(Remote),
}

/// A namespace of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remote {
    pub(super) transport: TransportType,
    /// `HOST:PORT`.
    pub(super) address: String,
    /// The NQN of the subsystem.
    pub(super) subsystem: String,
    /// `None` means the only namespace.
    pub(super) nsid: Option<u32>,
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = REMOTES.iter().find(|(_, transport)| *transport == self.transport);
        let (prefix, _) = prefix.expect("every transport has a prefix");
        write!(f, "{prefix}{}/{}", self.address, self.subsystem)?;
        self.nsid.map_or(Ok(()), |nsid| write!(f, "/{nsid}"))
    }
}

/// Parses `HOST:PORT/NQN[/NSID]`. An NQN may contain slashes: a last part that is a number is the namespace.
fn remote(prefix: &str, transport: TransportType, text: &str) -> Result<Remote> {
    let Some((address, rest)) = text.split_once('/').filter(|(_, rest)| !rest.is_empty()) else {
        bail!(
            "{prefix}{text}: write {prefix}HOST:PORT/NQN, and /NSID if the subsystem has several namespaces"
        );
    };
    let number = rest.rsplit_once('/').and_then(|(nqn, nsid)| Some((nqn, nsid.parse().ok()?)));
    let (subsystem, nsid) = number.map_or((rest, None), |(nqn, nsid)| (nqn, Some(nsid)));
    Ok(Remote { transport, address: address.to_owned(), subsystem: subsystem.to_owned(), nsid })
}

impl FromStr for DeviceName {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<DeviceName> {
        if let Some(profile) = text.strip_prefix(SIMULATED) {
            if profile.is_empty() {
                let known: Vec<&str> = ssd::Profile::names().collect();
                bail!("write simulated:PROFILE; the profiles are {}, or the path of one", known.join(", "));
            }
            return Ok(DeviceName::Simulated(profile.to_owned()));
        }
        for (prefix, transport) in REMOTES {
            if let Some(rest) = text.strip_prefix(prefix) {
                return Ok(DeviceName::Remote(remote(prefix, transport, rest)?));
            }
        }
        // Never taken as a device, because a probe would destroy the file.
        if text.ends_with(".toml") {
            return Ok(DeviceName::Simulated(text.to_owned()));
        }
        match text.split_once("://") {
            Some((scheme, _)) => {
                bail!(
                    "{scheme}:// is not known; DEVICE is a path, simulated:PROFILE, nvme://HOST:PORT/NQN or \
                     nvme+rdma://HOST:PORT/NQN"
                )
            }
            None if text.is_empty() => bail!("DEVICE is empty"),
            None => Ok(DeviceName::Local(PathBuf::from(text))),
        }
    }
}

impl DeviceName {
    /// The name as the user wrote it.
    pub(super) fn shown(&self) -> String {
        match self {
            DeviceName::Simulated(profile) => format!("{SIMULATED}{profile}"),
            DeviceName::Local(path) => path.display().to_string(),
            DeviceName::Remote(remote) => remote.to_string(),
        }
    }

    /// The default folder for the results.
    pub(super) fn folder(&self) -> PathBuf {
        let text = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        let last = match self {
            DeviceName::Simulated(profile) => text(Path::new(profile).file_stem()),
            DeviceName::Local(path) => text(path.file_name()),
            DeviceName::Remote(Remote { subsystem, nsid, .. }) => {
                let nsid = nsid.map_or(String::new(), |nsid| format!("-{nsid}"));
                format!("{}{nsid}", subsystem.replace(['/', ':'], "-"))
            }
        };
        PathBuf::from(format!("{FOLDER}{last}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> DeviceName {
        text.parse().expect("valid")
    }

    #[test]
    fn a_profile_is_simulated_and_a_path_is_a_device() {
        assert_eq!(parse("simulated:dct983"), DeviceName::Simulated("dct983".to_owned()));
        assert_eq!(parse("own/ssd.toml"), DeviceName::Simulated("own/ssd.toml".to_owned()));
        assert_eq!(parse("/dev/nvme0n1"), DeviceName::Local(PathBuf::from("/dev/nvme0n1")));
        assert_eq!(parse("dct983"), DeviceName::Local(PathBuf::from("dct983")), "a file of that name");
    }

    #[test]
    fn a_namespace_has_an_address_an_nqn_and_perhaps_a_number() {
        let remote = |transport, subsystem: &str, nsid| {
            let (address, subsystem) = ("[::1]:4420".to_owned(), subsystem.to_owned());
            DeviceName::Remote(Remote { transport, address, subsystem, nsid })
        };
        for (prefix, transport) in REMOTES {
            let name = parse(&format!("{prefix}[::1]:4420/nqn.2025-01.io.x:ssd"));
            assert_eq!(name, remote(transport, "nqn.2025-01.io.x:ssd", None));
            let name = parse(&format!("{prefix}[::1]:4420/nqn.2025-01.io.x:a/b/3"));
            assert_eq!(name, remote(transport, "nqn.2025-01.io.x:a/b", Some(3)));
            assert_eq!(name.shown(), format!("{prefix}[::1]:4420/nqn.2025-01.io.x:a/b/3"));
        }
        let name = parse("nvme://[::1]:4420/nqn.2025-01.io.x:b.toml/3");
        assert_eq!(name.shown(), "nvme://[::1]:4420/nqn.2025-01.io.x:b.toml/3");
        assert_eq!(name.folder(), PathBuf::from("ssdtest-nqn.2025-01.io.x-b.toml-3"));
    }

    #[test]
    fn a_name_that_means_nothing_is_refused_with_what_it_could_be() {
        let refused = |text: &str| text.parse::<DeviceName>().expect_err("refused").to_string();
        assert!(refused("simulated:").contains("consumer-slc"));
        assert!(refused("nfs://somewhere").contains("nfs:// is not known"));
        assert!(refused("").contains("empty"));
        assert!(refused("nvme://host:4420").contains("nvme://HOST:PORT/NQN"));
        assert!(refused("nvme://host:4420/").contains("nvme://HOST:PORT/NQN"));
    }

    #[test]
    fn results_go_to_a_folder_that_is_called_like_the_device() {
        assert_eq!(parse("/dev/nvme0n1").folder(), PathBuf::from("ssdtest-nvme0n1"));
        assert_eq!(parse("own/ssd.toml").folder(), PathBuf::from("ssdtest-ssd"));
    }
}
