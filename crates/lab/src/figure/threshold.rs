//! The latency that a scheduler sees and the threshold it compares it with, over time: a panel for each scheduler that has them.

use super::Measure;
use super::axis::Axis;
use super::fit::fit;
use super::look::Look;
use super::picture::{Item, Key, Panel, Sample};
use super::time_series::{TIME, lines};
use super::view::View;
use crate::claims::{Reading, Statistic, Way};
use crate::record::SchedulerPoint;

/// Both are latencies inside the SSD.
const MEASURE: Measure = Measure::Latency { statistic: Statistic::Mean, reading: Reading::Device };

pub(super) fn panels(view: &View<'_>) -> (Vec<Panel>, Vec<Key>) {
    let case = view.cases()[0];
    let way = view.figure.way.expect("checked when the experiment was read");
    let average = |point: &SchedulerPoint| match way {
        Way::Read => point.read_ewma_us,
        Way::Write => point.write_ewma_us,
    };
    let threshold = |point: &SchedulerPoint| match way {
        Way::Read => point.read_threshold_us,
        Way::Write => point.write_threshold_us,
    };
    let (latency_look, threshold_look) = (Look::LATENCY, Look::THRESHOLD);
    let mut panels = Vec::new();
    for scheduler in view.schedulers() {
        let Some(record) = view.records(&case.name, None, scheduler).first().copied() else { continue };
        let series = &record.time_series;
        let mut items: Vec<Item> =
            lines(series.iter().map(|point| (point.second, average(point))), latency_look);
        items
            .extend(lines(series.iter().map(|point| (point.second, Some(threshold(point)))), threshold_look));
        if !items.is_empty() {
            let x = Axis::span(TIME, 0.0, case.window.duration.as_secs_f64());
            let title = scheduler.name().to_owned();
            panels.push(Panel { title, x, y: Axis::from_zero("", 1.0), items });
        }
    }
    fit(&mut panels, view.figure, MEASURE, true);
    let key = vec![
        Key::new("moving average of the latency", Sample::Line(latency_look)),
        Key::new("threshold", Sample::Line(threshold_look)),
    ];
    (panels, key)
}
