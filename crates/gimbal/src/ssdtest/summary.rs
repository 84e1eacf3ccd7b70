//! The result of a probe: as a table for people, and as one JSON object for scripts.

use super::Files;
use anyhow::{Context, Result};
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, Table};
use probe::{Kind, Limit, Profile};
use serde_json::json;

/// The version of the JSON object.
const VERSION: u32 = 1;

/// The table, and the notes below it.
pub(super) fn table(profile: &Profile) -> String {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY);
    table.set_header(["", "measured"]);
    for (what, value) in rows(profile) {
        table.add_row([what, value]);
    }
    table.column_mut(1).expect("two columns").set_cell_alignment(CellAlignment::Right);
    let mut text = table.to_string();
    for note in &profile.device.notes {
        text.push_str(&format!("\nnote: {note}"));
    }
    text
}

/// Names and values, with their units. A value that was not measured has no row, or a text that says so.
pub(super) fn rows(profile: &Profile) -> Vec<(String, String)> {
    let mut rows: Vec<(String, String)> = Vec::new();
    let mut row = |what: &str, value: String| rows.push((what.to_owned(), value));
    for kind in [Kind::RandomRead, Kind::RandomWrite] {
        if let Some(limit) = best(profile, kind, 4) {
            row(&format!("{kind} 4 KiB, at most"), format!("{:.0} IOPS (depth {})", limit.iops, limit.depth));
        }
        if let Some(limit) =
            profile.limit.iter().find(|limit| (limit.kind, limit.size_kib, limit.depth) == (kind, 4, 1))
        {
            row(
                &format!("{kind} 4 KiB, alone"),
                format!("mean {} µs, p99 {} µs", limit.mean_us, limit.p99_us),
            );
        }
    }
    for kind in [Kind::SequentialRead, Kind::SequentialWrite] {
        if let Some(limit) = best(profile, kind, 128) {
            row(
                &format!("{kind} 128 KiB, at most"),
                format!("{:.0} MB/s (depth {})", limit.mb_per_s, limit.depth),
            );
        }
    }
    match &profile.buffer {
        Some(buffer) => {
            row("write buffer", format!("{:.0} MiB", buffer.size_mib));
            row("sequential writes, with room in it", format!("{:.0} MB/s", buffer.fast_mb_per_s));
            row("right after it is exhausted", format!("{:.0} MB/s", buffer.exhausted_mb_per_s));
            let drain = buffer.drain_under_load_mb_per_s;
            row("it drains under load", drain.map_or(unknown(), |drain| format!("{drain:.0} MB/s")));
        }
        None if !profile.device.read_only => row("write buffer", "its end was not found".to_owned()),
        None => {}
    }
    if let Some(recovery) = &profile.recovery {
        let time = recovery.time_to_90_percent_ms;
        row("idle until 90 % of it is back", time.map_or(unknown(), |time| format!("{time:.0} ms")));
        for reads in &recovery.reads {
            let share = 100.0 * reads.recovered_share;
            row(&format!("recovered with {} reads/s", reads.reads_per_s), format!("{share:.0} %"));
        }
    }
    for latency in &profile.degraded {
        let (fresh, exhausted) = (latency.fresh_p99_us, latency.exhausted_p99_us);
        row(&format!("p99 of {}", latency.what), format!("{fresh:.0} µs; exhausted: {exhausted:.0} µs"));
    }
    if let Some(metrics) = &profile.metrics {
        let share = metrics.over_10_ms_ppm;
        row("loads: IOs over 10 ms", share.map_or(unknown(), |ppm| format!("{ppm} of a million")));
        if let (Some(rate), Some(share)) = (metrics.steady_write_mb_per_s, metrics.steady_after_share) {
            row(&format!("sequential writes after {share} of the capacity"), format!("{rate:.0} MB/s"));
        }
        if !profile.device.read_only {
            let told = metrics.write_amplification;
            row(
                "write amplification",
                told.map_or("not told by the drive".to_owned(), |share| share.to_string()),
            );
        }
    }
    if let Some(switch) = &profile.switch {
        row(
            "write cost for a scheduler",
            format!("{} to {}", switch.write_cost_best, switch.write_cost_worst),
        );
        row("latency thresholds", format!("{} to {} µs", switch.thresh_min_us, switch.thresh_max_us));
    }
    row("written by the probe", format!("{} MiB", profile.device.written_mib));
    row("time under test", format!("{} s", profile.device.took_s));
    rows
}

fn unknown() -> String {
    "not measured".to_owned()
}

/// The depth with the most IOs per second.
fn best(profile: &Profile, kind: Kind, size_kib: u32) -> Option<&Limit> {
    let of_kind = profile.limit.iter().filter(|limit| limit.kind == kind && limit.size_kib == size_kib);
    of_kind.max_by(|one, two| one.iops.total_cmp(&two.iops))
}

/// The JSON object: the whole profile, and the files that were written.
pub(super) fn json(profile: &Profile, files: &Files) -> Result<String> {
    let object = json!({
        "version": VERSION,
        "files": {
            "profile": files.profile, "report": files.report, "loads": files.loads, "journal": files.journal,
        },
        "profile": profile,
    });
    serde_json::to_string_pretty(&object).context("cannot make JSON of the result")
}
