//! The paths of who only looks: health, metrics, statistics, events, the dashboard. They change nothing, and never wait.
//!
//! ```text
//!   GET  /healthz /readyz      200 or 503
//!   GET  /metrics              for Prometheus: text, or protobuf if it is preferred (`format`)
//!   GET  /v1/stats             JSON; ?device=NAME&host=NQN, ?subsystem=NQN&namespace=NSID: only these tenants
//!   GET  /v1/slow              JSON: the slowest IOs of the last minute; the same query
//!   GET  /v1/events            JSON of the last second, once a second
//!   GET  / /dashboard/FILE     the dashboard
//! ```

use crate::board::Board;
use crate::dashboard;
use crate::events::Events;
use crate::filter::Filter;
use crate::format::Format;
use crate::health;
use crate::order::Source;
use crate::refusal::Refusal;
use crate::slow;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use metrics::Shown;
use server::{Stats, TenantName};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// See the module.
pub(crate) struct Sight {
    pub(crate) events: Events,
    shown: Mutex<Shown>,
    /// The beginning of the clock of `shown`.
    started: Instant,
}

impl Sight {
    /// Nobody looks yet. At most `pairs_max` pairs of device and tenant have series of their own.
    pub(crate) fn new(pairs_max: usize) -> Sight {
        let shown = Mutex::new(Shown::new(pairs_max));
        Sight { events: Events::new(), shown, started: Instant::now() }
    }

    /// The answer to a GET; `None` if the path is of another kind.
    pub(crate) fn answer(
        &self,
        words: &[&str],
        query: Option<&str>,
        headers: &HeaderMap,
        source: &Arc<dyn Source>,
        board: &Board,
    ) -> Option<Result<Response, Refusal>> {
        Some(match words {
            ["healthz"] => Ok(told(health::alive(&source.stats()))),
            ["readyz"] => Ok(told(health::ready(&source.stats(), board))),
            ["metrics"] => Ok(self.metrics(&source.stats(), Format::accepted(headers))),
            ["v1", "stats"] => stats(&source.stats(), query),
            ["v1", "slow"] => slow::answer(&source.slow_ios(), query),
            ["v1", "events"] => {
                self.events.stream().ok_or_else(|| Refusal::new(503, "32 streams of events are open already"))
            }
            [""] => Ok(dashboard::file("").expect("it is there")),
            ["dashboard", file] => {
                dashboard::file(file).ok_or_else(|| Refusal::new(404, "the dashboard has no such file"))
            }
            _ => return None,
        })
    }

    fn metrics(&self, stats: &Stats, format: Format) -> Response {
        let now = units::Instant::ZERO + units::Nanos(self.started.elapsed().as_nanos() as u64);
        // A choice that a panic has cut short is a choice all the same.
        let chosen = self.shown.lock().unwrap_or_else(PoisonError::into_inner).choose(now, stats);
        let body = match format {
            Format::Text => Body::from(metrics::text(stats, &chosen)),
            Format::Protobuf => Body::from(metrics::protobuf(stats, &chosen)),
        };
        response(StatusCode::OK, format.media_type(), body)
    }
}

/// Statistics, of the tenants that the query names, or of all.
fn stats(stats: &Stats, query: Option<&str>) -> Result<Response, Refusal> {
    let names: Vec<&str> = stats.ssds.iter().map(|ssd| &*ssd.device).collect();
    let filter = Filter::of(query, &names)?;
    let wanted = |device: &str, tenant: &TenantName| filter.wants(device, tenant);
    Ok(response(StatusCode::OK, "application/json", metrics::json(stats, wanted).to_string()))
}

fn told((is_well, body): (bool, serde_json::Value)) -> Response {
    let status = if is_well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    response(status, "application/json", body.to_string())
}

/// An answer with this body.
pub(crate) fn response(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
