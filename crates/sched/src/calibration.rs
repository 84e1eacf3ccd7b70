//! A calibration as a file: the facts about a device for schedulers that do not measure it themselves.
//!
//! level-calibrated, ReFlex and FlashFQ use a model of the device that was fitted beforehand, and PARDA a latency that
//! suits it. Such a file is made by measuring the device, and belongs to it. Every table is optional; an unknown field
//! is an error.
//!
//! ```toml
//! description = "the measurements, and their method"
//!
//! [level-calibrated]                      # costs in bytes of large reads: of IOs of 4, 8, 16, 32, 64, 128 and 256 KiB
//! rate_bytes_per_s = 3_256_000_000        # large reads, clean
//! clean_reads = [7961, 8373, 16_554, 32_913, 65_632, 131_072, 261_933]
//! clean_writes = [10_155, 20_318, 40_644, 81_305, 162_599, 325_231, 650_592]
//! fragmented_reads = [7961, 17_369, 34_740, 69_481, 138_954, 277_873, 555_841]
//! fragmented_writes = [76_551, 152_757, 305_342, 610_800, 1_229_443, 2_442_285, 4_895_588]
//!
//! [reflex]
//! read_only_read_cost_millitokens = 500   # a 4 KiB read without writes; 1000 with writes
//! write_cost_millitokens = 9000           # a 4 KiB write
//! [[reflex.supply]]                       # by rising latency
//! latency_p95_us = 500
//! mixed_tokens_per_s = 300_000
//! read_only_tokens_per_s = 400_000
//!
//! [flashfq]
//! read_base_ns = 2000                     # device time of an IO: base + size × per_kib
//! read_per_kib_ns = 300
//! write_base_ns = 4000
//! write_per_kib_ns = 800
//! depth = 64
//! throttle_us = 1000
//! anticipation_us = 200
//!
//! [parda]
//! latency_threshold_us = 1000
//! period_us = 20_000
//! window_max = 64
//! ```
//!
//! Holds: a calibration that was written is read back the same (`a_calibration_survives_being_written`); schedulers can
//!        run with any calibration that is read, as their own checks are made here
//!        (`constants_that_a_scheduler_refuses_are_refused`).

extern crate std;

use crate::{
    CostCurve, DeviceCosts, FlashfqConfig, LinearCost, Millitokens, PardaConfig, ReflexConfig, StateCosts,
    SupplyPoint, TokenRate,
};
use serde::{Deserialize, Serialize};
use std::borrow::ToOwned;
use std::io;
use std::path::Path;
use std::string::{String, ToString};
use std::vec::Vec;
use units::{ByteRate, Bytes, Nanos};

/// Findings about a device; a scheduler that was not calibrated on it is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calibration {
    /// The measurements, and their method.
    pub description: String,
    /// Device time of IOs, for level-calibrated.
    pub level_calibrated: Option<DeviceCosts>,
    /// ReFlex's model. Only costs and supply are written to the file; the rest is [`ReflexConfig::new`]'s.
    pub reflex: Option<ReflexConfig>,
    /// FlashFQ's constants.
    pub flashfq: Option<FlashfqConfig>,
    /// PARDA's latency threshold, period and largest window; the rest is [`PardaConfig::new`]'s.
    pub parda: Option<PardaConfig>,
}

/// Reason why a calibration was refused.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// The file could not be read.
    #[error("calibration {origin} cannot be read: {source}")]
    Unreadable {
        /// Its path.
        origin: String,
        /// The system's error.
        source: io::Error,
    },
    /// The text is not TOML, lacks a field, or has one that no calibration has.
    #[error("calibration {origin} is not valid: {message}")]
    Syntax {
        /// File of the calibration.
        origin: String,
        /// Line, column and cause, from the parser.
        message: String,
    },
    /// A scheduler cannot run with these constants.
    #[error("calibration {origin}: [{table}]: {wrong}")]
    Wrong {
        /// File of the calibration.
        origin: String,
        /// The table, and so the scheduler.
        table: &'static str,
        /// The fault.
        wrong: &'static str,
    },
}

