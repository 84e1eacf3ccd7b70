//! Costs of IOs by a calibration: straight lines between the measured points.

use sched::{CostCurve, DeviceCosts, Io, IoKind, StateCosts};

/// A fragmentation of 1, in the parts that it is counted in.
pub(super) const FULL: u128 = 1 << 16;

/// The cost on clean flash and on fragmented flash.
pub(super) fn at_both_ends(costs: &DeviceCosts, io: &Io) -> [u128; 2] {
    [&costs.clean, &costs.fragmented].map(|state| on_curve(state, io))
}

/// The cost when the flash is so fragmented.
pub(super) fn at(costs: &DeviceCosts, fragmentation: u128, io: &Io) -> u64 {
    let [clean, fragmented] = at_both_ends(costs, io);
    (clean + (fragmented - clean) * fragmentation / FULL) as u64
}

fn on_curve(state: &StateCosts, io: &Io) -> u128 {
    let length = u128::from(io.length.0);
    let CostCurve(costs) = if io.kind == IoKind::Read { state.reads } else { state.writes };
    let sizes = CostCurve::sizes();
    let points: Vec<(u128, u128)> =
        sizes.iter().zip(costs).map(|(size, cost)| (u128::from(size.0), u128::from(cost.0))).collect();
    let (least, most) = (points[0], points[points.len() - 1]);
    if length <= least.0 {
        return least.1;
    }
    if length >= most.0 {
        return most.1 * length / most.0;
    }
    let above = points.iter().position(|&(size, _)| size > length).expect("it is below the most");
    let ((low, less), (high, greater)) = (points[above - 1], points[above]);
    less + (greater - less) * (length - low) / (high - low)
}
