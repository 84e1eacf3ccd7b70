//! The swept parameter against bandwidth, f-Util or latency: a line for each case, scheduler, group and direction.

use super::axis::Axis;
use super::fit::fit;
use super::look::Look;
use super::picture::{Item, Key, Panel, Sample};
use super::view::{Part, View, look};
use super::{Measure, Scale};
use crate::experiment::{Case, Parameter};
use crate::scheduler::Scheduler;

/// One line of the figure.
struct Curve<'f> {
    case: &'f Case,
    scheduler: Scheduler,
    part: Part<'f>,
    look: Look,
}

pub(super) fn panels(view: &View<'_>) -> (Vec<Panel>, Vec<Key>) {
    let measure = view.figure.of.expect("checked when the experiment was read");
    let (cases, schedulers) = (view.cases(), view.schedulers());
    let mut of_case: Vec<Vec<Curve<'_>>> =
        cases.iter().map(|case| curves(view, case, &schedulers, measure)).collect();
    // One line a case: they can be compared in one panel.
    let together = of_case.iter().all(|curves| curves.len() == 1);
    if together {
        of_case.iter_mut().flatten().enumerate().for_each(|(n, curve)| curve.look = Look::line(n));
    }
    let mut panels: Vec<Panel> = if together {
        vec![panel(view, "", of_case.iter().flatten())]
    } else {
        cases.iter().zip(&of_case).map(|(case, curves)| panel(view, &case.name, curves.iter())).collect()
    };
    fit(&mut panels, view.figure, measure, view.figure.scale == Scale::Log);
    let several = schedulers.len() > 1;
    let label = |curve: &Curve<'_>| match (together, several) {
        (true, _) => curve.case.name.clone(),
        (false, true) => format!("{}, {}", curve.scheduler.name(), curve.part.label),
        (false, false) => curve.part.label.clone(),
    };
    let in_key: Vec<&Curve<'_>> =
        if together { of_case.iter().flatten().collect() } else { longest(&of_case).iter().collect() };
    let mut key: Vec<Key> =
        in_key.into_iter().map(|curve| Key::new(label(curve), Sample::Line(curve.look))).collect();
    if !view.figure.marks.is_empty() {
        key.push(Key::source());
    }
    (panels, key)
}

/// The case with the most lines: the others have the first of them.
fn longest<'c, 'f>(of_case: &'c [Vec<Curve<'f>>]) -> &'c [Curve<'f>] {
    of_case.iter().max_by_key(|curves| curves.len()).map_or(&[], Vec::as_slice)
}

fn curves<'f>(view: &View<'f>, case: &'f Case, schedulers: &[Scheduler], measure: Measure) -> Vec<Curve<'f>> {
    let mut curves = Vec::new();
    for scheduler in schedulers {
        let parts = view.parts(case);
        // Reads and writes of one group have a sum.
        let together = (measure == Measure::Bandwidth
            && parts.len() == 2
            && parts[0].group == parts[1].group)
            .then(|| Part { group: parts[0].group, way: None, label: format!("{}, both", parts[0].group) });
        let parts: Vec<Part<'_>> = parts.into_iter().chain(together).collect();
        let only = schedulers.len() > 1 && parts.len() == 1;
        for part in parts {
            let look = if only { look(*scheduler) } else { Look::line(curves.len()) };
            curves.push(Curve { case, scheduler: *scheduler, part, look });
        }
    }
    curves
}

fn panel<'c, 'f: 'c>(view: &View<'f>, title: &str, curves: impl Iterator<Item = &'c Curve<'f>>) -> Panel {
    let (mut items, mut values, mut name, mut scale) = (Vec::new(), Vec::new(), "", Scale::Linear);
    for curve in curves {
        let case = curve.case;
        let swept = view.values(case);
        let points = swept.iter().filter_map(|x| {
            let spread = view.spread(&case.name, Some(*x), curve.scheduler, &curve.part)?;
            Some((*x, spread.median))
        });
        items.push(Item::Line { points: points.collect(), look: curve.look, marked: true });
        for mark in view.marks(&case.name, Some(curve.scheduler)) {
            let at = mark.x.expect("checked when the experiment was read");
            let item = Item::Source { x: (at, at), y: mark.value };
            if !items.contains(&item) {
                items.push(item);
            }
        }
        values.extend(swept);
        let parameter = case.swept.expect("checked when the experiment was read");
        (name, scale) = (parameter.axis(), parameter.scale());
    }
    values.sort_by(f64::total_cmp);
    values.dedup();
    Panel {
        title: title.to_owned(),
        x: Axis::values(name, &values, scale),
        y: Axis::from_zero("", 1.0),
        items,
    }
}

impl Parameter {
    /// Sizes and numbers are swept by doubling.
    fn scale(self) -> Scale {
        match self {
            Parameter::RwMixRead => Scale::Linear,
            Parameter::Bs | Parameter::IoDepth | Parameter::Count => Scale::Log,
        }
    }
}
