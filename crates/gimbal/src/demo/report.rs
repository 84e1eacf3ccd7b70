//! The report: one HTML page that needs no other file, with the promises, the table and the plots.

use super::figures::{Figures, Run, TenantFigures};
use super::plots;
use ::lab::report::page::{escape, frame};
use anyhow::Result;
use std::fmt::Write;

/// Styles that only this page has.
const STYLE: &str = "
.promises td { white-space: normal; } tr.first td { border-top: 2px solid var(--line); } td small { color: var(--soft); } td[rowspan] { vertical-align: top; }
.key span { margin-right: 1.5rem; white-space: nowrap; } .key i { display: inline-block; width: 1.4rem; height: 4px; margin-right: .4rem; vertical-align: middle; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 1rem; } .plots svg { border-radius: 6px; max-width: 100%; height: auto; }
";

/// The whole page.
pub(super) fn page(figures: &Figures) -> Result<String> {
    let mut body = String::new();
    if let Some(warning) = figures.warning() {
        write!(body, "<p class=\"broken\">{}</p>", escape(&warning))?;
    }
    body.push_str(&promises(figures)?);
    body.push_str(&table(figures)?);
    body.push_str(&key(figures)?);
    body.push_str("<div class=\"plots\">");
    for run in &figures.runs {
        body.push_str(&plots::bandwidth(figures, run)?);
    }
    for run in &figures.runs {
        body.push_str(&plots::latency(figures, run)?);
    }
    body.push_str("</div>");
    body.push_str(&notes(figures)?);
    Ok(frame("gimbal demo", &figures.scenario, STYLE, &body))
}

fn promises(figures: &Figures) -> Result<String> {
    let mut html = String::from(
        "<table class=\"promises\"><tr><th>promise</th><th class=\"text\">measured</th><th></th></tr>",
    );
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

/// One row per tenant and scheduler, so that compared values are below each other and the table fits a laptop's screen.
fn table(figures: &Figures) -> Result<String> {
    let mut html = String::from("<table><tr><th>tenant</th><th class=\"text\">scheduler</th>");
    html.push_str("<th>MB/s</th><th>f-Util</th><th>mean ms</th><th>p99 ms</th><th>p99.9 ms</th></tr>");
    let tenants = figures.runs.first().map_or(&[][..], |run| &run.tenants);
    for (n, tenant) in tenants.iter().enumerate() {
        let what = format!("{}<br><small>{}</small>", escape(&tenant.name), escape(&tenant.workload));
        html.push_str(&group(figures, &what, |run| cells(&run.tenants[n]))?);
    }
    html.push_str(&group(figures, "all", |run| {
        Ok(format!(
            "<td>{:.1}</td><td>{:.2}</td><td></td><td></td><td></td>",
            run.mb_per_s(),
            run.utilisation
        ))
    })?);
    html.push_str("</table>");
    Ok(html)
}

/// The rows of all schedulers for one tenant.
fn group(figures: &Figures, what: &str, cells: impl Fn(&Run) -> Result<String>) -> Result<String> {
    let mut html = String::new();
    for (n, run) in figures.runs.iter().enumerate() {
        html.push_str(if n == 0 { "<tr class=\"first\">" } else { "<tr>" });
        if n == 0 {
            write!(html, "<td rowspan=\"{}\">{what}</td>", figures.runs.len())?;
        }
        write!(html, "<td class=\"text\">{}</td>{}</tr>", escape(&run.scheduler), cells(run)?)?;
    }
    Ok(html)
}

fn cells(tenant: &TenantFigures) -> Result<String> {
    let mut html = String::new();
    write!(html, "<td>{:.1}</td><td>{:.2}</td>", tenant.mb_per_s, tenant.f_util)?;
    let latency = &tenant.latency;
    for micros in [latency.mean_us, latency.p99_us, latency.p999_us] {
        write!(html, "<td>{:.2}</td>", micros / 1e3)?;
    }
    Ok(html)
}

/// The tenants' colours, once for all plots: a key inside a plot would hide a curve.
fn key(figures: &Figures) -> Result<String> {
    let mut html = String::from("<p class=\"key\">");
    for (n, tenant) in figures.runs.first().map_or(&[][..], |run| &run.tenants).iter().enumerate() {
        let colour = plots::css_colour(n);
        write!(html, "<span><i style=\"background: {colour}\"></i>{}</span>", escape(&tenant.name))?;
    }
    html.push_str("</p>");
    Ok(html)
}

fn notes(figures: &Figures) -> Result<String> {
    let mut html = String::new();
    write!(
        html,
        "<p class=\"lead\">f-Util is a tenant's bandwidth over its fair share: what the device gives this workload when \
         it has the device to itself, divided by the number of tenants. 1.00 is fair. The line «all» shows the mean f-Util, \
         the part of the device's time that did useful work. Measured for {:.0} s per scheduler over NVMe/TCP on loopback; the \
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
