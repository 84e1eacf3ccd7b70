//! `gimbal trace`: the slowest IOs of a running target in the last minute, and what each of them waited for.

use crate::ctl::encoded;
use crate::output;
use crate::reach::Reach;
use admin::Client;
use anyhow::{Result, bail};
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, Table};
use serde_json::Value;
use std::process::ExitCode;
use units::{Bytes, Nanos};

/// Arguments of `gimbal trace`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  gimbal trace
  gimbal trace --device ssd0 --count 10
  gimbal trace --host NQN --json
  gimbal trace --subsystem NQN --namespace 3")]
pub(crate) struct Args {
    #[command(flatten)]
    reach: Reach,
    /// Only IOs of this device
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Only IOs of this host, where hosts are the tenants
    #[arg(long, value_name = "NQN")]
    host: Option<String>,
    /// Only IOs of namespaces of this subsystem that are tenants
    #[arg(long, value_name = "NQN", conflicts_with = "host")]
    subsystem: Option<String>,
    /// Only IOs of namespaces with this number that are tenants
    #[arg(long, value_name = "NSID", conflicts_with = "host")]
    namespace: Option<u32>,
    /// At most so many; a target keeps a hundred of each device
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    count: u16,
    /// Print one JSON object per IO, times in seconds
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    args.reach.with(|client| show(&client, args))
}

fn show(client: &Client, args: &Args) -> Result<ExitCode> {
    let namespace = args.namespace.map(|nsid| nsid.to_string());
    let asked = [
        ("device", &args.device),
        ("host", &args.host),
        ("subsystem", &args.subsystem),
        ("namespace", &namespace),
    ]
    .into_iter();
    let asked = asked.filter_map(|(name, value)| Some(format!("{name}={}", encoded(value.as_ref()?))));
    let query = asked.collect::<Vec<String>>().join("&");
    let reply = client.send("GET", &format!("/v1/slow?{query}"), &[], Vec::new())?;
    let body = reply.json();
    let Some(ios) = body["slow"].as_array() else {
        bail!(
            "{}",
            body["detail"]
                .as_str()
                .unwrap_or("this target has no list of slow IOs: it is older than this command")
        );
    };
    let ios = ios.iter().take(usize::from(args.count));
    if args.json {
        ios.into_iter().try_for_each(output::line)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_header(HEADER);
    for column in [0, 3, 4, 5, 6, 7, 8, 9] {
        table.column_mut(column).expect("it is in the header").set_cell_alignment(CellAlignment::Right);
    }
    table.add_rows(ios.map(row));
    if table.is_empty() {
        output::line("no IO has ended in the last minute")?;
    } else {
        output::line(table)?;
    }
    Ok(ExitCode::SUCCESS)
}

const HEADER: [&str; 11] =
    ["ended", "device", "op", "size", "total", "device", "share", "limit", "SSD full", "memory", "tenant"];

fn row(io: &Value) -> [String; 11] {
    let text = |field: &str| io[field].as_str().unwrap_or_default().to_owned();
    let why = |reason: &str| time(io["queued_for"][reason].as_f64());
    [
        format!("{:.0} s ago", io["ended_seconds_ago"].as_f64().unwrap_or_default()),
        text("device"),
        text("op"),
        Bytes(io["bytes"].as_u64().unwrap_or_default()).to_string(),
        time(io["total"].as_f64()),
        time(io["on_device"].as_f64()),
        why("share"),
        why("limit"),
        why("device"),
        time(io["memory"].as_f64()),
        tenant(io),
    ]
}

/// The tenant. A host that is called like a namespace does not look like one.
fn tenant(io: &Value) -> String {
    let text = |field: &str| io[field].as_str().unwrap_or_default();
    match io["namespace"].as_u64() {
        Some(nsid) => format!("namespace {nsid} of {}", text("subsystem")),
        None => format!("host {}", text("host")),
    }
}

/// A time; nothing for none.
fn time(seconds: Option<f64>) -> String {
    match seconds {
        Some(seconds) if seconds > 0.0 => Nanos((seconds * 1e9) as u64).to_string(),
        _ => String::new(),
    }
}
