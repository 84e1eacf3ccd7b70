//! A picture as SVG: where everything is on the page.
//!
//! ```text
//!  title
//!  subtitle
//!  key, in as many rows as it takes
//!  panel  panel  panel
//!  panel  …
//! ```

use super::axis::Axis;
use super::canvas::{Area, At, Canvas, Letters, text_width};
use super::look::{INK, Look, Marker, SOURCE};
use super::picture::{Item, Key, Panel, Picture, Sample};
use plotters::style::WHITE;
use plotters::style::text_anchor::HPos;

/// Width of a picture, SVG units.
const WIDTH: f64 = 1800.0;
/// Around everything, and between panels.
const MARGIN: f64 = 28.0;
/// Heights of letters: the title; panels' titles and axes' names; ticks and the key.
const TITLE: f64 = 34.0;
const NAME: f64 = 27.0;
const LABEL: f64 = 24.0;
/// From one line of text to the next, in heights of its letters.
const LINE: f64 = 1.45;
/// Width of a sample in the key, and of the free space after it and after an entry.
const SAMPLE: f64 = 70.0;
const AFTER_SAMPLE: f64 = 12.0;
const AFTER_ENTRY: f64 = 40.0;
/// Length of ticks, and the distance of their labels from the axis.
const TICK: f64 = 8.0;
const BESIDE: f64 = 14.0;
/// The least distance between two labels of an axis.
const BETWEEN: f64 = 14.0;
/// Lines of names below a horizontal axis, at most.
const NAME_LINES: usize = 3;
/// Width of lines.
const STROKE: u32 = 4;
/// Half the width of a whisker's end.
const CAP: f64 = 8.0;
/// Between the markers of a line that has too many points to mark each.
const MARKED_EVERY: f64 = 130.0;
/// Half the width of the source's value where it is a point.
const SOURCE_POINT: f64 = 22.0;
/// Length of the triangles that point at it.
const ARROW: f64 = 14.0;
/// A white edge separates lines from the bars behind them: it is this much wider than the line.
const HALO: u32 = 5;

/// The picture as the text of an SVG file.
pub(super) fn svg(picture: &Picture) -> String {
    let columns = match picture.panels.len() {
        1 => 1,
        2 | 4 => 2,
        _ => 3,
    };
    let rows = picture.panels.len().div_ceil(columns);
    let height = match columns {
        1 => 820.0,
        2 => 700.0,
        _ => 620.0,
    };
    let key = key_rows(&picture.key);
    let head = MARGIN + (TITLE + LABEL) * LINE + (key.len() as f64) * LABEL * LINE * 1.15 + MARGIN / 2.0;
    let whole = (WIDTH as u32, (head + rows as f64 * height + MARGIN) as u32);
    let mut svg = String::new();
    let mut canvas = Canvas::new(&mut svg, whole);
    let left = Letters { size: TITLE, across: HPos::Left, upright: false };
    canvas.text(&picture.title, (MARGIN, MARGIN + TITLE / 2.0), left);
    let under = MARGIN + TITLE * LINE + LABEL / 2.0;
    canvas.text(&picture.subtitle, (MARGIN, under), Letters { size: LABEL, ..left });
    for (row, entries) in key.iter().enumerate() {
        let y = MARGIN + (TITLE + LABEL) * LINE + (row as f64 + 0.5) * LABEL * LINE * 1.15;
        for (x, entry) in entries {
            draw_key(&mut canvas, entry, (*x, y));
        }
    }
    let width = (WIDTH - MARGIN) / columns as f64;
    for (n, panel) in picture.panels.iter().enumerate() {
        let upper_left = (MARGIN + (n % columns) as f64 * width, head + (n / columns) as f64 * height);
        let lower_right = (upper_left.0 + width - MARGIN, upper_left.1 + height - MARGIN);
        draw_panel(&mut canvas, panel, (upper_left, lower_right));
    }
    canvas.finish();
    svg
}

/// The key's entries with the place of each, row by row.
fn key_rows(key: &[Key]) -> Vec<Vec<(f64, &Key)>> {
    let mut rows: Vec<Vec<(f64, &Key)>> = Vec::new();
    let mut x = f64::INFINITY;
    for entry in key {
        let width = SAMPLE + AFTER_SAMPLE + text_width(&entry.label, LABEL) + AFTER_ENTRY;
        if x + width > WIDTH {
            rows.push(Vec::new());
            x = MARGIN;
        }
        rows.last_mut().expect("the first entry opens a row").push((x, entry));
        x += width;
    }
    rows
}

