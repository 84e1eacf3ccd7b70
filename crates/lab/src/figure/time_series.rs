//! Plots over time: bandwidth or latency of each group, or PARDA's windows, a panel for each scheduler; the schedulers'
//! own state in one panel; or the latency as a scheduler measures it, and its threshold, a panel for each.

use super::axis::Axis;
use super::fit::fit;
use super::look::Look;
use super::picture::{Item, Key, Panel, Sample};
use super::view::{Part, View, look};
use super::{Mark, Measure};
use crate::claims::{Reading, Statistic, Way};
use crate::record::{GroupPoint, Record, SchedulerPoint};
use crate::scheduler::Scheduler;
use units::Nanos;

/// The name of an axis of time.
const TIME: &str = "time, s";

pub(super) fn panels(view: &View<'_>) -> (Vec<Panel>, Vec<Key>) {
    let measure = view.figure.of.expect("checked when the experiment was read");
    let (mut panels, mut key) = match measure {
        Measure::WriteCost => of_schedulers(view, |point| Some(point.write_cost)),
        Measure::TargetRate => of_schedulers(view, |point| point.target_mb_per_s),
        Measure::Fragmentation => of_schedulers(view, |point| point.fragmentation),
        _ => of_groups(view, measure),
    };
    fit(&mut panels, view.figure, measure, true);
    if !view.figure.marks.is_empty() {
        key.push(Key::source());
    }
    (panels, key)
}

/// One panel, a line for each scheduler that shows its state.
fn of_schedulers(view: &View<'_>, value: fn(&SchedulerPoint) -> Option<f64>) -> (Vec<Panel>, Vec<Key>) {
    let (mut items, mut key) = (Vec::new(), Vec::new());
    let case = view.cases()[0];
    for scheduler in view.schedulers() {
        let Some(record) = view.records(&case.name, None, scheduler).first().copied() else { continue };
        if record.time_series.iter().all(|point| value(point).is_none()) {
            continue;
        }
        let look = look(scheduler);
        let shown = record.time_series.iter().map(|point| (point.second, value(point)));
        items.extend(lines(shown, look));
        key.push(Key::new(scheduler.name(), Sample::Line(look)));
    }
    let end = case.window.duration.as_secs_f64();
    items.extend(view.marks(&case.name, None).map(|mark| source(mark, end)));
    let x = Axis::span(TIME, 0.0, end);
    (vec![Panel { title: case.name.clone(), x, y: Axis::from_zero("", 1.0), items }], key)
}

/// A panel for each scheduler, a line for each group.
fn of_groups(view: &View<'_>, measure: Measure) -> (Vec<Panel>, Vec<Key>) {
    let case = view.cases()[0];
    let parts = view.parts(case);
    let end = case.window.duration.as_secs_f64();
    let panel = |scheduler: Scheduler| {
        let record = view.records(&case.name, None, scheduler).first().copied()?;
        if measure == Measure::Window && record.groups.iter().all(|group| group.windows.is_empty()) {
            return None;
        }
        let of_part =
            |(n, part): (usize, &Part<'_>)| lines(time_series(record, part, measure), Look::line(n));
        let mut items: Vec<Item> = parts.iter().enumerate().flat_map(of_part).collect();
        items.extend(view.marks(&case.name, Some(scheduler)).map(|mark| source(mark, end)));
        let x = Axis::span(TIME, 0.0, end);
        Some(Panel { title: scheduler.name().to_owned(), x, y: Axis::from_zero("", 1.0), items })
    };
    let panels = view.schedulers().into_iter().filter_map(panel).collect();
    let entry = |(n, part): (usize, &Part<'_>)| Key::new(part.label.clone(), Sample::Line(Look::line(n)));
    (panels, parts.iter().enumerate().map(entry).collect())
}

/// The measure in each interval.
fn time_series(record: &Record, part: &Part<'_>, measure: Measure) -> Vec<(f64, Option<f64>)> {
    let group = record.group(part.group);
    if measure == Measure::Window {
        let points = group.map_or(&[][..], |group| &group.windows);
        return points.iter().map(|point| (point.second, Some(point.window))).collect();
    }
    let value = |point: &GroupPoint| match measure {
        Measure::Latency { reading: Reading::Device, .. } => match part.way? {
            Way::Read => point.read_device_us,
            Way::Write => point.write_device_us,
        },
        Measure::Latency { .. } => match part.way? {
            Way::Read => point.read_us,
            Way::Write => point.write_us,
        },
        _ => Some(point.mb_per_s),
    };
    let series = group.map_or(&[][..], |group| &group.series);
    series.iter().map(|point| (point.second, value(point))).collect()
}

/// A line for each section without a gap, from the beginning of the measurement on.
fn lines(values: impl IntoIterator<Item = (f64, Option<f64>)>, look: Look) -> Vec<Item> {
    let mut stretches: Vec<Vec<(f64, f64)>> = vec![Vec::new()];
    for (second, value) in values {
        match value {
            Some(value) if second >= 0.0 => {
                stretches.last_mut().expect("there is always one").push((second, value));
            }
            Some(_) => {}
            None => stretches.push(Vec::new()),
        }
    }
    let drawn = stretches.into_iter().filter(|points| !points.is_empty());
    drawn.map(|points| Item::Line { points, look, marked: false }).collect()
}

fn source(mark: &Mark, end: f64) -> Item {
    let second = |span: Option<Nanos>| span.map(Nanos::as_secs_f64);
    let x = (second(mark.from).unwrap_or(0.0), second(mark.to).unwrap_or(end));
    Item::Source { x, y: mark.value }
}

/// Latency and threshold are both inside the SSD.
const THRESHOLD_MEASURE: Measure = Measure::Latency { statistic: Statistic::Mean, reading: Reading::Device };

/// The latency as a scheduler measures it, and the threshold with which it compares it: a panel for each scheduler that
/// has them.
pub(super) fn threshold_panels(view: &View<'_>) -> (Vec<Panel>, Vec<Key>) {
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
    fit(&mut panels, view.figure, THRESHOLD_MEASURE, true);
    let key = vec![
        Key::new("moving average of the latency", Sample::Line(latency_look)),
        Key::new("threshold", Sample::Line(threshold_look)),
    ];
    (panels, key)
}
