//! The numbers of one second, out of two events of `/v1/events`.
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

/// The fields that name a tenant.
const IDENTITY: [&str; 4] = ["kind", "host", "subsystem", "namespace"];

/// Reasons to wait.
pub(super) const WHYS: [&str; 5] = ["share", "limit", "device", "memory", "credit"];

impl Sight {
    /// The second that ended with `event`; `before` is the one before it.
    pub(super) fn of(event: &Value, before: Option<&Value>) -> Sight {
        let at = |event: &Value| event["at_seconds"].as_f64().unwrap_or_default();
        let span = before.map_or(1.0, |before| (at(event) - at(before)).max(0.1));
        let device = |value: &Value| {
            let former = before.and_then(|before| named(&before["devices"], "device", &value["device"]));
            Device::of(value, former, span)
        };
        let refused = event["refused"].as_object().into_iter().flatten();
        Sight {
            devices: list(&event["devices"]).iter().map(device).collect(),
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
    fn of(value: &Value, before: Option<&Value>, span: f64) -> Device {
        let number = |field: &str| value[field].as_u64().unwrap_or_default();
        let tenant = |tenant: &Value| {
            let former = before.and_then(|before| {
                let is_same = |other: &&Value| IDENTITY.iter().all(|field| other[field] == tenant[field]);
                list(&before["tenants"]).iter().find(is_same)
            });
            Tenant::of(tenant, former, span)
        };
        Device {
            name: text(&value["device"]),
            ios: added(value, before, "ios") / span,
            bytes: added(value, before, "bytes") / span,
            p99: ["read", "write"].map(|op| value["io_seconds"][op]["p99_seconds"].as_f64()),
            queued: number("queued_ios"),
            in_flight: number("in_flight_ios"),
            hung: number("hung_ios"),
            is_busy: number("busy") == 1,
            turn: value["turn_seconds"].as_f64().unwrap_or_default(),
            known_tenants: number("known_tenants"),
            tenants: list(&value["tenants"]).iter().map(tenant).collect(),
        }
    }
}

impl Tenant {
    fn of(value: &Value, before: Option<&Value>, span: f64) -> Tenant {
        let longest = |which: &str| {
            let both = ["read", "write"].map(|op| value["io_seconds"][op][which].as_f64());
            both.into_iter().flatten().reduce(f64::max)
        };
        let wait = |why: &str| {
            let was = before.map(|before| before["wait_seconds"][why].as_f64().unwrap_or_default());
            let is = value["wait_seconds"][why].as_f64().unwrap_or_default();
            was.map_or(0.0, |was| ((is - was) / span).clamp(0.0, 1.0))
        };
        Tenant {
            kind: text(&value["kind"]),
            name: match value["namespace"].as_u64() {
                Some(nsid) => format!("{nsid} of {}", text(&value["subsystem"])),
                None => text(&value["host"]),
            },
            ios: before.map_or(0.0, |before| added(value, Some(before), "ios") / span),
            bytes: before.map_or(0.0, |before| added(value, Some(before), "bytes") / span),
            latency: ["p50_seconds", "p99_seconds"].map(longest),
            queued: value["queued_ios"].as_u64(),
            credit: value["credit_ios"].as_u64(),
            slo_kept: value["slo_kept"].as_u64().map(|kept| kept == 1),
            waits: WHYS.map(wait),
        }
    }
}

/// How much the sum over a counter's label has grown.
fn added(now: &Value, before: Option<&Value>, field: &str) -> f64 {
    let sum = |value: &Value| -> u64 {
        value[field].as_object().into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum()
    };
    before.map_or(0.0, |before| sum(now).saturating_sub(sum(before)) as f64)
}

fn named<'v>(all: &'v Value, field: &str, name: &Value) -> Option<&'v Value> {
    list(all).iter().find(|value| value[field] == *name)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A name as it may be shown on a terminal: a host chooses its own, and control characters would move the cursor.
fn text(value: &Value) -> String {
    let name = value.as_str().unwrap_or_default();
    name.chars().map(|c| if c.is_control() { '\u{FFFD}' } else { c }).collect()
}
