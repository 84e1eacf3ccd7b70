//! Bandwidth against latency: a point for each scheduler, a panel for each case and group. Right and low is good.

use super::axis::Axis;
use super::fit::fit;
use super::picture::{Item, Key, Panel, Sample};
use super::view::{Part, View, look};
use super::{Measure, Scale};
use crate::experiment::Case;
use crate::findings::Spread;
use crate::record::Record;

pub(super) fn panels(view: &View<'_>) -> (Vec<Panel>, Vec<Key>) {
    let measure = view.figure.of.expect("checked when the experiment was read");
    let mut panels = Vec::new();
    for case in view.cases() {
        let parts = view.parts(case);
        for part in &parts {
            let title =
                if parts.len() == 1 { case.name.clone() } else { format!("{}: {}", case.name, part.label) };
            panels.push(panel(view, case, part, measure, title));
        }
    }
    fit(&mut panels, view.figure, measure, view.figure.scale == Scale::Log);
    let schedulers = view.schedulers().into_iter();
    let key =
        schedulers.map(|scheduler| Key::new(scheduler.name(), Sample::Point(look(scheduler)))).collect();
    (panels, key)
}

fn panel(view: &View<'_>, case: &Case, part: &Part<'_>, measure: Measure, title: String) -> Panel {
    let (mut items, mut rightmost) = (Vec::new(), 0.0f64);
    for scheduler in view.schedulers() {
        let records = view.records(&case.name, None, scheduler);
        let over_seeds = |measure: Measure| {
            let value = |record: &&Record| measure.of(record.group(part.group)?, part.way);
            Spread::of(records.iter().filter_map(value))
        };
        let (Some(speed), Some(latency)) = (over_seeds(Measure::Bandwidth), over_seeds(measure)) else {
            continue;
        };
        rightmost = rightmost.max(speed.greatest);
        if latency.least < latency.greatest {
            let (from, to) = ((speed.median, latency.least), (speed.median, latency.greatest));
            items.push(Item::Spread { from, to });
        }
        if speed.least < speed.greatest {
            let (from, to) = ((speed.least, latency.median), (speed.greatest, latency.median));
            items.push(Item::Spread { from, to });
        }
        items.push(Item::Point { at: (speed.median, latency.median), look: look(scheduler) });
    }
    Panel { title, x: Axis::from_zero("bandwidth, MB/s", rightmost), y: Axis::from_zero("", 1.0), items }
}
