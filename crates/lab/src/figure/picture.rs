//! The content of a figure, in values; `paint` draws it.

use super::axis::Axis;
use super::look::Look;

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Picture {
    /// The subject.
    pub(super) title: String,
    /// Profile and seeds.
    pub(super) subtitle: String,
    /// In reading order.
    pub(super) panels: Vec<Panel>,
    /// The meaning of the looks, for all panels.
    pub(super) key: Vec<Key>,
}

/// One pair of axes with its contents.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Panel {
    /// Which case or scheduler.
    pub(super) title: String,
    /// Horizontal.
    pub(super) x: Axis,
    /// Vertical.
    pub(super) y: Axis,
    /// The first is drawn first.
    pub(super) items: Vec<Item>,
}

/// Something in a panel, in the values of its axes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    /// From the bottom up to `y`.
    Bar {
        /// Left and right edge.
        x: (f64, f64),
        /// Upper edge.
        y: f64,
        /// The look.
        look: Look,
    },
    /// From the least to the greatest over the seeds.
    Spread {
        /// The least.
        from: (f64, f64),
        /// The greatest.
        to: (f64, f64),
    },
    /// From point to point.
    Line {
        /// In order.
        points: Vec<(f64, f64)>,
        /// The look.
        look: Look,
        /// Whether every point is marked, or only some, to distinguish the lines.
        marked: bool,
    },
    /// A marker.
    Point {
        /// Where.
        at: (f64, f64),
        /// The look.
        look: Look,
    },
    /// The ideal.
    Ideal {
        /// From and to.
        x: (f64, f64),
        /// Its value.
        y: f64,
    },
    /// The source's value.
    Source {
        /// From and to.
        x: (f64, f64),
        /// Its value.
        y: f64,
    },
}

impl Item {
    /// All values on the vertical axis.
    pub(super) fn heights(&mut self) -> Vec<&mut f64> {
        match self {
            Item::Bar { y, .. } | Item::Ideal { y, .. } | Item::Source { y, .. } => vec![y],
            Item::Spread { from, to } => vec![&mut from.1, &mut to.1],
            Item::Line { points, .. } => points.iter_mut().map(|point| &mut point.1).collect(),
            Item::Point { at, .. } => vec![&mut at.1],
        }
    }
}

/// One entry of the key.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Key {
    /// The meaning.
    pub(super) label: String,
    /// The sample of it.
    pub(super) sample: Sample,
}

/// The sample in the key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sample {
    /// A bar.
    Bar(Look),
    /// A line.
    Line(Look),
    /// A point.
    Point(Look),
    /// The ideal.
    Ideal,
    /// The source's value.
    Source,
}

impl Key {
    pub(super) fn new(label: impl Into<String>, sample: Sample) -> Key {
        Key { label: label.into(), sample }
    }

    /// The name of the source's values.
    pub(super) fn source() -> Key {
        Key::new("the source's value", Sample::Source)
    }
}
