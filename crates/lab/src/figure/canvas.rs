//! Draws lines, dashes, hatching, markers and letters, in SVG units.

use super::look::{FAINT, Hatch, INK, Look, Marker};
use plotters::prelude::{DrawingBackend, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontTransform, IntoFont, RGBColor, ShapeStyle, TextStyle, WHITE};

/// The font family: the one that `raster` brings, then one of the reader's machine.
const FAMILY: &str = "Ubuntu, DejaVu Sans, Helvetica, Arial, sans-serif";
/// The drawing library makes letters smaller than asked, by this factor.
const SHRINKS: f64 = 1.24;
/// A letter's width as a share of its height: that of the widest of the families, so that labels do not overlap in any.
const LETTER_WIDTH: f64 = 0.58;
/// Between the lines of a hatching, and their strength.
const HATCH_STEP: f64 = 14.0;
const HATCH_WIDTH: u32 = 2;
/// Half the width of a marker.
const MARKER: f64 = 9.0;

/// A place in SVG units, from the upper left corner.
pub(super) type At = (f64, f64);

/// A rectangle: upper left and lower right corner.
pub(super) type Area = (At, At);

/// An SVG as it is drawn.
pub(super) struct Canvas<'s> {
    backend: SVGBackend<'s>,
}

/// How letters are aligned.
#[derive(Clone, Copy)]
pub(super) struct Letters {
    /// Height, SVG units.
    pub(super) size: f64,
    /// Left, centred or right.
    pub(super) across: HPos,
    /// From bottom to top.
    pub(super) upright: bool,
}

const NEVER: &str = "a drawing in memory takes everything";

impl<'s> Canvas<'s> {
    pub(super) fn new(svg: &'s mut String, size: (u32, u32)) -> Canvas<'s> {
        let mut backend = SVGBackend::with_string(svg, size);
        let paper = (size.0 as i32, size.1 as i32);
        backend.draw_rect((0, 0), paper, &filled(WHITE), true).expect(NEVER);
        Canvas { backend }
    }

    pub(super) fn finish(mut self) {
        self.backend.present().expect(NEVER);
    }

    pub(super) fn line(&mut self, points: &[At], colour: RGBColor, width: u32) {
        let style = ShapeStyle { stroke_width: width, ..filled(colour) };
        self.backend.draw_path(points.iter().map(whole), &style).expect(NEVER);
    }

    /// A line in the dashes of its look.
    pub(super) fn dashed(&mut self, points: &[At], dash: Option<(f64, f64)>, colour: RGBColor, width: u32) {
        match dash {
            None => self.line(points, colour, width),
            Some(dash) => {
                for piece in dashes(points, dash) {
                    self.line(&piece, colour, width);
                }
            }
        }
    }

    /// An area with its hatching and an edge.
    pub(super) fn bar(&mut self, area: Area, look: Look) {
        let ((left, top), (right, bottom)) = area;
        self.backend.draw_rect(whole(&area.0), whole(&area.1), &filled(look.colour), true).expect(NEVER);
        let directions: &[(f64, f64)] = match look.hatch {
            Hatch::Plain => &[],
            Hatch::Rising => &[(1.0, 1.0)],
            Hatch::Falling => &[(1.0, -1.0)],
            Hatch::Crossed => &[(1.0, 1.0), (1.0, -1.0)],
            Hatch::Level => &[(0.0, 1.0)],
            Hatch::Upright => &[(1.0, 0.0)],
            Hatch::Grid => &[(0.0, 1.0), (1.0, 0.0)],
        };
        for direction in directions {
            for piece in hatching(area, *direction) {
                self.line(&piece, INK, HATCH_WIDTH);
            }
        }
        let edge = [(left, bottom), (left, top), (right, top), (right, bottom), (left, bottom)];
        self.line(&edge, INK, HATCH_WIDTH);
    }

    pub(super) fn marker(&mut self, (x, y): At, look: Look) {
        let (near, far) = (MARKER * 0.9, MARKER * 1.25);
        let corners = |size: f64| {
            [(x - size, y - size), (x + size, y - size), (x + size, y + size), (x - size, y + size)]
        };
        let closed = |corners: [At; 4]| [corners[0], corners[1], corners[2], corners[3], corners[0]];
        match look.marker {
            Marker::Disc | Marker::Ring => {
                let inside = if look.marker == Marker::Disc { look.colour } else { WHITE };
                self.backend.draw_circle(whole(&(x, y)), MARKER as u32, &filled(inside), true).expect(NEVER);
                let edge = ShapeStyle { stroke_width: 3, ..filled(look.colour) };
                self.backend.draw_circle(whole(&(x, y)), MARKER as u32, &edge, false).expect(NEVER);
            }
            Marker::Square => self.polygon(&corners(near), look.colour),
            Marker::Box => {
                self.polygon(&corners(near), WHITE);
                self.line(&closed(corners(near)), look.colour, 3);
            }
            Marker::Triangle => {
                self.polygon(&[(x - far, y + near), (x, y - far), (x + far, y + near)], look.colour);
            }
            Marker::Diamond => {
                self.polygon(&[(x - far, y), (x, y - far), (x + far, y), (x, y + far)], look.colour);
            }
            Marker::None => {}
            Marker::Cross => {
                self.line(&[(x - near, y - near), (x + near, y + near)], look.colour, 4);
                self.line(&[(x - near, y + near), (x + near, y - near)], look.colour, 4);
            }
            Marker::Plus => {
                self.line(&[(x - far, y), (x + far, y)], look.colour, 4);
                self.line(&[(x, y - far), (x, y + far)], look.colour, 4);
            }
        }
    }

    pub(super) fn polygon(&mut self, corners: &[At], colour: RGBColor) {
        self.backend.fill_polygon(corners.iter().map(whole), &filled(colour)).expect(NEVER);
    }

    /// A line of the grid.
    pub(super) fn grid(&mut self, from: At, to: At) {
        self.line(&[from, to], FAINT, 2);
    }

    pub(super) fn text(&mut self, text: &str, at: At, letters: Letters) {
        if text.is_empty() {
            return;
        }
        let turned = if letters.upright { FontTransform::Rotate270 } else { FontTransform::None };
        let font = (FAMILY, letters.size * SHRINKS).into_font().transform(turned);
        let style = TextStyle::from(font).color(&INK).pos(Pos::new(letters.across, VPos::Center));
        self.backend.draw_text(text, &style, whole(&at)).expect(NEVER);
    }
}

/// The greatest width of a text of this height.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * LETTER_WIDTH
}

