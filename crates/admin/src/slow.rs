//! The slowest IOs of the last minute, as JSON.

use crate::filter::Filter;
use crate::refusal::Refusal;
use crate::sight::response;
use axum::http::StatusCode;
use axum::response::Response;
use sched::IoKind;
use serde_json::{Value, json};
use server::{SLOW_MAX, SlowIo, SlowIos};
use std::cmp::Reverse;
use units::Nanos;

/// The slowest of all that the query asks for, the slowest first.
pub(crate) fn answer(slow: &SlowIos, query: Option<&str>) -> Result<Response, Refusal> {
    let devices: Vec<&str> = slow.ssds.iter().map(|(device, _)| &**device).collect();
    let filter = Filter::of(query, &devices)?;
    let all = slow.ssds.iter().flat_map(|(device, ios)| ios.iter().map(move |io| (device, io)));
    let mut all: Vec<(&String, &SlowIo)> =
        all.filter(|(device, io)| filter.wants(device, &io.tenant)).collect();
    all.sort_by_key(|(_, io)| Reverse(io.total));
    all.truncate(SLOW_MAX);
    let ios: Vec<Value> = all.into_iter().map(|(device, io)| shown(slow, device, io)).collect();
    Ok(response(StatusCode::OK, "application/json", json!({ "slow": ios }).to_string()))
}

/// An IO. Times are in seconds.
fn shown(slow: &SlowIos, device: &str, io: &SlowIo) -> Value {
    let seconds = |time: Nanos| time.as_secs_f64();
    let why = json!({
        "share": seconds(io.why.share), "limit": seconds(io.why.limit), "device": seconds(io.why.device),
        "credit": seconds(io.why.credit),
    });
    let op = match io.kind {
        IoKind::Read => "read",
        IoKind::Write => "write",
        IoKind::Management => "other",
    };
    let mut shown = json!({
        "device": device,
        "op": op,
        "bytes": io.length.get(),
        "nsid": io.place.map(|(nsid, _)| nsid),
        "lba": io.place.map(|(_, lba)| lba),
        "ended_seconds_ago": seconds(slow.at.saturating_since(io.ended)),
        "total": seconds(io.total),
        "memory": seconds(io.memory),
        "queued": seconds(io.queued),
        "on_device": seconds(io.device),
        "queued_for": why,
    });
    let fields = shown.as_object_mut().expect("it was made as one");
    fields.extend(metrics::identity(&io.tenant));
    shown
}