fn draw_key(canvas: &mut Canvas<'_>, key: &Key, (x, y): At) {
    let (ends, middle) = ([(x, y), (x + SAMPLE, y)], (x + SAMPLE / 2.0, y));
    match key.sample {
        Sample::Bar(look) => canvas.bar(((x, y - LABEL * 0.5), (x + SAMPLE, y + LABEL * 0.5)), look),
        Sample::Line(look) => {
            canvas.dashed(&ends, look.dash, look.colour, STROKE);
            canvas.marker(middle, look);
        }
        Sample::Point(look) => canvas.marker(middle, look),
        Sample::Ideal => ideal(canvas, ends),
        Sample::Source => source(canvas, [(x + ARROW, y), (x + SAMPLE - ARROW, y)]),
    }
    let letters = Letters { size: LABEL, across: HPos::Left, upright: false };
    canvas.text(&key.label, (x + SAMPLE + AFTER_SAMPLE, y), letters);
}

/// Axes first, so that nothing hides the results.
fn draw_panel(canvas: &mut Canvas<'_>, panel: &Panel, (upper_left, lower_right): Area) {
    let ticks = panel.y.ticks.iter().map(|tick| text_width(&tick.label, LABEL)).fold(0.0, f64::max);
    let left = upper_left.0 + NAME * LINE + ticks + BESIDE;
    let top = upper_left.1 + if panel.title.is_empty() { MARGIN / 2.0 } else { NAME * LINE };
    let right = lower_right.0 - MARGIN / 2.0;
    let slot = (right - left) / panel.x.ticks.len().max(1) as f64;
    let lines = if panel.x.names {
        panel.x.ticks.iter().map(|tick| wrapped(&tick.label, slot).len()).max().unwrap_or(1)
    } else {
        1
    };
    let named = if panel.x.name.is_empty() { 0.0 } else { NAME * LINE };
    let bottom = lower_right.1 - named - lines as f64 * LABEL * LINE - BESIDE;
    let frame = ((left, top), (right, bottom));
    let centred = Letters { size: NAME, across: HPos::Center, upright: false };
    let middle = ((left + right) / 2.0, (top + bottom) / 2.0);
    canvas.text(&panel.title, (middle.0, upper_left.1 + NAME / 2.0), centred);
    canvas.text(&panel.x.name, (middle.0, lower_right.1 - NAME / 2.0), centred);
    canvas.text(&panel.y.name, (upper_left.0 + NAME / 2.0, middle.1), Letters { upright: true, ..centred });
    draw_y(canvas, &panel.y, frame);
    draw_x(canvas, &panel.x, frame, slot);
    canvas.line(&[(left, top), (left, bottom), (right, bottom)], INK, 3);
    for item in &panel.items {
        draw_item(canvas, item, panel, frame);
    }
}

fn draw_y(canvas: &mut Canvas<'_>, axis: &Axis, ((left, top), (right, bottom)): Area) {
    let letters = Letters { size: LABEL, across: HPos::Right, upright: false };
    for tick in &axis.ticks {
        let y = bottom - axis.place(tick.at) * (bottom - top);
        canvas.grid((left, y), (right, y));
        canvas.line(&[(left - TICK, y), (left, y)], INK, 2);
        canvas.text(&tick.label, (left - BESIDE, y), letters);
    }
}

fn draw_x(canvas: &mut Canvas<'_>, axis: &Axis, ((left, _), (right, bottom)): Area, slot: f64) {
    let letters = Letters { size: LABEL, across: HPos::Center, upright: false };
    let mut free_from = f64::NEG_INFINITY;
    for tick in &axis.ticks {
        let x = left + axis.place(tick.at) * (right - left);
        if axis.names {
            for (n, line) in wrapped(&tick.label, slot).into_iter().enumerate() {
                canvas.text(&line, (x, bottom + BESIDE + (n as f64 + 0.5) * LABEL * LINE), letters);
            }
            continue;
        }
        canvas.line(&[(x, bottom), (x, bottom + TICK)], INK, 2);
        let half = text_width(&tick.label, LABEL) / 2.0;
        if x - half >= free_from {
            canvas.text(&tick.label, (x, bottom + BESIDE + LABEL * LINE / 2.0), letters);
            free_from = x + half + BETWEEN;
        }
    }
}

