//! Results as JSON for programs. Each name says its unit: bytes, nanoseconds or seconds.

use crate::direction::Direction;
use crate::job::Job;
use crate::latency_target::Found;
use crate::measure::{Interval, Slice, Tally};
use crate::results::{JobResult, Results};
use hdrhistogram::Histogram;
use serde_json::{Value, json};

/// Percentiles that are written: name and quantile.
const PERCENTILES: [(&str, f64); 7] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
    ("max", 1.0),
];

/// The whole of a run.
pub fn render(results: &Results) -> Value {
    json!({
        "target": results.address.to_string(),
        "iops": results.iops_total(),
        "bytes_per_second": results.bandwidth_total(),
        "clean": results.is_clean(),
        "interrupted": results.is_stopped,
        "fatal": results.fatal.as_ref().map(ToString::to_string),
        "jobs": results.jobs.iter().map(job).collect::<Vec<_>>(),
    })
}

fn job(result: &JobResult) -> Value {
    let Job { name, rw, bs, iodepth, numjobs, rwmixread, .. } = &result.job;
    json!({
        "name": name,
        "nqn": result.nqn,
        "rw": rw,
        "bs": bs.smallest().get(),
        "bs_max": bs.largest().get(),
        "iodepth": iodepth,
        "numjobs": numjobs,
        "rwmixread": rwmixread,
        "measured_seconds": result.measured.as_secs_f64(),
        "read": direction(result, Direction::Read),
        "write": direction(result, Direction::Write),
        "trim": direction(result, Direction::Trim),
        "standalone_bytes_per_second": result.standalone,
        "f_util": result.f_util(),
        "failed": result.trouble.failed,
        "first_failure": result.trouble.first,
        "connection_losses": result.trouble.losses,
        "verified": result.verified.as_ref().map(|verified| json!({
            "steps": verified.steps,
            "differing": verified.differing,
            "unreadable": verified.unreadable,
            "first": verified.first.as_ref().map(ToString::to_string),
        })),
        "latency_target": result.found.map(found),
        "group": result.job.group,
        "members": result.members.iter().map(job).collect::<Vec<_>>(),
        "series": result.series.iter().map(interval).collect::<Vec<_>>(),
    })
}

fn found(found: Found) -> Value {
    let (depth, is_finished) = match found {
        Found::Depth(depth) => (Some(depth), true),
        Found::Nothing => (None, true),
        Found::Unfinished(depth) => (depth, false),
    };
    json!({ "iodepth": depth, "finished": is_finished })
}

fn direction(result: &JobResult, direction: Direction) -> Value {
    let Tally { ios, bytes, latency, service } = result.tally(direction);
    json!({
        "ios": ios,
        "bytes": bytes.get(),
        "iops": result.iops(direction),
        "bytes_per_second": result.bandwidth(direction),
        "latency_ns": quantiles(latency),
        "service_ns": quantiles(service),
    })
}

fn quantiles(histogram: &Histogram<u64>) -> Value {
    let mut object = serde_json::Map::new();
    object.insert("mean".into(), histogram.mean().into());
    for (name, quantile) in PERCENTILES {
        object.insert(name.into(), histogram.value_at_quantile(quantile).into());
    }
    object.into()
}

fn interval(interval: &Interval) -> Value {
    let [read, write, trim] = interval.slices.map(|Slice { ios, bytes, mean, p99, .. }| {
        json!({ "ios": ios, "bytes": bytes.get(), "mean_ns": mean.get(), "p99_ns": p99.get() })
    });
    json!({
        "end_seconds": interval.end.as_secs_f64(),
        "span_seconds": interval.span.as_secs_f64(),
        "read": read,
        "write": write,
        "trim": trim,
        "credit": interval.credit,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::result;
    use units::Nanos;

    #[test]
    fn a_program_finds_what_the_table_shows() {
        let mut reader = result("reader", 1000, Nanos::micros(83));
        reader.standalone = Some(8_192_000.0);
        let json = render(&Results {
            address: ([127, 0, 0, 1], 4420).into(),
            jobs: vec![reader],
            fatal: None,
            is_stopped: false,
        });
        let job = &json["jobs"][0];
        assert_eq!((job["name"].as_str(), job["rw"].as_str()), (Some("reader"), Some("randread")));
        assert_eq!((job["read"]["ios"].as_u64(), job["write"]["ios"].as_u64()), (Some(1000), Some(0)));
        assert_eq!((job["f_util"].as_f64(), json["clean"].as_bool()), (Some(1.0), Some(true)));
        let median = job["read"]["latency_ns"]["p50"].as_u64().expect("a median");
        assert!(median.abs_diff(83_000) < 100, "the median is {median}");
        assert_eq!(job["series"][0]["credit"].as_u64(), Some(32));
    }
}
