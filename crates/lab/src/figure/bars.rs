//! A bar for each group and scheduler, a panel for each case; the fair share and the source's values as lines over them.

use super::axis::Axis;
use super::fit::fit;
use super::picture::{Item, Key, Panel, Sample};
use super::view::{Part, View, look};
use super::{Measure, Scale};
use crate::experiment::{Case, Group};
use crate::findings::Spread;

/// The bars take this part of a group's width.
const FILLED: f64 = 0.84;
/// Distance of the ends of the source's values from the middle of a bar, in bars.
const SOURCE: f64 = 0.3;

pub(super) fn panels(view: &View<'_>) -> (Vec<Panel>, Vec<Key>) {
    let measure = view.figure.of.expect("checked when the experiment was read");
    let mut panels: Vec<Panel> = view.cases().into_iter().map(|case| panel(view, case, measure)).collect();
    let ratio = matches!(measure, Measure::FUtil | Measure::Deviation);
    fit(&mut panels, view.figure, measure, ratio || view.figure.scale == Scale::Log);
    let has = |wanted: fn(&Item) -> bool| panels.iter().any(|panel| panel.items.iter().any(wanted));
    let schedulers = view.schedulers().into_iter();
    let mut key: Vec<Key> =
        schedulers.map(|scheduler| Key::new(scheduler.name(), Sample::Bar(look(scheduler)))).collect();
    if has(|item| matches!(item, Item::Ideal { .. })) {
        key.push(Key::new("fair share", Sample::Ideal));
    }
    if has(|item| matches!(item, Item::Source { .. })) {
        key.push(Key::source());
    }
    (panels, key)
}

fn panel(view: &View<'_>, case: &Case, measure: Measure) -> Panel {
    let parts = view.parts(case);
    let schedulers = view.schedulers();
    let width = FILLED / schedulers.len() as f64;
    let mut items = Vec::new();
    for (p, part) in parts.iter().enumerate() {
        let left = p as f64 + (1.0 - FILLED) / 2.0;
        for (s, scheduler) in schedulers.iter().enumerate() {
            let x = (left + s as f64 * width, left + (s + 1) as f64 * width);
            let middle = (x.0 + x.1) / 2.0;
            if let Some(Spread { median, least, greatest }) = view.spread(&case.name, None, *scheduler, part)
            {
                items.push(Item::Bar { x, y: median, look: look(*scheduler) });
                if least < greatest {
                    items.push(Item::Spread { from: (middle, least), to: (middle, greatest) });
                }
            }
            let marks = view.marks(&case.name, Some(*scheduler));
            let of_group = marks.filter(|mark| mark.group.as_ref().is_none_or(|group| group == part.group));
            items.extend(of_group.map(|mark| Item::Source {
                x: (middle - width * SOURCE, middle + width * SOURCE),
                y: mark.value,
            }));
        }
        if let Some(y) = ideal(view, case, measure, part) {
            items.push(Item::Ideal { x: (p as f64, p as f64 + 1.0), y });
        }
    }
    let names = parts.into_iter().map(|part| part.label).collect();
    Panel { title: case.name.clone(), x: Axis::names(names), y: Axis::from_zero("", 1.0), items }
}

/// A fair share. Of bandwidth: the most that the device gives this kind of work, times the group's part of all tenants, by weight.
fn ideal(view: &View<'_>, case: &Case, measure: Measure, part: &Part<'_>) -> Option<f64> {
    match measure {
        Measure::FUtil => Some(1.0),
        Measure::Bandwidth => {
            let mut groups = view.findings.records.iter().filter_map(|record| {
                let here = record.profile == view.profile && record.case == case.name;
                here.then(|| record.group(part.group)).flatten()
            });
            let group = groups.next()?;
            // A group that reads and writes has one fair share, not one for each.
            let whole = group.read.is_none() || group.write.is_none();
            let weight = |of: &Group| f64::from(of.count) * f64::from(of.share.weight);
            let own = case.groups.iter().find(|of| of.name == part.group).map(weight)?;
            let share = own / case.groups.iter().map(weight).sum::<f64>();
            whole.then_some(group.mb_per_s_maximum * share)
        }
        Measure::Deviation
        | Measure::Latency { .. }
        | Measure::WriteCost
        | Measure::TargetRate
        | Measure::Fragmentation
        | Measure::Window => None,
    }
}
