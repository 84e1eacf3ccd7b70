//! A simulated SSD under test, in virtual time.

use super::stop::Stop;
use anyhow::{Context, Result};
use probe::{Completion, Device, Io};
use ssd::{Condition, Profile, Ssd};
use std::path::Path;
use units::{Bytes, Instant};

/// Seed of the properties that differ between SSDs of one profile.
const SEED: u64 = 1;

/// The simulated SSD.
pub(super) struct Simulated {
    ssd: probe::Simulated,
    profile: Profile,
    stop: Stop,
}

impl Simulated {
    /// An SSD of this profile that was filled once, in sequence.
    pub(super) fn new(profile: &str, stop: Stop) -> Result<Simulated> {
        let profile = Profile::find(profile, Path::new("")).context("no such SSD to simulate")?;
        let ssd = probe::Simulated::new(Ssd::new(&profile, Condition::Clean, SEED));
        Ok(Simulated { ssd, profile, stop })
    }

    pub(super) fn size(&self) -> Bytes {
        self.ssd.size()
    }

    pub(super) fn write_amplification(&self) -> f64 {
        self.ssd.ssd().counters().write_amplification()
    }

    /// All properties in which it differs from other SSDs.
    pub(super) fn identity(&self) -> String {
        self.profile.to_toml()
    }
}

impl Device for Simulated {
    type Error = anyhow::Error;

    fn now(&self) -> Instant {
        self.ssd.now()
    }

    fn submit(&mut self, io: Io) -> Result<()> {
        let Ok(()) = self.ssd.submit(io);
        Ok(())
    }

    fn wait(&mut self, until: Option<Instant>, done: &mut Vec<Completion>) -> Result<()> {
        self.stop.check()?;
        let Ok(()) = self.ssd.wait(until, done);
        Ok(())
    }
}