impl Calibration {
    /// The calibration in the file at `path`.
    ///
    /// # Errors
    /// Unreadable file, text that is not a calibration, or constants that a scheduler refuses.
    pub fn load(path: &Path) -> Result<Calibration, CalibrationError> {
        let origin = path.display().to_string();
        match files::read_text(path) {
            Ok(text) => Calibration::parse(&text, &origin),
            Err(source) => Err(CalibrationError::Unreadable { origin, source }),
        }
    }

    /// The calibration written in `text`; `origin` names the text in errors.
    ///
    /// # Errors
    /// Text that is not a calibration, or constants that a scheduler refuses.
    pub fn parse(text: &str, origin: &str) -> Result<Calibration, CalibrationError> {
        let origin = || origin.to_owned();
        let file: File = toml::from_str(text).map_err(|source| CalibrationError::Syntax {
            origin: origin(),
            message: source.to_string().trim_end().to_owned(),
        })?;
        let calibration = Calibration {
            description: file.description,
            level_calibrated: file.level_calibrated.map(DeviceCosts::from),
            reflex: file.reflex.map(ReflexConfig::from),
            flashfq: file.flashfq.map(FlashfqConfig::from),
            parda: file.parda.map(PardaConfig::from),
        };
        let checks = [
            ("level-calibrated", calibration.level_calibrated.as_ref().map(DeviceCosts::check)),
            ("reflex", calibration.reflex.as_ref().map(ReflexConfig::check)),
            ("flashfq", calibration.flashfq.as_ref().map(FlashfqConfig::check)),
            ("parda", calibration.parda.as_ref().map(PardaConfig::check)),
        ];
        for (table, check) in checks {
            if let Some(Err(wrong)) = check {
                return Err(CalibrationError::Wrong { origin: origin(), table, wrong });
            }
        }
        Ok(calibration)
    }