fn filled(colour: RGBColor) -> ShapeStyle {
    ShapeStyle { color: colour.to_rgba(), filled: true, stroke_width: 1 }
}

/// To the nearest unit.
fn whole(at: &At) -> (i32, i32) {
    (at.0.round() as i32, at.1.round() as i32)
}

/// The pieces of a path that are drawn.
fn dashes(points: &[At], (dash, gap): (f64, f64)) -> Vec<Vec<At>> {
    let mut pieces: Vec<Vec<At>> = Vec::new();
    let (mut drawing, mut left) = (true, dash);
    let mut piece: Vec<At> = points.first().copied().into_iter().collect();
    for step in points.windows(2) {
        let (mut from, to) = (step[0], step[1]);
        let mut length = (to.0 - from.0).hypot(to.1 - from.1);
        while length > left {
            let share = left / length;
            from = (from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share);
            length -= left;
            if drawing {
                piece.push(from);
                pieces.push(std::mem::take(&mut piece));
            } else {
                piece = vec![from];
            }
            drawing = !drawing;
            left = if drawing { dash } else { gap };
        }
        left -= length;
        if drawing {
            piece.push(to);
        }
    }
    if drawing && piece.len() > 1 {
        pieces.push(piece);
    }
    pieces
}

/// The lines along which `a·x + b·y` is a multiple of the step, within the area.
fn hatching(((left, top), (right, bottom)): Area, (a, b): (f64, f64)) -> Vec<[At; 2]> {
    let corners = [(left, top), (right, top), (left, bottom), (right, bottom)];
    let sums = corners.map(|(x, y)| a * x + b * y);
    let step = HATCH_STEP * a.hypot(b);
    let first = (sums.iter().copied().fold(f64::INFINITY, f64::min) / step).ceil() as i64;
    let last = (sums.iter().copied().fold(f64::NEG_INFINITY, f64::max) / step).floor() as i64;
    let line = |n: i64| {
        let sum = n as f64 * step;
        if b == 0.0 {
            return [(sum / a, top), (sum / a, bottom)];
        }
        if a == 0.0 {
            return [(left, sum / b), (right, sum / b)];
        }
        // Where it meets the left and the right edge, or the upper and the lower one if that comes first.
        let x_at = |y: f64| (sum - b * y) / a;
        let ends = [x_at(top), x_at(bottom)];
        let (x0, x1) = (ends[0].min(ends[1]).max(left), ends[0].max(ends[1]).min(right));
        [(x0, (sum - a * x0) / b), (x1, (sum - a * x1) / b)]
    };
    (first..=last).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_go_on_around_a_corner() {
        let corner = [(0.0, 0.0), (6.0, 0.0), (6.0, 10.0)];
        let pieces = dashes(&corner, (8.0, 4.0));
        assert_eq!(pieces, [vec![(0.0, 0.0), (6.0, 0.0), (6.0, 2.0)], vec![(6.0, 6.0), (6.0, 10.0)]]);
    }

    #[test]
    fn hatching_stays_within_its_area() {
        let area = ((10.0, 20.0), (50.0, 120.0));
        for direction in [(1.0, 1.0), (1.0, -1.0), (1.0, 0.0), (0.0, 1.0)] {
            let lines = hatching(area, direction);
            assert!(lines.len() >= 2, "{direction:?} has {} lines", lines.len());
            for (x, y) in lines.into_iter().flatten() {
                assert!(
                    (10.0..=50.0).contains(&x) && (20.0 - 1e-9..=120.0 + 1e-9).contains(&y),
                    "({x}, {y})"
                );
            }
        }
    }
}
