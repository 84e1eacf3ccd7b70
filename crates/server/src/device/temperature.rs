//! The temperature of a disk, from the sensor that Linux shows for it, for the health page of hosts.
//!
//! ```text
//!   an NVMe drive           /sys/block/NAME/device/hwmon*/temp1_input           in thousandths of a degree Celsius
//!   a disk (drivetemp)      /sys/block/NAME/device/hwmon/hwmon*/temp1_input
//! ```
//!
//! A drive may take long to answer, so the thread that counts blocks reads it (`usage`), and hosts get the last value. A sensor that
//! cannot be read, or says what no drive survives, is taken for none.
//!
//! Holds: hosts never see an implausible value (`a_sensor_is_read_where_linux_shows_it_and_believed_only_if_plausible`).

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};

/// Temperatures of working drives, with a margin, in thousandths of a degree Celsius.
const PLAUSIBLE: RangeInclusive<i64> = -40_000..=125_000;
/// 0 °C, in thousandths of a kelvin.
const FREEZING: i64 = 273_150;

/// The sensor of a disk.
#[derive(Debug)]
pub(super) struct Temperature {
    sensor: PathBuf,
    /// The last value; 0 if there is none.
    kelvin: AtomicU16,
}

impl Temperature {
    /// Of the disk with this folder in sysfs; `None` if it has no sensor.
    pub(super) fn of_disk(folder: &Path) -> Option<Temperature> {
        let device = folder.join("device");
        let sensor = [device.clone(), device.join("hwmon")].iter().find_map(|folder| sensor_in(folder))?;
        let temperature = Temperature { sensor, kelvin: AtomicU16::new(0) };
        temperature.survey();
        Some(temperature)
    }

    /// Reads the sensor.
    pub(super) fn survey(&self) {
        self.kelvin.store(read(&self.sensor).unwrap_or(0), Ordering::Relaxed);
    }

    /// The last value.
    pub(super) fn kelvin(&self) -> Option<u16> {
        Some(self.kelvin.load(Ordering::Relaxed)).filter(|kelvin| *kelvin > 0)
    }
}

/// The first sensor of a folder.
fn sensor_in(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let is_monitor =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"hwmon"));
    entries.filter(is_monitor).map(|path| path.join("temp1_input")).filter(|path| path.exists()).min()
}

fn read(sensor: &Path) -> Option<u16> {
    let thousandths: i64 = fs::read_to_string(sensor).ok()?.trim().parse().ok()?;
    let is_plausible = PLAUSIBLE.contains(&thousandths);
    is_plausible.then(|| u16::try_from((thousandths + FREEZING + 500) / 1000).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sensor_is_read_where_linux_shows_it_and_believed_only_if_plausible() {
        for monitor in ["device/hwmon3", "device/hwmon/hwmon0"] {
            let name = format!("gimbal-temperature-{}-{}", monitor.len(), std::process::id());
            let disk = std::env::temp_dir().join(name);
            fs::create_dir_all(disk.join(monitor)).expect("a folder");
            assert!(Temperature::of_disk(&disk).is_none(), "no sensor");
            let sensor = disk.join(monitor).join("temp1_input");
            let set = |text: &str| fs::write(&sensor, text).expect("a file");
            set("34850\n");
            let temperature = Temperature::of_disk(&disk).expect("a sensor");
            assert_eq!(temperature.kelvin(), Some(308));
            let cases = [("0\n", Some(273)), ("-5000", Some(268)), ("-273150", None), ("41000", Some(314))];
            let bad = [("", None), ("warm", None), ("99999999999999999999", None), ("125001", None)];
            for (text, kelvin) in cases.into_iter().chain(bad) {
                set(text);
                temperature.survey();
                assert_eq!(temperature.kelvin(), kelvin, "{text}");
            }
            set("41000");
            temperature.survey();
            fs::remove_dir_all(&disk).expect("it is there");
            temperature.survey();
            assert_eq!(temperature.kelvin(), None, "the drive is gone");
        }
    }
}
