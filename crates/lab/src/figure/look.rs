//! How things are distinguished: by colour, and also by hatching, dashes and markers.
//!
//! A scheduler looks the same in every figure of every experiment.

use plotters::style::RGBColor;

/// For lines and letters.
pub(super) const INK: RGBColor = RGBColor(25, 25, 25);
/// Of grids.
pub(super) const FAINT: RGBColor = RGBColor(222, 222, 222);
/// Of the source's values.
pub(super) const SOURCE: RGBColor = RGBColor(190, 0, 0);

/// One look.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Look {
    /// Of lines and areas; also for people who cannot distinguish red from green (after Okabe and Ito).
    pub(super) colour: RGBColor,
    /// On areas.
    pub(super) hatch: Hatch,
    /// Length of a dash and of the gap after it; none: a solid line.
    pub(super) dash: Option<(f64, f64)>,
    /// On lines and alone.
    pub(super) marker: Marker,
}

/// Lines over an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hatch {
    /// None.
    Plain,
    /// `/`
    Rising,
    /// `\`
    Falling,
    /// Both.
    Crossed,
    /// `—`
    Level,
    /// `|`
    Upright,
    /// Horizontal and vertical.
    Grid,
}

/// The shape of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marker {
    /// ○
    Ring,
    /// ●
    Disc,
    /// □
    Box,
    /// ■
    Square,
    /// ▲
    Triangle,
    /// ◆
    Diamond,
    /// ×
    Cross,
    /// +
    Plus,
    /// No point at all.
    None,
}

const LOOKS: [Look; 12] = [
    look((150, 150, 150), Hatch::Plain, Some((3.0, 8.0)), Marker::Ring),
    look((230, 159, 0), Hatch::Rising, Some((26.0, 10.0)), Marker::Square),
    look((86, 180, 233), Hatch::Falling, Some((14.0, 8.0)), Marker::Triangle),
    look((0, 70, 120), Hatch::Plain, None, Marker::Disc),
    look((204, 121, 167), Hatch::Crossed, Some((8.0, 8.0)), Marker::Diamond),
    look((0, 158, 115), Hatch::Level, Some((40.0, 12.0)), Marker::Box),
    look((213, 94, 0), Hatch::Upright, Some((18.0, 18.0)), Marker::Cross),
    look((150, 105, 60), Hatch::Grid, Some((5.0, 5.0)), Marker::Plus),
    look((110, 70, 160), Hatch::Rising, Some((30.0, 4.0)), Marker::Disc),
    look((245, 205, 110), Hatch::Falling, Some((26.0, 4.0)), Marker::Ring),
    look((160, 210, 240), Hatch::Crossed, Some((14.0, 3.0)), Marker::Ring),
    look((225, 180, 205), Hatch::Upright, Some((8.0, 3.0)), Marker::Ring),
];

const fn look(colour: (u8, u8, u8), hatch: Hatch, dash: Option<(f64, f64)>, marker: Marker) -> Look {
    Look { colour: RGBColor(colour.0, colour.1, colour.2), hatch, dash, marker }
}

impl Look {
    /// The look of the n-th of several things.
    pub(super) fn of(n: usize) -> Look {
        LOOKS[n % LOOKS.len()]
    }

    /// The look of the n-th of several lines that are not schedulers: the plainest first.
    pub(super) fn line(n: usize) -> Look {
        const ORDER: [usize; LOOKS.len()] = [3, 6, 5, 1, 4, 2, 0, 7, 8, 9, 10, 11];
        LOOKS[ORDER[n % LOOKS.len()]]
    }

    /// The latency that a scheduler sees.
    pub(super) const LATENCY: Look = look((0, 70, 120), Hatch::Plain, None, Marker::None);
    /// The threshold that it compares it with.
    pub(super) const THRESHOLD: Look = look((213, 94, 0), Hatch::Plain, Some((22.0, 10.0)), Marker::None);
}
