//! The numbers of one second, out of an event of `/v1/events`.
//!
//! Their fields are those of docs/metrics.md. A number that is missing stays missing: it is shown as `-`.

use serde_json::Value;

/// A second of a target.
#[derive(Clone, Debug, Default)]
pub(super) struct Sight {
    pub(super) devices: Vec<Device>,
    pub(super) connections: u64,
    /// Refusals since the start, with their reasons.
    pub(super) refused: Vec<(String, u64)>,
}

/// A second of an SSD.
#[derive(Clone, Debug, Default)]
pub(super) struct Device {
    pub(super) name: String,
    /// Per second.
    pub(super) ios: f64,
    /// Per second.
    pub(super) bytes: f64,
    /// 99th percentile of the time on the SSD in seconds: reads, writes.
    pub(super) p99: [Option<f64>; 2],
    pub(super) queued: u64,
    pub(super) in_flight: u64,
    pub(super) hung: u64,
    pub(super) is_busy: bool,
    /// Seconds for which its thread has been in one turn.
    pub(super) turn: f64,
    pub(super) known_tenants: u64,
    pub(super) tenants: Vec<Tenant>,
}

/// A second of a tenant.
#[derive(Clone, Debug, Default)]
pub(super) struct Tenant {
    pub(super) kind: String,
    /// The NQN of a host, or the number and subsystem of a namespace.
    pub(super) name: String,
    pub(super) ios: f64,
    pub(super) bytes: f64,
    /// Of reads or of writes, whichever is longer: 50th, 99th percentile of latency in seconds.
    pub(super) latency: [Option<f64>; 2],
    pub(super) queued: Option<u64>,
    pub(super) credit: Option<u64>,
    pub(super) slo_kept: Option<bool>,
    /// Parts of the second in which something waited, in the order of [`WHYS`].
    pub(super) waits: [f64; 5],
}

/// Reasons to wait.
pub(super) const WHYS: [&str; 5] = ["share", "limit", "device", "memory", "credit"];

impl Sight {
    /// The second that ended with `event`.
    pub(super) fn of(event: &Value) -> Sight {
        let refused = event["refused"].as_object().into_iter().flatten();
        Sight {
            devices: list(&event["devices"]).iter().map(Device::of).collect(),
            connections: event["connections"].as_u64().unwrap_or_default(),
            refused: refused
                .filter_map(|(reason, count)| {
                    Some((reason.clone(), count.as_u64().filter(|count| *count > 0)?))
                })
                .collect(),
        }
    }
}

impl Device {
    fn of(value: &Value) -> Device {
        let number = |field: &str| value[field].as_u64().unwrap_or_default();
        Device {
            name: text(&value["device"]),
            ios: rate(value, "ios"),
            bytes: rate(value, "bytes"),
            p99: ["read", "write"].map(|op| value["io_seconds"][op]["p99_seconds"].as_f64()),
            queued: number("queued_ios"),
            in_flight: number("in_flight_ios"),
            hung: number("hung_ios"),
            is_busy: number("busy") == 1,
            turn: value["turn_seconds"].as_f64().unwrap_or_default(),
            known_tenants: number("known_tenants"),
            tenants: list(&value["tenants"]).iter().map(Tenant::of).collect(),
        }
    }
}

impl Tenant {
    fn of(value: &Value) -> Tenant {
        let longest = |which: &str| {
            let both = ["read", "write"].map(|op| value["io_seconds"][op][which].as_f64());
            both.into_iter().flatten().reduce(f64::max)
        };
        let wait =
            |why: &str| value["per_second"]["wait_seconds"][why].as_f64().unwrap_or_default().clamp(0.0, 1.0);
        Tenant {
            kind: text(&value["kind"]),
            name: match value["namespace"].as_u64() {
                Some(nsid) => format!("{nsid} of {}", text(&value["subsystem"])),
                None => text(&value["host"]),
            },
            ios: rate(value, "ios"),
            bytes: rate(value, "bytes"),
            latency: ["p50_seconds", "p99_seconds"].map(longest),
            queued: value["queued_ios"].as_u64(),
            credit: value["credit_ios"].as_u64(),
            slo_kept: value["slo_kept"].as_u64().map(|kept| kept == 1),
            waits: WHYS.map(wait),
        }
    }
}

/// The rate of a counter, over all values of its label.
fn rate(value: &Value, field: &str) -> f64 {
    value["per_second"][field].as_object().into_iter().flatten().filter_map(|(_, rate)| rate.as_f64()).sum()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A name as it may be shown on a terminal: a host chooses its own, and control characters would move the cursor.
fn text(value: &Value) -> String {
    let name = value.as_str().unwrap_or_default();
    name.chars().map(|c| if c.is_control() { '\u{FFFD}' } else { c }).collect()
}
