//! The plots of a profile, as data for the lab's drawing.

use ::lab::figure::Scale;
use ::lab::figure::chart::{Along, Chart, ChartPanel, Contents};
use probe::{BufferModel, Kind, Limit, LoadPoint, Profile};
use units::Nanos;

const KINDS: [Kind; 4] = [Kind::RandomRead, Kind::SequentialRead, Kind::RandomWrite, Kind::SequentialWrite];
/// Number of points of a curve that is computed.
const STEPS: u32 = 200;
const MIB: f64 = units::MIB as f64;

/// Selects one number of a point of latency against load.
type Percentile = fn(&LoadPoint) -> f64;

/// A plot, and the text that explains it.
pub(super) struct Plot {
    pub(super) chart: Chart,
    pub(super) see: &'static str,
}

/// All plots, in reading order. Some may be empty.
pub(super) fn of(profile: &Profile) -> Vec<Plot> {
    let shown: [fn(&Limit) -> f64; 3] = [|limit| limit.mb_per_s, |limit| limit.mean_us, |limit| limit.p99_us];
    let [bandwidth, mean, p99] = shown;
    vec![
        Plot {
            chart: limits(profile, "Bandwidth by size and depth", "MB/s", Scale::Linear, bandwidth),
            see: if profile.buffer.is_some() {
                "Each kind of IO alone. Writes are with room in the write buffer."
            } else {
                "Each kind of IO alone."
            },
        },
        Plot {
            chart: limits(profile, "Mean latency by size and depth", "µs", Scale::Log, mean),
            see: "The same IOs: where bandwidth no longer grows with the depth, latency does.",
        },
        Plot {
            chart: limits(profile, "99th percentile of the latency by size and depth", "µs", Scale::Log, p99),
            see: "One of a hundred IOs takes longer than this.",
        },
        Plot {
            chart: exhaustion(profile),
            see: "Sequential writes of 128 KiB, 32 deep, after a pause: rate against what was written, and what was written against time. The \
                  buffer ends where the rate falls.",
        },
        Plot {
            chart: recovery(profile),
            see: "What can be written fast again after the device was left idle for this long. The model is what the predictor uses.",
        },
        Plot {
            chart: reads_during_recovery(profile),
            see: "What recovers in the time to 90 %, with 4 KiB reads at an even rate, relative to the same time without reads.",
        },
        Plot {
            chart: degraded(profile),
            see: "The writes are sequential, 128 KiB, 8 deep. Left with room in the write buffer, right with an exhausted one.",
        },
        Plot {
            chart: loads(profile),
            see: "Random IO of 4 KiB at random moments, over reads and writes. A line ends where the device no longer keeps up.",
        },
    ]
}

fn chart(title: &str, profile: &Profile, key: Vec<String>, panels: Vec<ChartPanel>) -> Chart {
    Chart { title: title.to_owned(), subtitle: profile.device.name.clone(), key, panels }
}

/// A panel for each kind of IO, a line for each size, against the depth.
fn limits(profile: &Profile, title: &str, y: &str, scale: Scale, of: fn(&Limit) -> f64) -> Chart {
    let sizes = distinct(profile.limit.iter().map(|limit| limit.size_kib));
    let depths: Vec<f64> =
        distinct(profile.limit.iter().map(|limit| limit.depth)).into_iter().map(f64::from).collect();
    let panels = KINDS.map(|kind| {
        let curve = |(n, size): (usize, &u32)| {
            let of_size = profile.limit.iter().filter(|limit| limit.kind == kind && limit.size_kib == *size);
            (n, of_size.map(|limit| (f64::from(limit.depth), of(limit))).collect())
        };
        let curves = sizes.iter().enumerate().map(curve).collect();
        let contents =
            Contents::Curves { x: "depth".to_owned(), along: Along::Doubling(depths.clone()), curves };
        ChartPanel { title: kind.to_string(), y: (y.to_owned(), scale), contents }
    });
    let key = sizes.iter().map(|size| format!("{size} KiB")).collect();
    chart(title, profile, key, panels.into())
}

