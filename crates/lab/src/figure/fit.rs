//! Gives panels their vertical axes: unit, scale and ends, from their contents.

use super::axis::Axis;
use super::picture::Panel;
use super::{Figure, Measure, Scale};
use crate::claims::{Reading, Statistic};

/// From this many microseconds on, latencies are shown in milliseconds.
const MILLISECONDS_FROM: f64 = 10_000.0;

/// Values of `measure` on the vertical axes. `shared`: all panels have the same, so that they can be compared.
pub(super) fn fit(panels: &mut [Panel], figure: &Figure, measure: Measure, shared: bool) {
    let all: Vec<f64> = panels.iter_mut().flat_map(heights).collect();
    let (unit, name) = measure.unit(greatest(&all));
    for panel in panels {
        panel.items.iter_mut().flat_map(|item| item.heights()).for_each(|height| *height /= unit);
        let own = heights(panel);
        let scaled: Vec<f64> = if shared { all.iter().map(|height| height / unit).collect() } else { own };
        panel.y = match figure.scale {
            Scale::Linear => Axis::from_zero(name.clone(), greatest(&scaled)),
            Scale::Log => Axis::log(name.clone(), least_positive(&scaled), greatest(&scaled)),
        };
    }
}

fn heights(panel: &mut Panel) -> Vec<f64> {
    panel.items.iter_mut().flat_map(|item| item.heights()).map(|height| *height).collect()
}

fn greatest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn least_positive(values: &[f64]) -> f64 {
    values.iter().copied().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min)
}

impl Measure {
    /// The value of 1 on the axis in the records' unit, and the name of the axis.
    fn unit(self, greatest: f64) -> (f64, String) {
        match self {
            Measure::FUtil => (1.0, "f-Util".into()),
            Measure::Deviation => (1.0, "deviation from the fair share".into()),
            Measure::Bandwidth => (1.0, "bandwidth, MB/s".into()),
            Measure::TargetRate => (1.0, "target rate, MB/s".into()),
            Measure::Fragmentation => (1.0, "fragmentation found (0 clean, 1 fragmented)".into()),
            Measure::Window => (1.0, "window, IOs".into()),
            Measure::WriteCost => (1.0, "price of a written byte, read bytes".into()),
            Measure::Latency { statistic, reading } => {
                let (unit, symbol) = if greatest >= MILLISECONDS_FROM { (1e3, "ms") } else { (1.0, "µs") };
                let statistic = match statistic {
                    Statistic::Mean => "mean",
                    Statistic::P50 => "median",
                    Statistic::P99 => "p99",
                    Statistic::P999 => "p99.9",
                    Statistic::P9999 => "p99.99",
                };
                let place = match reading {
                    Reading::Device => " in the SSD",
                    Reading::Network => "",
                    Reading::EndToEnd => " end to end",
                };
                (unit, format!("{statistic} latency{place}, {symbol}"))
            }
        }
    }
}
