//! The report: one HTML page that needs nothing beside it, with the table, the promises and the plots.

use super::figures::{Figures, Run, TenantFigures};
use super::plots;
use anyhow::Result;
use std::fmt::Write;

/// The page's look. Follows the reader's light or dark setting; plots keep their white paper.
const STYLE: &str = "
:root { color-scheme: light dark; --line: #8884; --good: #0a7d4f; --bad: #c2410c; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1500px; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0; } .lead { color: #777; margin-top: .2rem; max-width: 60rem; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .8rem; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child, td.text, th.text { text-align: left; white-space: nowrap; }
.wide { overflow-x: auto; }
th.group { text-align: center; border-left: 1px solid var(--line); } td.first { border-left: 1px solid var(--line); }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(26rem, 1fr)); gap: 1rem; } .plots svg { background: #fff; border-radius: 6px; max-width: 100%; height: auto; }
.kept { color: var(--good); } .broken { color: var(--bad); font-weight: 600; }
";

/// The whole page.
pub(super) fn page(figures: &Figures) -> Result<String> {
    let mut html = String::new();
    write!(
        html,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>gimbal demo</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head><body>\
         <h1>gimbal demo</h1><p class=\"lead\">{}</p>",
        escape(&figures.scenario)
    )?;
    html.push_str(&promises(figures)?);
    html.push_str(&table(figures)?);
    html.push_str("<div class=\"plots\">");
    for run in &figures.runs {
        html.push_str(&plots::bandwidth(figures, run)?);
    }
    for run in &figures.runs {
        html.push_str(&plots::latency(figures, run)?);
    }
    html.push_str("</div>");
    html.push_str(&notes(figures)?);
    html.push_str("</body></html>\n");
    Ok(html)
}

fn promises(figures: &Figures) -> Result<String> {
    let mut html = String::from("<table><tr><th>promise</th><th class=\"text\">measured</th><th></th></tr>");
    for promise in &figures.promises {
        let (class, verdict) = if promise.kept { ("kept", "kept") } else { ("broken", "NOT KEPT") };
        write!(
            html,
            "<tr><td>{}</td><td class=\"text\">{}</td><td class=\"{class}\">{verdict}</td></tr>",
            escape(&promise.claim),
            escape(&promise.measured)
        )?;
    }
    html.push_str("</table>");
    Ok(html)
}

fn table(figures: &Figures) -> Result<String> {
    let mut html = String::from("<div class=\"wide\"><table><tr><th></th><th></th>");
    for run in &figures.runs {
        write!(html, "<th class=\"group\" colspan=\"5\">{}</th>", escape(&run.scheduler))?;
    }
    html.push_str("</tr><tr><th>tenant</th><th class=\"text\">workload</th>");
    for _ in &figures.runs {
        html.push_str("<th>MB/s</th><th>f-Util</th><th>mean ms</th><th>p99 ms</th><th>p99.9 ms</th>");
    }
    html.push_str("</tr>");
    let tenants = figures.runs.first().map_or(0, |run| run.tenants.len());
    for n in 0..tenants {
        let first = &figures.runs[0].tenants[n];
        write!(
            html,
            "<tr><td>{}</td><td class=\"text\">{}</td>",
            escape(&first.name),
            escape(&first.workload)
        )?;
        for run in &figures.runs {
            html.push_str(&cells(&run.tenants[n])?);
        }
        html.push_str("</tr>");
    }
    html.push_str("<tr><td>all</td><td></td>");
    for run in &figures.runs {
        html.push_str(&total(run)?);
    }
    html.push_str("</tr></table></div>");
    Ok(html)
}

fn cells(tenant: &TenantFigures) -> Result<String> {
    let mut html = String::new();
    write!(html, "<td class=\"first\">{:.1}</td><td>{:.2}</td>", tenant.mb_per_s, tenant.f_util)?;
    let latency = &tenant.latency;
    for micros in [latency.mean_us, latency.p99_us, latency.p999_us] {
        write!(html, "<td>{:.2}</td>", micros / 1e3)?;
    }
    Ok(html)
}

fn total(run: &Run) -> Result<String> {
    let sum: f64 = run.tenants.iter().map(|tenant| tenant.mb_per_s).sum();
    let mut html = String::new();
    write!(
        html,
        "<td class=\"first\">{sum:.1}</td><td>{:.2}</td><td></td><td></td><td></td>",
        run.utilisation
    )?;
    Ok(html)
}

fn notes(figures: &Figures) -> Result<String> {
    let mut html = String::new();
    write!(
        html,
        "<p class=\"lead\">f-Util is a tenant's bandwidth over its fair share: what the device gives this workload when \
         it has the device to itself, divided by the number of tenants. 1.00 is fair. The line «all» shows the mean f-Util, \
         the part of the device that did somebody's work. Measured for {:.0} s per scheduler over NVMe/TCP on loopback; the \
         emulated SSD runs at {} of its real speed, so that this machine's processors are not what is measured.</p>",
        figures.seconds, figures.speed
    )?;
    html.push_str("<table><tr><th>share of all bytes</th>");
    for run in &figures.runs {
        let name = escape(&run.scheduler);
        write!(html, "<th>{name}, live</th><th>{name}, virtual time</th>")?;
    }
    html.push_str("</tr>");
    let tenants = figures.runs.first().map_or(0, |run| run.tenants.len());
    for n in 0..tenants {
        write!(html, "<tr><td>{}</td>", escape(&figures.runs[0].tenants[n].name))?;
        for run in &figures.runs {
            let tenant = &run.tenants[n];
            let (least, greatest) = tenant.share_range();
            let [live, least, greatest] = [tenant.share, least, greatest].map(|share| share * 100.0);
            write!(html, "<td>{live:.1} %</td><td>{least:.1}–{greatest:.1} %</td>")?;
        }
        html.push_str("</tr>");
    }
    html.push_str("</table>");
    Ok(html)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
