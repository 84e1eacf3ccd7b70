//! Figures as data, drawn from findings.
//!
//! An experiment says what its figures show; no figure has a program of its own:
//!
//! ```toml
//! [[figure]]
//! name = "f-util"
//! kind = "bars"
//! of = "f-util"
//! see = "What one sees, in a sentence."
//! ```
//!
//! ```text
//!  Figure + Findings ─► kind: bars, sweep, time-series, threshold, tradeoff ─► Picture ─► paint ─► SVG ─► raster ─► PNG
//! ```
//!
//! Holds: a figure names only what its experiment has, or the experiment is refused (`check`); the same findings give the same
//! bytes; everything can be distinguished without colours (`look`); a PNG has its labels on a machine without fonts (`raster`).
//! Tests: `tests`.

mod axis;
mod bars;
mod canvas;
pub mod chart;
mod check;
mod fit;
mod look;
mod paint;
mod picture;
mod raster;
mod sweep;
#[cfg(test)]
mod tests;
mod time_series;
mod tradeoff;
mod view;

pub(crate) use check::check;

use crate::claims::{Reading, Statistic, Way};
use crate::findings::Findings;
use picture::Picture;
use serde::Deserialize;
use units::Nanos;
use view::View;

/// One figure of an experiment.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Its name, also the name of its files.
    pub name: String,
    /// The kind of drawing.
    pub kind: Kind,
    /// The point that a reader sees in it, in a sentence.
    pub see: String,
    /// Only these cases; none: all.
    #[serde(default)]
    pub cases: Vec<String>,
    /// Only these groups; none: all.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Only these schedulers; none: all of the experiment.
    #[serde(default)]
    pub schedulers: Vec<String>,
    /// Only reads, or only writes; none: both.
    pub way: Option<Way>,
    /// The measure that is shown.
    pub of: Option<Measure>,
    /// The division of the vertical axis.
    #[serde(default)]
    pub scale: Scale,
    /// The source's values.
    #[serde(default)]
    pub marks: Vec<Mark>,
}

/// The kind of drawing of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A bar for each group and scheduler, a panel for each case.
    Bars,
    /// A line against the swept parameter.
    Sweep,
    /// A line over time for each group, a panel for each scheduler.
    TimeSeries,
    /// Moving average of the latency and threshold over time, a panel for each scheduler that has them.
    Threshold,
    /// Bandwidth against latency: a point for each scheduler, a panel for each case and group.
    Tradeoff,
}

impl Kind {
    /// Its name in the file.
    fn name(self) -> &'static str {
        match self {
            Kind::Bars => "bars",
            Kind::Sweep => "sweep",
            Kind::TimeSeries => "time-series",
            Kind::Threshold => "threshold",
            Kind::Tradeoff => "tradeoff",
        }
    }
}

/// The measure that a figure shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Bandwidth over the fair share; 1 is ideal.
    FUtil,
    /// Mean |f-Util − 1|; 0 is ideal.
    Deviation,
    /// 10^6 bytes per second.
    Bandwidth,
    /// Of one IO, seen from somewhere.
    Latency {
        /// Which statistic of the distribution.
        statistic: Statistic,
        /// Where it is measured.
        #[serde(default)]
        reading: Reading,
    },
    /// The scheduler's cost of a written byte.
    WriteCost,
    /// The rate at which the scheduler feeds the SSD.
    TargetRate,
    /// How fragmented the scheduler finds the flash.
    Fragmentation,
    /// IOs that PARDA lets a host have outstanding.
    Window,
}

/// The division of a vertical axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Evenly, from zero.
    #[default]
    Linear,
    /// Each step is a multiple of the one before.
    Log,
}

/// A value that the source gives.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// The source's value, in the unit of the results: MB/s, µs, or none.
    pub value: f64,
    /// Only in this case's panel.
    pub case: Option<String>,
    /// Of this scheduler.
    pub scheduler: Option<String>,
    /// Of this group (bars).
    pub group: Option<String>,
    /// At this value of the swept parameter (sweep).
    pub x: Option<f64>,
    /// From this moment on (time-series).
    pub from: Option<Nanos>,
    /// Up to this moment (time-series).
    pub to: Option<Nanos>,
}

/// A figure drawn for one profile.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// For files: experiment, figure and profile.
    pub name: String,
    /// The figure's own name.
    pub figure: String,
    /// The SSD's profile.
    pub profile: String,
    /// The point that a reader sees, in a sentence.
    pub see: String,
    /// The drawing.
    pub svg: String,
}

impl Drawn {
    /// The drawing as a PNG file.
    pub fn png(&self) -> Vec<u8> {
        raster::png(&self.svg)
    }
}

impl Figure {
    /// The figure on each profile; none where the findings have nothing for it (cases or schedulers that were left out).
    pub(crate) fn draw(&self, findings: &Findings) -> Vec<Drawn> {
        let experiment = &findings.experiment;
        let profiles = experiment.ssds.iter().map(|ssd| ssd.profile.name.as_str());
        let drawn = profiles.filter_map(|profile| {
            Some(Drawn {
                name: format!("{}-{}-{profile}", experiment.name, self.name),
                figure: self.name.clone(),
                profile: profile.to_owned(),
                see: self.see.clone(),
                svg: paint::svg(&self.picture(findings, profile)?),
            })
        });
        drawn.collect()
    }

    fn picture(&self, findings: &Findings, profile: &str) -> Option<Picture> {
        let view = View { figure: self, findings, profile };
        if view.cases().is_empty() {
            return None;
        }
        let (panels, key) = match self.kind {
            Kind::Bars => bars::panels(&view),
            Kind::Sweep => sweep::panels(&view),
            Kind::TimeSeries => time_series::panels(&view),
            Kind::Threshold => time_series::threshold_panels(&view),
            Kind::Tradeoff => tradeoff::panels(&view),
        };
        let something = panels.iter().any(|panel| !panel.items.is_empty());
        something.then(|| Picture { title: view.title(), subtitle: view.subtitle(), panels, key })
    }
}
