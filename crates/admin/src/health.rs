//! Whether the target is alive, and whether it is ready for hosts.
//!
//! Alive: no thread has been in one turn for longer than `TURN_MAX`. Ready: alive, no device hangs or has failed to flush, and the target is neither drained nor stopping.

use crate::board::Board;
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
pub(crate) fn ready(stats: &Stats, board: &Board) -> (bool, Value) {
    let mut reasons = hanging(stats);
    let hung = stats.ssds.iter().filter(|ssd| ssd.hung > 0);
    reasons.extend(hung.map(|ssd| format!("device {} does not answer {} IOs", ssd.device, ssd.hung)));
    let unflushed = stats.ssds.iter().filter(|ssd| ssd.flush_failed);
    reasons.extend(unflushed.map(|ssd| {
        let device = &ssd.device;
        format!("a flush of device {device} has failed: look at it, and open it again (docs/operations.md)")
    }));
    if stats.is_drained {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use server::SsdStats;

    #[test]
    fn a_target_is_ready_unless_a_device_hangs_or_has_failed_to_flush() {
        let board = Board::new(None, Document::new(String::new()));
        let ready_with = |ssd: SsdStats| ready(&Stats { ssds: vec![ssd], ..Stats::default() }, &board);
        let ssd = || SsdStats { device: "c".to_owned(), ..SsdStats::default() };
        assert_eq!(ready_with(ssd()), (true, json!({ "ok": true, "reasons": [] })));
        for (ssd, wanted) in [
            (SsdStats { hung: 2, ..ssd() }, "device c does not answer 2 IOs"),
            (SsdStats { flush_failed: true, ..ssd() }, "a flush of device c has failed"),
            (SsdStats { turn: Nanos::secs(7), ..ssd() }, "device c hangs for 7 s"),
        ] {
            let (is_ready, said) = ready_with(ssd);
            assert!(
                !is_ready && said["reasons"][0].as_str().is_some_and(|why| why.starts_with(wanted)),
                "{said}"
            );
        }
    }
}