/// A name in lines that fit into `room`, broken at spaces. Text that does not fit into the last line is replaced by `…`.
fn wrapped(name: &str, room: f64) -> Vec<String> {
    let fits = |text: &str| text_width(text, LABEL) <= room - BETWEEN;
    let mut lines: Vec<String> = Vec::new();
    for word in name.split(' ') {
        match lines.last_mut() {
            Some(line) if fits(&format!("{line} {word}")) => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    if lines.len() > NAME_LINES {
        lines.truncate(NAME_LINES);
        lines[NAME_LINES - 1].push('…');
    }
    for line in &mut lines {
        let mut letters = line.chars().count();
        while !fits(line) && letters > 2 {
            letters -= 1;
            *line = line.chars().take(letters - 1).chain(['…']).collect();
        }
    }
    lines
}

fn draw_item(canvas: &mut Canvas<'_>, item: &Item, panel: &Panel, frame: Area) {
    let ((left, top), (right, bottom)) = frame;
    let place = |at: &(f64, f64)| -> At {
        let (x, y) = (panel.x.place(at.0), panel.y.place(at.1));
        (left + x * (right - left), bottom - y * (bottom - top))
    };
    match item {
        Item::Bar { x, y, look } => {
            let (upper_left, upper_right) = (place(&(x.0, *y)), place(&(x.1, *y)));
            canvas.bar((upper_left, (upper_right.0, bottom)), *look);
        }
        Item::Spread { from, to } => {
            let (from, to) = (place(from), place(to));
            canvas.line(&[from, to], WHITE, 3 + HALO);
            canvas.line(&[from, to], INK, 3);
            for (x, y) in [from, to] {
                let end =
                    if from.0 == to.0 { [(x - CAP, y), (x + CAP, y)] } else { [(x, y - CAP), (x, y + CAP)] };
                canvas.line(&end, INK, 3);
            }
        }
        Item::Line { points, look, marked } => {
            let points: Vec<At> = points.iter().map(place).collect();
            draw_line(canvas, &points, *look, *marked);
        }
        Item::Point { at, look } => canvas.marker(place(at), *look),
        Item::Ideal { x, y } => ideal(canvas, [place(&(x.0, *y)), place(&(x.1, *y))]),
        Item::Source { x, y } => {
            let mut ends = [place(&(x.0, *y)), place(&(x.1, *y))];
            if x.0 == x.1 {
                ends[0].0 -= SOURCE_POINT;
                ends[1].0 += SOURCE_POINT;
            }
            source(canvas, ends);
        }
    }
}

fn draw_line(canvas: &mut Canvas<'_>, points: &[At], look: Look, marked: bool) {
    canvas.dashed(points, look.dash, look.colour, STROKE);
    let alone = points.len() == 1;
    if look.marker == Marker::None && !alone {
        return;
    }
    let mut next = f64::NEG_INFINITY;
    for point in points.iter().filter(|_| !alone || look.marker != Marker::None) {
        if marked || point.0 >= next {
            canvas.marker(*point, look);
            next = point.0 + MARKED_EVERY;
        }
    }
}

/// The ideal: thin dashes on white, which separates them from dark bars.
fn ideal(canvas: &mut Canvas<'_>, ends: [At; 2]) {
    canvas.line(&ends, WHITE, 3 + HALO);
    canvas.dashed(&ends, Some((10.0, 7.0)), INK, 3);
}

/// The source's value: a strong line between two triangles that point at it.
fn source(canvas: &mut Canvas<'_>, [from, to]: [At; 2]) {
    canvas.line(&[from, to], SOURCE, 5);
    let (long, half) = (ARROW, ARROW * 0.65);
    canvas.polygon(&[from, (from.0 - long, from.1 - half), (from.0 - long, from.1 + half)], SOURCE);
    canvas.polygon(&[to, (to.0 + long, to.1 - half), (to.0 + long, to.1 + half)], SOURCE);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_broken_and_at_last_cut() {
        assert_eq!(wrapped("small", 200.0), ["small"]);
        assert_eq!(wrapped("later writers", 120.0), ["later", "writers"]);
        let lines = wrapped("a b c d e f g h", 20.0);
        assert_eq!(lines.len(), NAME_LINES);
        assert!(lines[NAME_LINES - 1].ends_with('…'), "{lines:?}");
    }
}
