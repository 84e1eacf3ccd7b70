//! Curves and bars of others' values, drawn as the lab draws its own: for reports that are not of an experiment.
//!
//! ```text
//!  Chart: title, key, panels of curves or bars ─► Picture ─► paint ─► SVG
//! ```
//!
//! Holds: a value that is no number is left out, and a chart without values has no drawing (`a_chart_without_values_is_not_drawn`);
//!        a name of the key looks the same in every panel (`what_the_key_names_is_in_the_drawing`).

use super::Scale;
use super::axis::Axis;
use super::look::Look;
use super::paint;
use super::picture::{Item, Key, Panel, Picture, Sample};

/// The bars take this part of a name's width.
const FILLED: f64 = 0.7;
/// A line of so few points was measured at each of them: all are marked.
const MARKED_MOST: usize = 32;

/// A drawing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// The subject.
    pub title: String,
    /// Below it.
    pub subtitle: String,
    /// The names of the curves and bars. Curves and bars refer to a name by its number.
    pub key: Vec<String>,
    /// In reading order.
    pub panels: Vec<ChartPanel>,
}

/// One pair of axes.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartPanel {
    /// The difference to other panels.
    pub title: String,
    /// Name of the vertical axis, with the unit, and its division.
    pub y: (String, Scale),
    /// The contents.
    pub contents: Contents,
}

/// The contents of a panel.
#[derive(Clone, Debug, PartialEq)]
pub enum Contents {
    /// Lines between points.
    Curves {
        /// Name of the horizontal axis, with the unit.
        x: String,
        /// The division of the axis.
        along: Along,
        /// The lines: number in the key, and points.
        curves: Vec<(usize, Vec<(f64, f64)>)>,
    },
    /// Bars side by side.
    Bars {
        /// Names below the bars; for each name, a value for each entry of the key.
        groups: Vec<(String, Vec<Option<f64>>)>,
    },
}

/// The division of a horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Along {
    /// Evenly, from zero.
    Even,
    /// Each step a multiple of the one before, with a tick at each of these values.
    Doubling(Vec<f64>),
}

impl Chart {
    /// The drawing as SVG; `None` if there is nothing to draw.
    pub fn svg(&self) -> Option<String> {
        let panels: Vec<Panel> = self.panels.iter().filter_map(ChartPanel::panel).collect();
        if panels.is_empty() {
            return None;
        }
        let is_bars = |panel: &ChartPanel| matches!(panel.contents, Contents::Bars { .. });
        let bars = self.panels.iter().all(is_bars);
        let sample = |n| if bars { Sample::Bar(Look::line(n)) } else { Sample::Line(Look::line(n)) };
        let key = self.key.iter().enumerate().map(|(n, label)| Key::new(label.clone(), sample(n)));
        let (title, subtitle) = (self.title.clone(), self.subtitle.clone());
        Some(paint::svg(&Picture { title, subtitle, panels, key: key.collect() }))
    }
}

impl ChartPanel {
    fn panel(&self) -> Option<Panel> {
        let (x, items) = match &self.contents {
            Contents::Curves { x, along, curves } => {
                let kept = curves.iter().map(|(n, points)| (*n, drawable(points, self.y.1)));
                let kept: Vec<(usize, Vec<(f64, f64)>)> =
                    kept.filter(|(_, points)| !points.is_empty()).collect();
                let greatest =
                    kept.iter().flat_map(|(_, points)| points).map(|point| point.0).fold(0.0, f64::max);
                let x = match along {
                    Along::Even => Axis::from_zero(x.clone(), greatest),
                    Along::Doubling(values) => Axis::values(x.clone(), values, Scale::Log),
                };
                let line = |(n, points): (usize, Vec<(f64, f64)>)| Item::Line {
                    marked: points.len() <= MARKED_MOST,
                    points,
                    look: Look::line(n),
                };
                (x, kept.into_iter().map(line).collect::<Vec<Item>>())
            }
            Contents::Bars { groups } => {
                let names = groups.iter().map(|(name, _)| name.clone()).collect();
                (Axis::names(names), bars(groups))
            }
        };
        let heights = || {
            items.iter().flat_map(|item| match item {
                Item::Line { points, .. } => points.iter().map(|point| point.1).collect(),
                Item::Bar { y, .. } => vec![*y],
                _ => Vec::new(),
            })
        };
        let (least, greatest) = (heights().fold(f64::INFINITY, f64::min), heights().fold(0.0, f64::max));
        let y = match self.y.1 {
            Scale::Linear => Axis::from_zero(self.y.0.clone(), greatest),
            Scale::Log => Axis::log(self.y.0.clone(), least, greatest),
        };
        (!items.is_empty()).then(|| Panel { title: self.title.clone(), x, y, items })
    }
}

/// The points that have a place on the axes.
fn drawable(points: &[(f64, f64)], scale: Scale) -> Vec<(f64, f64)> {
    let has_place = |point: &&(f64, f64)| {
        point.0.is_finite() && point.1.is_finite() && (scale == Scale::Linear || point.1 > 0.0)
    };
    points.iter().filter(has_place).copied().collect()
}

fn bars(groups: &[(String, Vec<Option<f64>>)]) -> Vec<Item> {
    let mut items = Vec::new();
    for (g, (_, values)) in groups.iter().enumerate() {
        let width = FILLED / values.len().max(1) as f64;
        let left = g as f64 + (1.0 - FILLED) / 2.0;
        for (n, value) in values.iter().enumerate() {
            if let Some(y) = value.filter(|value| value.is_finite()) {
                let x = (left + n as f64 * width, left + (n + 1) as f64 * width);
                items.push(Item::Bar { x, y, look: Look::line(n) });
            }
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(contents: Contents) -> Chart {
        let panel = ChartPanel { title: "a panel".to_owned(), y: ("MB/s".to_owned(), Scale::Log), contents };
        Chart {
            title: "a title".to_owned(),
            subtitle: "below".to_owned(),
            key: vec!["one".to_owned(), "other".to_owned()],
            panels: vec![panel],
        }
    }

    fn curves(points: Vec<(f64, f64)>) -> Contents {
        Contents::Curves {
            x: "depth".to_owned(),
            along: Along::Doubling(vec![1.0, 8.0]),
            curves: vec![(1, points)],
        }
    }

    #[test]
    fn what_the_key_names_is_in_the_drawing() {
        let svg = chart(curves(vec![(1.0, 10.0), (8.0, 100.0)])).svg().expect("something");
        for text in ["a title", "below", "one", "other", "a panel", "depth", "MB/s"] {
            assert!(svg.contains(text), "{text} is not in the drawing");
        }
        let groups = vec![("fresh".to_owned(), vec![Some(3.0), None])];
        assert!(chart(Contents::Bars { groups }).svg().expect("a bar").contains("fresh"));
    }

    #[test]
    fn a_chart_without_values_is_not_drawn() {
        assert_eq!(chart(curves(Vec::new())).svg(), None);
        assert_eq!(chart(curves(vec![(1.0, f64::NAN), (f64::INFINITY, 3.0), (2.0, 0.0)])).svg(), None);
        assert_eq!(chart(Contents::Bars { groups: vec![("x".to_owned(), vec![None])] }).svg(), None);
    }
}
