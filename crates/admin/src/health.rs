//! Whether the target is alive, and whether it is ready for hosts.
//!
//! Alive: no thread has been in one turn for longer than `TURN_MAX`. Ready: alive, no device hangs or has failed to flush, and the target is neither drained nor stopping.

use crate::board::Board;
use crate::order::Source;
use serde_json::{Value, json};
use server::Stats;
use units::Nanos;

/// The longest turn of a thread that is alive. Usual turns take less than a millisecond.
const TURN_MAX: Nanos = Nanos::secs(5);

/// The threads that hang, by name, with the seconds so far.
pub fn hanging(stats: &Stats) -> Vec<String> {
    let acceptor = [("acceptor".to_owned(), stats.acceptor.turn)];
    let others =
        stats.threads.iter().enumerate().map(|(index, each)| (format!("connections {index}"), each.turn));
    let ssds = stats.ssds.iter().map(|ssd| (format!("device {}", ssd.device), ssd.turn));
    let late = acceptor.into_iter().chain(others).chain(ssds).filter(|(_, turn)| *turn >= TURN_MAX);
    late.map(|(name, turn)| format!("{name} hangs for {} s", turn.get() / Nanos::secs(1).get())).collect()
}

/// The answer of /healthz: whether the target is alive, and why not.
pub(crate) fn alive(stats: &Stats) -> (bool, Value) {
    answer(hanging(stats))
}

/// The answer of /readyz.
pub(crate) fn ready(stats: &Stats, board: &Board, source: &dyn Source) -> (bool, Value) {
    let mut reasons = hanging(stats);
    let hung = stats.ssds.iter().filter(|ssd| ssd.hung > 0);
    reasons.extend(hung.map(|ssd| format!("device {} does not answer {} IOs", ssd.device, ssd.hung)));
    let unflushed = source.failed_flushes();
    reasons.extend(unflushed.iter().map(|device| {
        format!("a flush of device {device} has failed: look at it, and open it again (docs/operations.md)")
    }));
    if source.is_drained() {
        reasons.push("the target is drained for maintenance".to_owned());
    }
    if board.stops() {
        reasons.push("the target is stopping".to_owned());
    }
    answer(reasons)
}

fn answer(reasons: Vec<String>) -> (bool, Value) {
    let is_well = reasons.is_empty();
    (is_well, json!({ "ok": is_well, "reasons": reasons }))
}
