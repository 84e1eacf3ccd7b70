//! What the user calls the device: `simulated:PROFILE`, the path of an SSD profile, `nvme://…`, or a path.

use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Before the profile of a simulated SSD.
const SIMULATED: &str = "simulated:";
/// The folder of results is called this, and the device.
const FOLDER: &str = "ssdtest-";

/// A device, as named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DeviceName {
    /// The SSD model with this profile: a name, or the path of one.
    Simulated(String),
    /// A file or block device.
    Local(PathBuf),
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
        // Never a device: to take it for one would destroy it.
        if text.ends_with(".toml") {
            return Ok(DeviceName::Simulated(text.to_owned()));
        }
        match text.split_once("://") {
            Some((scheme, _)) => bail!("{scheme}:// is not known; DEVICE is a path or simulated:PROFILE"),
            None if text.is_empty() => bail!("DEVICE is empty"),
            None => Ok(DeviceName::Local(PathBuf::from(text))),
        }
    }
}

impl DeviceName {
    /// As the user wrote it.
    pub(super) fn shown(&self) -> String {
        match self {
            DeviceName::Simulated(profile) => format!("{SIMULATED}{profile}"),
            DeviceName::Local(path) => path.display().to_string(),
        }
    }

    /// The folder of its results, unless the user names one.
    pub(super) fn folder(&self) -> PathBuf {
        let last = match self {
            DeviceName::Simulated(profile) => Path::new(profile).file_stem(),
            DeviceName::Local(path) => path.file_name(),
        };
        let last = last.map_or_else(String::new, |last| last.to_string_lossy().into_owned());
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
    fn a_name_that_means_nothing_is_refused_with_what_it_could_be() {
        let refused = |text: &str| text.parse::<DeviceName>().expect_err("refused").to_string();
        assert!(refused("simulated:").contains("consumer-slc"));
        assert!(refused("nfs://somewhere").contains("nfs:// is not known"));
        assert!(refused("").contains("empty"));
    }

    #[test]
    fn results_go_to_a_folder_that_is_called_like_the_device() {
        assert_eq!(parse("/dev/nvme0n1").folder(), PathBuf::from("ssdtest-nvme0n1"));
        assert_eq!(parse("own/ssd.toml").folder(), PathBuf::from("ssdtest-ssd"));
    }
}
