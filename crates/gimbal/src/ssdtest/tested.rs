//! The device under test, of whatever kind.

use super::local::Local;
use super::name::DeviceName;
use super::real::Real;
use super::remote::Remote;
use super::simulated::Simulated;
use super::stop::Stop;
use anyhow::Result;
use probe::{Completion, Device, Io};
use server::{Holes, LocalOptions};
use units::{Bytes, Instant};

/// The device.
pub(super) enum Tested {
    Simulated(Box<Simulated>),
    Real(Box<Real>),
}

/// What is known of it before the first IO.
pub(super) struct Facts {
    pub(super) size: Bytes,
    pub(super) block_size: u32,
    /// For people: what kind of device it is.
    pub(super) about: String,
    /// Tells it from others, for the journal.
    pub(super) identity: String,
    pub(super) storage: Storage,
    /// What should be known of the figures.
    pub(super) notes: Vec<String>,
}

impl Facts {
    /// Whether a file has parts that were never written: its file system would answer reads of them.
    pub(super) fn needs_filling(&self) -> bool {
        matches!(self.storage, Storage::File(Holes::Some | Holes::Nothing))
    }
}

/// Where its bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Storage {
    /// Nowhere.
    None,
    /// A file; these parts of it were never written.
    File(Holes),
    /// On a device.
    Blocks,
}

impl Tested {
    /// Opens it. `host` is this host's NQN for targets.
    pub(super) fn open(
        name: &DeviceName,
        options: LocalOptions,
        host: &str,
        stop: &Stop,
    ) -> Result<(Tested, Facts)> {
        Ok(match name {
            DeviceName::Simulated(profile) => {
                let device = Simulated::new(profile, stop.clone())?;
                let facts = Facts {
                    size: device.size(),
                    block_size: ssd::SLOT_BYTES as u32,
                    about: format!("a simulated SSD of {}, in virtual time", device.size()),
                    identity: device.identity(),
                    storage: Storage::None,
                    notes: Vec::new(),
                };
                (Tested::Simulated(Box::new(device)), facts)
            }
            DeviceName::Local(path) => {
                let (device, facts) = Local::open(path, options)?;
                (Tested::Real(Box::new(Real::new(Box::new(device), stop.clone()))), facts)
            }
            DeviceName::Remote(name) => {
                let (device, facts) = Remote::open(name, host, options.read_only, stop)?;
                (Tested::Real(Box::new(Real::new(Box::new(device), stop.clone()))), facts)
            }
        })
    }

    /// Bytes written to flash for each byte that was written since it was opened, if the device tells. Only a simulated one does.
    pub(super) fn write_amplification(&self) -> Option<f64> {
        match self {
            Tested::Simulated(device) => Some(device.write_amplification()),
            Tested::Real(_) => None,
        }
    }

    /// What has contents.
    pub(super) fn as_real(&mut self) -> Option<&mut Real> {
        match self {
            Tested::Real(real) => Some(real),
            Tested::Simulated(_) => None,
        }
    }
}

impl Device for Tested {
    type Error = anyhow::Error;

    fn now(&self) -> Instant {
        match self {
            Tested::Simulated(device) => device.now(),
            Tested::Real(device) => device.now(),
        }
    }

    fn submit(&mut self, io: Io) -> Result<()> {
        match self {
            Tested::Simulated(device) => device.submit(io),
            Tested::Real(device) => device.submit(io),
        }
    }

    fn wait(&mut self, until: Option<Instant>, done: &mut Vec<Completion>) -> Result<()> {
        match self {
            Tested::Simulated(device) => device.wait(until, done),
            Tested::Real(device) => device.wait(until, done),
        }
    }
}
