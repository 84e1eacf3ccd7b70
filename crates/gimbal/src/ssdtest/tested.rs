//! The device under test, of any kind.

use super::local::Local;
use super::name::DeviceName;
use super::real::Real;
use super::remote::Remote;
use super::simulated::Simulated;
use super::stop::Stop;
use anyhow::Result;
use host::Keys;
use probe::{Completion, Device, Io};
use server::{Holes, LocalOptions};
use units::{Bytes, Instant};

/// The device.
pub(super) enum Tested {
    Simulated(Box<Simulated>),
    Real(Box<Real>),
}

/// The facts known about the device before the first IO.
pub(super) struct Facts {
    pub(super) size: Bytes,
    pub(super) block_size: u32,
    /// The kind of device, for people.
    pub(super) about: String,
    /// Identifies the device, for the journal.
    pub(super) identity: String,
    pub(super) storage: Storage,
    /// Notes for the reader of the figures.
    pub(super) notes: Vec<String>,
}

impl Facts {
    /// Whether a file has parts that were never written: its file system would complete reads of them.
    pub(super) fn needs_filling(&self) -> bool {
        matches!(self.storage, Storage::File(Holes::Some | Holes::Nothing))
    }
}

/// The storage of the device's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Storage {
    /// No storage.
    None,
    /// A file; `Holes` says which parts of it were never written.
    File(Holes),
    /// A block device.
    Blocks,
}

impl Tested {
    /// Opens the device. `host` is this host's NQN for targets, with its keys.
    pub(super) fn open(
        name: &DeviceName,
        options: LocalOptions,
        host: (&str, Keys),
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

    /// Bytes written to flash per byte written since the device was opened; `None` for a real device, which does not
    /// report it.
    pub(super) fn write_amplification(&self) -> Option<f64> {
        match self {
            Tested::Simulated(device) => Some(device.write_amplification()),
            Tested::Real(_) => None,
        }
    }

    /// The device, if it is a real one, which may have contents.
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