fn exhaustion(profile: &Profile) -> Chart {
    let Some(buffer) = &profile.buffer else { return Chart::default() };
    let (mut rates, mut bytes) = (Vec::new(), vec![(0.0, 0.0)]);
    let (mut seconds, mut before) = (0.0, 0.0);
    for &[mib, rate] in &buffer.fill {
        seconds += (mib - before) * MIB / (rate * 1e6);
        before = mib;
        rates.push((mib, rate));
        bytes.push((seconds, mib));
    }
    let highest = rates.iter().map(|point| point.1).fold(0.0, f64::max);
    // If the buffer drains meanwhile, more than its size is written at the fast rate before it is full.
    let share = 1.0 - buffer.drain_under_load_mb_per_s.unwrap_or(0.0) / buffer.fast_mb_per_s;
    let end = buffer.size_mib / share;
    let panel = |title: &str, x: &str, y: &str, curves| ChartPanel {
        title: title.to_owned(),
        y: (y.to_owned(), Scale::Linear),
        contents: Contents::Curves { x: x.to_owned(), along: Along::Even, curves },
    };
    let panels = vec![
        panel("rate", "MiB written", "MB/s", vec![(0, rates), (1, vec![(end, 0.0), (end, highest)])]),
        panel("amount", "seconds", "MiB written", vec![(0, bytes), (1, vec![(0.0, end), (seconds, end)])]),
    ];
    let key = vec!["written".to_owned(), "the end that was found".to_owned()];
    chart("The end of the write buffer", profile, key, panels)
}

fn recovery(profile: &Profile) -> Chart {
    let Some(recovery) = &profile.recovery else { return Chart::default() };
    let measured: Vec<(f64, f64)> =
        recovery.point.iter().map(|point| (point.idle_ms / 1e3, point.recovered_mib)).collect();
    let last = measured.last().map_or(0.0, |point| point.0);
    let mut curves = vec![(0, measured)];
    let mut key = vec!["measured".to_owned()];
    if let Some(model) = BufferModel::fit(profile) {
        let at = |step: u32| last * f64::from(step) / f64::from(STEPS);
        let recovered = |seconds: f64| model.recovered(Nanos((seconds * 1e9) as u64)).get() as f64 / MIB;
        curves.push((1, (0..=STEPS).map(|step| (at(step), recovered(at(step)))).collect()));
        key.push(format!("model ({:?}, misfit {:.1} % of the size)", model.rule(), 100.0 * model.misfit()));
    }
    let contents = Contents::Curves { x: "seconds idle".to_owned(), along: Along::Even, curves };
    let panel = ChartPanel { title: String::new(), y: ("MiB".to_owned(), Scale::Linear), contents };
    chart("Recovery by idleness", profile, key, vec![panel])
}

fn reads_during_recovery(profile: &Profile) -> Chart {
    let reads = profile.recovery.iter().flat_map(|recovery| &recovery.reads);
    let mut groups: Vec<(String, Vec<Option<f64>>)> = reads
        .map(|reads| (format!("{} reads/s", reads.reads_per_s), vec![Some(100.0 * reads.recovered_share)]))
        .collect();
    if groups.is_empty() {
        return Chart::default();
    }
    groups.insert(0, ("no reads".to_owned(), vec![Some(100.0)]));
    let y = ("per cent".to_owned(), Scale::Linear);
    let panel = ChartPanel { title: String::new(), y, contents: Contents::Bars { groups } };
    chart("What reads do to recovery", profile, Vec::new(), vec![panel])
}

fn degraded(profile: &Profile) -> Chart {
    let panel = |title: &str, of: fn(&probe::DegradedLatency) -> [f64; 2]| {
        let groups =
            profile.degraded.iter().map(|row| (row.what.clone(), of(row).map(Some).into())).collect();
        ChartPanel {
            title: title.to_owned(),
            y: ("µs".to_owned(), Scale::Linear),
            contents: Contents::Bars { groups },
        }
    };
    let panels = vec![
        panel("mean", |row| [row.fresh_mean_us, row.exhausted_mean_us]),
        panel("99th percentile", |row| [row.fresh_p99_us, row.exhausted_p99_us]),
    ];
    let key = vec!["with room".to_owned(), "exhausted".to_owned()];
    chart("Latency with and without room in the write buffer", profile, key, panels)
}

/// A panel for each percentile, a line for each share of writes.
fn loads(profile: &Profile) -> Chart {
    let shares = distinct(profile.load.iter().map(|point| point.writes_permille));
    let percentiles: [(&str, Percentile); 4] = [
        ("median", |point| point.p50_us),
        ("99 %", |point| point.p99_us),
        ("99.9 %", |point| point.p999_us),
        ("99.99 %", |point| point.p9999_us),
    ];
    let panels = percentiles.map(|(title, of)| {
        let curve = |(n, share): (usize, &u32)| {
            let points =
                profile.load.iter().filter(|point| point.writes_permille == *share && point.sustained);
            (n, points.map(|point| (point.achieved_iops / 1e3, of(point))).collect())
        };
        let curves = shares.iter().enumerate().map(curve).collect();
        let contents = Contents::Curves { x: "thousand IOPS".to_owned(), along: Along::Even, curves };
        ChartPanel { title: title.to_owned(), y: ("µs".to_owned(), Scale::Log), contents }
    });
    let key = shares.iter().map(|share| format!("{} % writes", f64::from(*share) / 10.0)).collect();
    chart("Latency against load", profile, key, panels.into())
}

fn distinct(values: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut values: Vec<u32> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}
