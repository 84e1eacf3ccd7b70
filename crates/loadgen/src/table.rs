//! Results as a table for people.

use crate::direction::Direction;
use crate::latency_target::Found;
use crate::results::{JobResult, Results};
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use units::Nanos;

/// Percentiles in the table: heading and quantile.
const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)];
/// Columns before the first number.
const TEXT_COLUMNS: usize = 3;

/// The table, and remarks below it.
pub fn render(results: &Results) -> String {
    let with_f_util = results.jobs.iter().any(|job| job.f_util().is_some());
    let mut heading = vec!["job", "what", "", "IOPS", "MB/s", "mean"];
    heading.extend(PERCENTILES.map(|(name, _)| name));
    heading.push("max");
    if with_f_util {
        heading.push("f-Util");
    }
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(&heading);
    for job in &results.jobs {
        rows(job, with_f_util).for_each(|row| {
            table.add_row(row);
        });
    }
    if results.jobs.len() > 1 {
        let (iops, bandwidth) = (count(results.iops_total()), megabytes(results.bandwidth_total()));
        table.add_row(["all", "", "", &iops, &bandwidth]);
    }
    for column in table.column_iter_mut().skip(TEXT_COLUMNS) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = table.to_string();
    for job in &results.jobs {
        remarks(job).for_each(|remark| {
            text.push('\n');
            text.push_str(&remark);
        });
    }
    text
}

fn rows(job: &JobResult, with_f_util: bool) -> impl Iterator<Item = Vec<String>> + '_ {
    let busy = |direction: &Direction| job.tally(*direction).ios > 0;
    let directions: Vec<Direction> = Direction::ALL.into_iter().filter(busy).collect();
    // A job without IOs still has its line.
    let directions = if directions.is_empty() { vec![Direction::Read] } else { directions };
    directions.into_iter().enumerate().map(move |(line, direction)| {
        let latency = &job.tally(direction).latency;
        let first = line == 0;
        let mut row = vec![
            if first { job.job.name.clone() } else { String::new() },
            if first { what(job) } else { String::new() },
            direction.name().to_string(),
            count(job.iops(direction)),
            megabytes(job.bandwidth(direction)),
            Nanos(latency.mean() as u64).to_string(),
        ];
        row.extend(PERCENTILES.map(|(_, quantile)| Nanos(latency.value_at_quantile(quantile)).to_string()));
        row.push(Nanos(latency.max()).to_string());
        if with_f_util {
            row.push(job.f_util().filter(|_| first).map_or(String::new(), |value| format!("{value:.2}")));
        }
        row
    })
}

fn what(job: &JobResult) -> String {
    match job.members.len() {
        0 => job.job.summary(),
        jobs => format!("{jobs} jobs"),
    }
}

fn remarks(job: &JobResult) -> impl Iterator<Item = String> {
    let name = &job.job.name;
    let mut remarks = Vec::new();
    if let Some(verified) = &job.verified {
        remarks.push(match &verified.first {
            None if verified.is_clean() => {
                format!("{name}: verified {} × {}: all correct", verified.steps, job.job.unit())
            }
            None => {
                format!("{name}: {} of {} blocks could not be read back", verified.unreadable, verified.steps)
            }
            Some(mismatch) => {
                format!(
                    "{name}: {} of {} blocks differ; the first at {mismatch}",
                    verified.differing, verified.steps
                )
            }
        });
    }
    if let (Some(found), Some(asked)) = (job.found, job.job.latency_target) {
        let asked = format!("{} % of IOs within {}", asked.percentile, asked.target);
        remarks.push(match found {
            Found::Depth(depth) => format!("{name}: {asked} up to iodepth {depth}"),
            Found::Nothing => format!("{name}: even iodepth 1 does not reach {asked}"),
            Found::Unfinished(Some(depth)) => {
                format!("{name}: {asked} at iodepth {depth}, but the job ended before the search did; increase runtime")
            }
            Found::Unfinished(None) => {
                format!("{name}: the job ended before the search had tried iodepth 1; increase runtime")
            }
        });
    }
    if !job.did_something() && job.trouble.failed == 0 {
        remarks.push(format!("{name}: no IO completed in the measured time"));
    }
    if let Some(first) = &job.trouble.first {
        remarks.push(format!("{name}: {} IOs failed; the first: {first}", job.trouble.failed));
    }
    if job.trouble.losses > 0 {
        remarks
            .push(format!("{name}: the connection was lost {} times and re-established", job.trouble.losses));
    }
    remarks.into_iter()
}

/// IOPS: `1234`, `56.7k`, `1.23M`.
fn count(per_second: f64) -> String {
    match per_second {
        0.0..10_000.0 => format!("{per_second:.0}"),
        10_000.0..1_000_000.0 => format!("{:.1}k", per_second / 1e3),
        _ => format!("{:.2}M", per_second / 1e6),
    }
}

fn megabytes(bytes_per_second: f64) -> String {
    format!("{:.1}", bytes_per_second / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::{Found, Mismatch};
    use crate::results::tests::result;
    use crate::results::{Trouble, Verified};
    use units::Bytes;

    fn results(jobs: Vec<JobResult>) -> Results {
        Results { address: ([127, 0, 0, 1], 4420).into(), jobs, fatal: None, is_stopped: false }
    }

    #[test]
    fn a_line_has_the_jobs_numbers() {
        let text = render(&results(vec![result("reader", 12_000, Nanos::micros(83))]));
        for word in ["reader", "randread 4 KiB qd 1", "12.0k", "49.2", "83.0 µs"] {
            assert!(text.contains(word), "`{word}` is not in\n{text}");
        }
        assert!(!text.contains("f-Util") && !text.contains("all"), "nothing to compare or add up:\n{text}");
    }

    #[test]
    fn what_went_wrong_is_said() {
        let mut job = result("writer", 10, Nanos::micros(83));
        job.trouble = Trouble { failed: 3, first: Some("why".into()), losses: 2 };
        let first = Some(Mismatch { at: Bytes(8192), found: Found::Zeros });
        job.verified = Some(Verified { steps: 10, differing: 1, unreadable: 0, first });
        job.standalone = Some(1e6);
        let text = render(&results(vec![job, result("other", 0, Nanos::ZERO)]));
        for word in [
            "3 IOs failed; the first: why",
            "1 of 10 blocks differ; the first at byte 8192",
            "lost 2 times",
            "f-Util",
            "all",
        ] {
            assert!(text.contains(word), "`{word}` is not in\n{text}");
        }
    }
}
