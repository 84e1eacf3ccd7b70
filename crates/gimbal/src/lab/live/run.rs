//! One live run: a switch, its tenants, snapshots of both, and the record of the run.

use super::look::{Looks, middle};
use super::measured::measured;
use super::plan::Live;
use super::progress::Progress;
use super::slow::Slow;
use super::timekeeping::{Processors, Timekeeping};
use super::way::Way;
use crate::interrupt::Interrupt;
use crate::loopback::Loopback;
use ::lab::measure::Measured;
use ::lab::plan::Run;
use anyhow::{Context, Result};
use loadgen::{Interval, Observer};
use server::config::DeviceKind;
use ssd::Profile;
use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process;
use units::Nanos;

/// Carries out `live`, the counterpart of `run`. Returns `None` if it was interrupted.
pub(super) fn run(
    live: Live,
    run: &Run,
    slow: Slow,
    way: Way,
    progress: &mut Progress,
    interrupt: &Interrupt,
) -> Result<Option<(Measured, Timekeeping)>> {
    let Live { mut config, calibration, jobs, options } = live;
    let calibration = calibration
        .map(|calibration| SwitchFile::write("calibration", &calibration.to_toml()))
        .transpose()?;
    config.devices[0].scheduler.calibration = calibration.as_ref().map(|file| file.path.clone());
    let profile = own_profile(&run.world.profile)?;
    if let (Some(file), DeviceKind::Emulated(ssd)) = (&profile, &mut config.devices[0].kind) {
        ssd.profile = file.path.display().to_string();
    }
    let switch = Loopback::start_with(config, server::TenantDetail::Device)?;
    let processors = Processors::watch();
    let mut watch =
        Watch { looks: Looks::new(switch.server(), jobs.len()), ramp: options.ramp, progress, interrupt };
    let results = switch.load(&jobs, &options, &mut watch)?;
    let processors = processors.busy();
    let (added, whole) = watch.looks.whole();
    switch.end()?;
    if interrupt.is_set() {
        return Ok(None);
    }
    let measured = measured(&run.world, &run.counts, &results, (&added, &whole), slow);
    let kept = Timekeeping::new(&results, &whole, &measured, (way, options.ramp), processors, slow);
    Ok(Some((measured, kept)))
}

/// Takes snapshots during a run.
struct Watch<'a> {
    looks: Looks<'a>,
    ramp: Nanos,
    progress: &'a mut Progress,
    interrupt: &'a Interrupt,
}

impl Observer for Watch<'_> {
    fn on_interval(&mut self, job: usize, interval: &Interval) -> ControlFlow<()> {
        // The intervals of all jobs end together, so the first job's represent them.
        if job == 0 {
            self.looks.look(middle(interval) >= self.ramp);
            self.progress.within(interval.end);
        }
        if self.interrupt.is_set() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// A file for the switch, removed on drop.
struct SwitchFile {
    path: PathBuf,
}

impl SwitchFile {
    fn write(what: &str, text: &str) -> Result<SwitchFile> {
        let path = std::env::temp_dir().join(format!("gimbal-live-{what}-{}.toml", process::id()));
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        Ok(SwitchFile { path })
    }
}

/// Writes a profile that is not built in to a file.
fn own_profile(profile: &Profile) -> Result<Option<SwitchFile>> {
    let is_built_in = Profile::named(&profile.name).is_ok_and(|known| known == *profile);
    (!is_built_in).then(|| SwitchFile::write("profile", &profile.to_toml())).transpose()
}

impl Drop for SwitchFile {
    fn drop(&mut self) {
        // Ignore the error: the file may be gone already.
        let _ = fs::remove_file(&self.path);
    }
}
