//! `/v1/events`: the statistics of the last second, once a second, as server-sent events.
//!
//! They are made once for all who look, and not at all while nobody does. A reader that does not keep up is cut off.

use crate::order::Source;
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use metrics::Lately;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{Notify, broadcast};
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::BroadcastStream;
use units::Nanos;

/// Streams at a time.
const STREAMS_MAX: usize = 32;
/// Events that a reader may be behind.
const BEHIND_MAX: usize = 4;
/// Tenants of each device in an event.
const TENANTS_MAX: usize = 20;
/// Time between two events.
const INTERVAL: Duration = Duration::from_secs(1);

/// Makes the events.
#[derive(Clone)]
pub(crate) struct Events {
    sender: broadcast::Sender<Bytes>,
    wanted: Arc<Notify>,
}

impl Events {
    /// Nobody looks yet.
    pub(crate) fn new() -> Events {
        Events { sender: broadcast::Sender::new(BEHIND_MAX), wanted: Arc::new(Notify::new()) }
    }

    /// Makes events while somebody looks; never ends.
    pub(crate) async fn run(self, source: Arc<dyn Source>) {
        loop {
            self.wanted.notified().await;
            let mut lately = Lately::new(TENANTS_MAX);
            let (mut before, mut at) = (source.stats(), Instant::now());
            // The first event comes at once, so that a page is not empty for a second.
            self.send(lately.event(before.clone(), &before, Nanos::ZERO));
            let mut ticks = interval_at(Instant::now() + INTERVAL, INTERVAL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            while self.sender.receiver_count() > 0 {
                ticks.tick().await;
                let (now, then) = (source.stats(), Instant::now());
                self.send(lately.event(now.clone(), &before, Nanos((then - at).as_nanos() as u64)));
                (before, at) = (now, then);
            }
        }
    }

    /// A stream of events; `None` if there are too many.
    pub(crate) fn stream(&self) -> Option<Response> {
        if self.sender.receiver_count() >= STREAMS_MAX {
            return None;
        }
        let events = BroadcastStream::new(self.sender.subscribe());
        self.wanted.notify_one();
        // An error says that the reader has missed events: its stream ends.
        let events = events.take_while(Result::is_ok).filter_map(Result::ok).map(Ok::<_, Infallible>);
        let mut response = Response::new(Body::from_stream(events));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        Some(response)
    }

    fn send(&self, mut event: Value) {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        event["at_seconds"] = json!(at.as_secs_f64());
        // This fails only if nobody looks any more.
        let _ = self.sender.send(format!("data: {event}\n\n").into());
    }
}
