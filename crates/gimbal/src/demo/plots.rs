//! The report's plots as SVG: bandwidth over time and latency distribution, one of each per scheduler, on equal axes.

use super::figures::{Figures, Run, TenantFigures};
use anyhow::{Result, anyhow};
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

/// Size of one plot in SVG units.
const SIZE: (u32, u32) = (560, 340);
/// The bandwidth axis ends at this multiple of the highest point.
const HEADROOM: f64 = 1.05;
/// The font family; a plot without one has no labels.
const FONT: &str = "sans-serif";
/// Distinguishable also for people who confuse red and green (after Okabe and Ito).
const COLOURS: [RGBColor; 6] = [
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

/// A tenant's colour, the same in every plot.
fn colour(tenant: usize) -> RGBColor {
    COLOURS[tenant % COLOURS.len()]
}

/// The same colour for a style sheet.
pub(super) fn css_colour(tenant: usize) -> String {
    let RGBColor(red, green, blue) = colour(tenant);
    format!("rgb({red}, {green}, {blue})")
}

/// Per-tenant bandwidth over time.
pub(super) fn bandwidth(figures: &Figures, run: &Run) -> Result<String> {
    let points = || figures.runs.iter().flat_map(|run| &run.tenants).flat_map(|tenant| &tenant.series);
    let highest = points().map(|point| point.1).fold(1.0, f64::max);
    let end = points().map(|point| point.0).fold(1.0, f64::max);
    let look = Look {
        title: format!("{}: bandwidth over time", run.scheduler),
        axes: ["seconds", "MB/s"],
        x_label: |seconds| format!("{}", (seconds * 100.0).round() / 100.0),
    };
    curves(&look, 0.0..end, highest * HEADROOM, run, |tenant| &tenant.series)
}

/// The distribution of each tenant's latency, on a logarithmic axis.
pub(super) fn latency(figures: &Figures, run: &Run) -> Result<String> {
    let latencies =
        || figures.runs.iter().flat_map(|run| &run.tenants).flat_map(|tenant| &tenant.latency.cdf);
    let shortest = latencies().map(|point| point.0).fold(f64::INFINITY, f64::min).clamp(1.0, 1e9);
    let longest = latencies().map(|point| point.0).fold(shortest * 10.0, f64::max);
    let look = Look {
        title: format!("{}: latency, cumulative", run.scheduler),
        axes: ["latency, milliseconds", "fraction of IOs"],
        x_label: |micros| format!("{}", micros / 1e3),
    };
    curves(&look, (shortest..longest).log_scale(), 1.0, run, |tenant| &tenant.latency.cdf)
}

/// The texts of a plot.
struct Look {
    title: String,
    /// Horizontal, vertical.
    axes: [&'static str; 2],
    x_label: fn(&f64) -> String,
}

/// One curve per tenant over `x`, from 0 to `y_end`.
fn curves<X>(
    look: &Look,
    x: X,
    y_end: f64,
    run: &Run,
    points: impl Fn(&TenantFigures) -> &[(f64, f64)],
) -> Result<String>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
{
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .caption(&look.title, (FONT, 17))
            .x_label_area_size(38)
            .y_label_area_size(58)
            .build_cartesian_2d(x, 0.0..y_end)
            .map_err(drawing)?;
        chart
            .configure_mesh()
            .x_desc(look.axes[0])
            .y_desc(look.axes[1])
            .x_label_formatter(&look.x_label)
            .label_style((FONT, 12))
            .axis_desc_style((FONT, 13))
            .light_line_style(WHITE)
            .draw()
            .map_err(drawing)?;
        for (n, tenant) in run.tenants.iter().enumerate() {
            let line = LineSeries::new(points(tenant).iter().copied(), colour(n).stroke_width(2));
            chart.draw_series(line).map_err(drawing)?;
        }
        area.present().map_err(drawing)?;
    }
    Ok(svg)
}

fn drawing<E: std::fmt::Display>(error: E) -> anyhow::Error {
    anyhow!("drawing a plot: {error}")
}
