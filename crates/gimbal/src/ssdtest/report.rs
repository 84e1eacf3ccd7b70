//! The report: one HTML page that needs no other file, with the profile's plots and tables.
//!
//! Holds: no plot for values that were not measured, and no text of the user is markup
//! (`a_report_has_a_plot_for_what_was_measured`).
//! Elsewhere: the plots are `plots`; frame and drawing are the lab's.

use super::plots::{self, Plot};
use super::summary;
use ::lab::report::page::{escape, frame};
use probe::Profile;
use std::fmt::Write;

/// Styles that only this page has.
const STYLE: &str = "
figure { margin: 1.5rem 0; } figcaption, p, li { max-width: 60rem; } figcaption { margin-top: .4rem; }
.drawing svg { display: block; width: 100%; max-width: 1200px; height: auto; border-radius: 6px; }
";

/// The whole page.
pub(super) fn page(profile: &Profile) -> String {
    let mut body = String::new();
    if !profile.device.notes.is_empty() {
        body.push_str("<h2>Left out, or to be known</h2><ul>");
        profile.device.notes.iter().for_each(|note| _ = write!(body, "<li>{}</li>", escape(note)));
        body.push_str("</ul>");
    }
    body.push_str("<h2>In short</h2>");
    table(
        &mut body,
        &["", "measured"],
        summary::rows(profile).into_iter().map(|(what, value)| vec![what, value]),
    );
    for plot in plots::of(profile) {
        figure(&mut body, &plot);
    }
    costs(&mut body, profile);
    interference(&mut body, profile);
    let device = &profile.device;
    let lead = format!(
        "{}: {} MiB, {} probe{}, {} MiB written in {} s. The figures are in profile.toml.",
        device.name,
        device.capacity_mib,
        if device.quick { "a quick" } else { "a thorough" },
        if device.read_only { " that only read" } else { "" },
        device.written_mib,
        device.took_s
    );
    frame("gimbal ssdtest", &lead, STYLE, &body)
}

fn figure(body: &mut String, plot: &Plot) {
    let Some(svg) = plot.chart.svg() else { return };
    let see = escape(plot.see);
    _ = write!(
        body,
        "<figure><div class=\"drawing\" role=\"img\" aria-label=\"{see}\">{svg}</div><figcaption>{see}</figcaption></figure>"
    );
}

fn costs(body: &mut String, profile: &Profile) {
    if profile.cost.is_empty() {
        return;
    }
    body.push_str("<h2>What an IO costs</h2><p>Device time of an IO when the device is saturated: one second over the most IOs per second of any depth.");
    body.push_str(if profile.buffer.is_some() {
        " Writes are with room in the write buffer.</p>"
    } else {
        "</p>"
    });
    let rows = profile.cost.iter().map(|cost| {
        vec![
            cost.kind.to_string(),
            format!("{} KiB", cost.size_kib),
            format!("{:.1}", cost.ns / 1e3),
            cost.in_4_kib_reads.to_string(),
        ]
    });
    table(body, &["kind", "size", "µs", "in random 4 KiB reads"], rows);
}

fn interference(body: &mut String, profile: &Profile) {
    if profile.interference.is_empty() {
        return;
    }
    body.push_str(
        "<h2>Two kinds of IO together</h2><p>The rate of each with the other, over its rate alone.</p>",
    );
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let rows = profile.interference.iter().map(|row| {
        vec![row.first.clone(), percent(row.first_keeps), row.second.clone(), percent(row.second_keeps)]
    });
    table(body, &["one", "keeps", "the other", "keeps"], rows);
}

fn table(body: &mut String, header: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    body.push_str("<div class=\"wide\"><table><tr>");
    header.iter().for_each(|name| _ = write!(body, "<th>{}</th>", escape(name)));
    body.push_str("</tr>");
    for row in rows {
        body.push_str("<tr>");
        row.iter().for_each(|cell| _ = write!(body, "<td>{}</td>", escape(cell)));
        body.push_str("</tr>");
    }
    body.push_str("</table></div>");
}

/// Latency against load as comma-separated values, one line for each point; `inf` where the device did not keep up.
pub(super) fn loads(profile: &Profile) -> String {
    let mut text =
        "writes_permille,offered_iops,achieved_iops,p50_us,p90_us,p99_us,p999_us,p9999_us\n".to_owned();
    for point in &profile.load {
        _ = write!(text, "{},{},{}", point.writes_permille, point.offered_iops, point.achieved_iops);
        for latency in [point.p50_us, point.p90_us, point.p99_us, point.p999_us, point.p9999_us] {
            let latency = if point.sustained { latency } else { f64::INFINITY };
            _ = write!(text, ",{latency}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(quick: bool) -> Profile {
        let profile = ssd::Profile::named("consumer-slc").expect("built in");
        let mut device = probe::Simulated::new(ssd::Ssd::new(&profile, ssd::Condition::Clean, 1));
        let config = probe::Config::quick(device.size(), 4096);
        let config = if quick { config } else { config.read_only() };
        let mut prober = probe::Prober::new(config).expect("valid");
        let Ok(()) = probe::drive(&mut prober, &mut device, |_, _| Ok(()));
        let mut profile = prober.profile().expect("finished").clone();
        profile.device.name = "<b>disk</b>".to_owned();
        profile
    }

    #[test]
    fn a_report_has_a_plot_for_what_was_measured() {
        let (whole, reads) = (page(&profile(true)), page(&profile(false)));
        for (plot, of_reads) in [
            ("Bandwidth by size", true),
            ("Mean latency by size", true),
            ("The end of the write buffer", false),
            ("Recovery by idleness", false),
            ("What reads do to recovery", false),
            ("Latency with and without room", false),
            ("Latency against load", true),
        ] {
            assert!(whole.contains(plot), "{plot} is not in the report");
            assert_eq!(reads.contains(plot), of_reads, "{plot} in the report of a probe that only read");
        }
        assert!(whole.contains("&lt;b&gt;disk") && !whole.contains("<b>disk"));
        for word in ["<script", "<link", "src=", "url("] {
            assert!(!whole.contains(word), "the page loads something: {word}");
        }
    }

    #[test]
    fn loads_have_a_line_for_each_point_and_no_latency_where_the_device_did_not_keep_up() {
        let mut profile = profile(false);
        profile.load[1].sustained = false;
        let text = loads(&profile);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), profile.load.len() + 1);
        assert!(lines.iter().all(|line| line.split(',').count() == 8));
        assert!(lines[2].ends_with(",inf,inf,inf,inf,inf"), "{}", lines[2]);
    }
}
