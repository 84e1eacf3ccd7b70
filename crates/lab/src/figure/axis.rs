//! An axis: its name with the unit, its ends, and ticks at round values.

use super::Scale;

/// About this many steps on an axis that begins at zero.
const STEPS: f64 = 5.0;
/// Free space above the greatest value.
const HEADROOM: f64 = 1.06;
/// Below this many decades a logarithmic axis has ticks between the powers of ten.
const FEW_DECADES: f64 = 2.0;

/// A tick may lie this part of a step beyond an end and still count as on it: 0.6 is less than three steps of 0.2.
const ROUNDING: f64 = 1e-9;

/// One axis of a panel.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    /// The measured quantity, with the unit.
    pub(super) name: String,
    /// The division of the axis.
    pub(super) scale: Scale,
    /// The value at its beginning.
    pub(super) from: f64,
    /// The value at its end.
    pub(super) to: f64,
    /// Where its labels are.
    pub(super) ticks: Vec<Tick>,
    /// Labels are names: all are drawn, and they may take several lines.
    pub(super) names: bool,
}

/// A labelled place of an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    /// Its value.
    pub(super) at: f64,
    /// As written.
    pub(super) label: String,
}

impl Axis {
    /// Values between zero and `greatest`.
    pub(super) fn from_zero(name: impl Into<String>, greatest: f64) -> Axis {
        let greatest = if greatest > 0.0 { greatest } else { 1.0 };
        Axis::span(name, 0.0, greatest * HEADROOM)
    }

    /// Values between `from` and `to`, divided evenly.
    pub(super) fn span(name: impl Into<String>, from: f64, to: f64) -> Axis {
        let to = if to > from { to } else { from + 1.0 };
        let step = round_step((to - from) / STEPS);
        let decimals = (-step.log10().floor()).max(0.0) as usize;
        let first = (from / step - ROUNDING).ceil() as i64;
        let last = (to / step + ROUNDING).floor() as i64;
        let tick = |n: i64| {
            let at = n as f64 * step;
            Tick { at, label: format!("{at:.decimals$}") }
        };
        Axis {
            name: name.into(),
            scale: Scale::Linear,
            from,
            to,
            ticks: (first..=last).map(tick).collect(),
            names: false,
        }
    }

    /// Values between `least` and `greatest`, each step a multiple of the one before.
    pub(super) fn log(name: impl Into<String>, least: f64, greatest: f64) -> Axis {
        let least = if least > 0.0 { least } else { 1.0 };
        let greatest = if greatest > least { greatest } else { least * 10.0 };
        let few = (greatest / least).log10() < FEW_DECADES;
        let steps: &[f64] = if few { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let decades = least.log10().floor() as i32..=greatest.log10().ceil() as i32;
        let values: Vec<f64> =
            decades.flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade))).collect();
        let from = values.iter().copied().filter(|value| *value <= least).fold(f64::MIN_POSITIVE, f64::max);
        let to = values.iter().copied().filter(|value| *value >= greatest).fold(f64::MAX, f64::min);
        let ticks = values.into_iter().filter(|value| (from..=to).contains(value));
        Axis {
            name: name.into(),
            scale: Scale::Log,
            from,
            to,
            ticks: ticks.map(|at| Tick { at, label: format!("{at}") }).collect(),
            names: false,
        }
    }

    /// Exactly the given values.
    pub(super) fn values(name: impl Into<String>, values: &[f64], scale: Scale) -> Axis {
        let from = values.iter().copied().fold(f64::INFINITY, f64::min);
        let to = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // A single value is in the middle.
        let (from, to) = if from < to { (from, to) } else { (from * 0.5, to * 1.5 + 1.0) };
        let ticks = values.iter().map(|at| Tick { at: *at, label: format!("{at}") });
        Axis { name: name.into(), scale, from, to, ticks: ticks.collect(), names: false }
    }

    /// Names side by side; the n-th is at n + ½.
    pub(super) fn names(names: Vec<String>) -> Axis {
        let to = names.len().max(1) as f64;
        let ticks = names.into_iter().enumerate().map(|(n, label)| Tick { at: n as f64 + 0.5, label });
        Axis { name: String::new(), scale: Scale::Linear, from: 0.0, to, ticks: ticks.collect(), names: true }
    }

    /// Where `value` lies between the beginning (0) and the end (1).
    pub(super) fn place(&self, value: f64) -> f64 {
        let place = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(self.from).ln(),
        };
        let share = (place(value) - place(self.from)) / (place(self.to) - place(self.from));
        share.clamp(0.0, 1.0)
    }
}

/// The next of 1, 2, 5, 10 … that is not smaller.
fn round_step(step: f64) -> f64 {
    let decade = 10f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|round| round * decade)
        .find(|round| *round >= step)
        .unwrap_or(10.0 * decade)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn ticks_stand_at_round_values() {
        assert_eq!(labels(&Axis::from_zero("", 3214.0)), ["0", "1000", "2000", "3000"]);
        assert_eq!(labels(&Axis::from_zero("", 1.3)), ["0.0", "0.5", "1.0"]);
        assert_eq!(labels(&Axis::span("", -0.5, 0.5)), ["-0.4", "-0.2", "0.0", "0.2", "0.4"]);
        assert_eq!(labels(&Axis::span("", 0.0, 0.6)), ["0.0", "0.2", "0.4", "0.6"], "the end has its tick");
    }

    #[test]
    fn a_logarithmic_axis_holds_what_it_was_made_for() {
        let axis = Axis::log("", 70.0, 190_000.0);
        assert_eq!(labels(&axis), ["10", "100", "1000", "10000", "100000", "1000000"]);
        assert_eq!(labels(&Axis::log("", 80.0, 800.0)), ["50", "100", "200", "500", "1000"]);
        assert!((axis.place(100.0) - 0.2).abs() < 1e-9);
    }
}