    /// The calibration as a TOML text that [`Calibration::parse`] reads back. Fractions of the file's units are lost.
    pub fn to_toml(&self) -> String {
        let file = File {
            description: self.description.clone(),
            level_calibrated: self.level_calibrated.as_ref().map(LevelTable::from),
            reflex: self.reflex.as_ref().map(ReflexTable::from),
            flashfq: self.flashfq.as_ref().map(FlashfqTable::from),
            parda: self.parda.as_ref().map(PardaTable::from),
        };
        toml::to_string(&file)
            .expect("a calibration is tables of numbers and strings, which TOML can always hold")
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reflex: Option<ReflexTable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flashfq: Option<FlashfqTable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parda: Option<PardaTable>,
    #[serde(rename = "level-calibrated", skip_serializing_if = "Option::is_none")]
    level_calibrated: Option<LevelTable>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LevelTable {
    rate_bytes_per_s: u64,
    clean_reads: [u64; CostCurve::SIZES],
    clean_writes: [u64; CostCurve::SIZES],
    fragmented_reads: [u64; CostCurve::SIZES],
    fragmented_writes: [u64; CostCurve::SIZES],
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReflexTable {
    read_only_read_cost_millitokens: u32,
    write_cost_millitokens: u32,
    supply: Vec<SupplyTable>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SupplyTable {
    latency_p95_us: u32,
    mixed_tokens_per_s: u32,
    read_only_tokens_per_s: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FlashfqTable {
    read_base_ns: u32,
    read_per_kib_ns: u32,
    write_base_ns: u32,
    write_per_kib_ns: u32,
    depth: u32,
    throttle_us: u32,
    anticipation_us: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PardaTable {
    latency_threshold_us: u32,
    period_us: u32,
    window_max: u32,
}

const NANOS_PER_MICRO: u64 = 1000;
const MILLITOKENS: u64 = Millitokens::TOKEN.0;

fn micros(count: u32) -> Nanos {
    Nanos(u64::from(count) * NANOS_PER_MICRO)
}

/// In a file's unit, of which there are `unit` quanta; what does not fit is the most that does.
fn whole(quanta: u64, unit: u64) -> u32 {
    u32::try_from(quanta / unit).unwrap_or(u32::MAX)
}

impl From<LevelTable> for DeviceCosts {
    fn from(table: LevelTable) -> DeviceCosts {
        let state = |reads: [u64; CostCurve::SIZES], writes: [u64; CostCurve::SIZES]| StateCosts {
            reads: CostCurve(reads.map(Bytes)),
            writes: CostCurve(writes.map(Bytes)),
        };
        DeviceCosts {
            rate: ByteRate(table.rate_bytes_per_s),
            clean: state(table.clean_reads, table.clean_writes),
            fragmented: state(table.fragmented_reads, table.fragmented_writes),
        }
    }
}

impl From<&DeviceCosts> for LevelTable {
    fn from(costs: &DeviceCosts) -> LevelTable {
        let bytes = |curve: CostCurve| curve.0.map(|cost| cost.0);
        LevelTable {
            rate_bytes_per_s: costs.rate.0,
            clean_reads: bytes(costs.clean.reads),
            clean_writes: bytes(costs.clean.writes),
            fragmented_reads: bytes(costs.fragmented.reads),
            fragmented_writes: bytes(costs.fragmented.writes),
        }
    }
}

impl From<ReflexTable> for ReflexConfig {
    fn from(table: ReflexTable) -> ReflexConfig {
        let rate = |tokens: u32| TokenRate::tokens_per_sec(tokens.into());
        let point = |point: &SupplyTable| SupplyPoint {
            latency_p95: micros(point.latency_p95_us),
            mixed: rate(point.mixed_tokens_per_s),
            read_only: rate(point.read_only_tokens_per_s),
        };
        ReflexConfig::new(
            Millitokens(table.read_only_read_cost_millitokens.into()),
            Millitokens(table.write_cost_millitokens.into()),
            table.supply.iter().map(point).collect(),
        )
    }
}

impl From<&ReflexConfig> for ReflexTable {
    fn from(config: &ReflexConfig) -> ReflexTable {
        let point = |point: &SupplyPoint| SupplyTable {
            latency_p95_us: whole(point.latency_p95.0, NANOS_PER_MICRO),
            mixed_tokens_per_s: whole(point.mixed.0, MILLITOKENS),
            read_only_tokens_per_s: whole(point.read_only.0, MILLITOKENS),
        };
        ReflexTable {
            read_only_read_cost_millitokens: whole(config.read_only_read_cost.0, 1),
            write_cost_millitokens: whole(config.write_cost.0, 1),
            supply: config.supply.iter().map(point).collect(),
        }
    }
}

impl From<FlashfqTable> for FlashfqConfig {
    fn from(table: FlashfqTable) -> FlashfqConfig {
        let cost =
            |base: u32, per_kib: u32| LinearCost { base: Nanos(base.into()), per_kib: Nanos(per_kib.into()) };
        FlashfqConfig {
            reads: cost(table.read_base_ns, table.read_per_kib_ns),
            writes: cost(table.write_base_ns, table.write_per_kib_ns),
            depth: table.depth,
            throttle: micros(table.throttle_us),
            anticipation: micros(table.anticipation_us),
        }
    }
}

impl From<&FlashfqConfig> for FlashfqTable {
    fn from(config: &FlashfqConfig) -> FlashfqTable {
        FlashfqTable {
            read_base_ns: whole(config.reads.base.0, 1),
            read_per_kib_ns: whole(config.reads.per_kib.0, 1),
            write_base_ns: whole(config.writes.base.0, 1),
            write_per_kib_ns: whole(config.writes.per_kib.0, 1),
            depth: config.depth,
            throttle_us: whole(config.throttle.0, NANOS_PER_MICRO),
            anticipation_us: whole(config.anticipation.0, NANOS_PER_MICRO),
        }
    }
}

impl From<PardaTable> for PardaConfig {
    fn from(table: PardaTable) -> PardaConfig {
        let window_max = table.window_max;
        PardaConfig {
            window_max,
            ..PardaConfig::new(micros(table.latency_threshold_us), micros(table.period_us))
        }
    }
}

impl From<&PardaConfig> for PardaTable {
    fn from(config: &PardaConfig) -> PardaTable {
        PardaTable {
            latency_threshold_us: whole(config.latency_threshold.0, NANOS_PER_MICRO),
            period_us: whole(config.period.0, NANOS_PER_MICRO),
            window_max: config.window_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = r#"
        description = "an example"
        [level-calibrated]
        rate_bytes_per_s = 3_256_000_000
        clean_reads = [7961, 8373, 16_554, 32_913, 65_632, 131_072, 261_933]
        clean_writes = [10_155, 20_318, 40_644, 81_305, 162_599, 325_231, 650_592]
        fragmented_reads = [7961, 17_369, 34_740, 69_481, 138_954, 277_873, 555_841]
        fragmented_writes = [76_551, 152_757, 305_342, 610_800, 1_229_443, 2_442_285, 4_895_588]
        [reflex]
        read_only_read_cost_millitokens = 500
        write_cost_millitokens = 9000
        supply = [
            { latency_p95_us = 500, mixed_tokens_per_s = 300_000, read_only_tokens_per_s = 400_000 },
            { latency_p95_us = 1000, mixed_tokens_per_s = 350_000, read_only_tokens_per_s = 420_000 },
        ]
        [flashfq]
        read_base_ns = 2000
        read_per_kib_ns = 300
        write_base_ns = 4000
        write_per_kib_ns = 800
        depth = 64
        throttle_us = 1000
        anticipation_us = 200
        [parda]
        latency_threshold_us = 1000
        period_us = 20_000
        window_max = 48
    "#;

    #[test]
    fn a_calibration_survives_being_written() {
        let calibration = Calibration::parse(EXAMPLE, "example").expect("it is valid");
        let again = Calibration::parse(&calibration.to_toml(), "again").expect("it was valid");
        assert_eq!(calibration, again);
        assert_eq!(calibration.level_calibrated, Some(DeviceCosts::DCT983));
        let reflex = calibration.reflex.expect("it has a table");
        assert_eq!(reflex.supply[1].mixed, TokenRate::tokens_per_sec(350_000));
        assert_eq!(calibration.parda.map(|parda| parda.window_max), Some(48));
    }

    #[test]
    fn a_scheduler_that_was_not_calibrated_has_no_table() {
        let none = Calibration { description: "nothing yet".to_owned(), ..Calibration::default() };
        assert_eq!(Calibration::parse(&none.to_toml(), "none").expect("it is valid"), none);
    }

    #[test]
    fn constants_that_a_scheduler_refuses_are_refused() {
        for (table, right, wrong) in [
            ("level-calibrated", "clean_reads = [7961", "clean_reads = [8961"),
            ("flashfq", "depth = 64", "depth = 0"),
            ("reflex", "latency_p95_us = 1000", "latency_p95_us = 400"),
            ("parda", "window_max = 48", "window_max = 0"),
        ] {
            let error = Calibration::parse(&EXAMPLE.replace(right, wrong), "example").expect_err(wrong);
            let CalibrationError::Wrong { table: found, .. } = error else { panic!("{error}") };
            assert_eq!(found, table);
        }
        for (known, unknown) in [("depth", "deepness"), ("[level-calibrated]", "[level]")] {
            let parsed = Calibration::parse(&EXAMPLE.replace(known, unknown), "example");
            assert!(matches!(parsed, Err(CalibrationError::Syntax { .. })), "{unknown}");
        }
    }
}
