//! The connections of hosts, and draining.
//!
//! ```text
//!   GET     /v1/connections        ?host=NQN&from=N     at most 1,000 of them
//!   GET     /v1/drain              what hosts still have under way
//!   POST    /v1/drain              drains the target; DELETE ends that
//! ```
//!
//! The threads of SSDs are asked, each for its own, so the answer is of one moment for each. One that hangs is named instead of waited for.

use crate::order::Source;
use crate::refusal::Refusal;
use serde_json::{Value, json};
use server::{ConnectionFacts, Listing};
use std::sync::Arc;
use units::Nanos;

/// Connections in one answer.
const PAGE: usize = 1000;

/// All connections. The thread of the API goes on meanwhile.
async fn listing(source: &Arc<dyn Source>) -> Result<Listing, Refusal> {
    let source = Arc::clone(source);
    let asked = tokio::task::spawn_blocking(move || source.connections()).await;
    asked.map_err(|_| Refusal::new(503, "the target is stopping"))
}

/// The answer to GET /v1/connections.
pub(crate) async fn connections(source: &Arc<dyn Source>, query: Option<&str>) -> Result<Value, Refusal> {
    let Asked { host, from } = Asked::of(query)?;
    let Listing { connections, unanswered } = listing(source).await?;
    let wanted = |facts: &&ConnectionFacts| host.as_ref().is_none_or(|host| **host == *facts.host);
    let wanted: Vec<&ConnectionFacts> = connections.iter().filter(wanted).collect();
    let page: Vec<Value> = wanted.iter().skip(from).take(PAGE).map(|facts| of_connection(facts)).collect();
    let next = from.saturating_add(page.len());
    let next = (next < wanted.len()).then_some(next);
    Ok(json!({ "connections": page, "total": wanted.len(), "next": next, "not_answering": unanswered }))
}

/// The query of GET /v1/connections.
struct Asked {
    host: Option<String>,
    from: usize,
}

impl Asked {
    fn of(query: Option<&str>) -> Result<Asked, Refusal> {
        let mut asked = Asked { host: None, from: 0 };
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            match &*name {
                "host" => asked.host = Some(value.into_owned()),
                "from" => {
                    let wrong = |_| Refusal::new(400, format!("from={value:?} is no number"));
                    asked.from = value.parse().map_err(wrong)?;
                }
                other => {
                    let detail = format!("{other:?} is no field of this query; host and from are");
                    return Err(Refusal::new(400, detail));
                }
            }
        }
        Ok(asked)
    }
}

fn of_connection(facts: &ConnectionFacts) -> Value {
    json!({
        "host": &*facts.host,
        "peer": facts.peer.to_string(),
        "subsystem": facts.subsystem,
        "controller": facts.controller,
        "queue": facts.queue,
        "thread": facts.thread,
        "open": facts.is_open,
        "authenticated": facts.is_authenticated,
        "transport": facts.transport,
        "tls": facts.has_tls,
        "age_seconds": facts.age.get() / Nanos::secs(1).get(),
        "ios": facts.ios,
    })
}

/// The answer to GET, POST and DELETE /v1/drain: what hosts still have under way.
pub(crate) async fn drain(source: &Arc<dyn Source>, change: Option<bool>) -> Result<Value, Refusal> {
    if let Some(is_drained) = change {
        source.drain(is_drained);
    }
    let Listing { connections, unanswered } = listing(source).await?;
    let mut hosts: Vec<Left<'_>> = Vec::new();
    // They are sorted by host.
    for facts in &connections {
        let is_same = hosts.last().is_some_and(|left| *left.host == *facts.host);
        if !is_same {
            hosts.push(Left { host: &facts.host, connections: 0, ios: 0 });
        }
        let left = hosts.last_mut().expect("just added");
        left.connections += usize::from(facts.is_open);
        left.ios += facts.ios;
    }
    let total = |count: fn(&Left<'_>) -> usize| hosts.iter().map(count).sum::<usize>();
    let of_host =
        |left: &Left<'_>| json!({ "host": left.host, "connections": left.connections, "ios": left.ios });
    Ok(json!({
        "draining": source.stats().is_drained,
        "ios": total(|left| left.ios),
        "connections": total(|left| left.connections),
        "hosts": hosts.iter().map(of_host).collect::<Vec<Value>>(),
        "not_answering": unanswered,
    }))
}

/// The connections and IOs of a host that have not ended.
struct Left<'a> {
    host: &'a str,
    connections: usize,
    ios: usize,
}
