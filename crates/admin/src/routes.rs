//! From a request to an answer.
//!
//! ```text
//!   GET     /healthz /metrics /v1/stats …                       `sight`: who only looks
//!   GET     /v1/PART                                            a part of the document that runs, with its ETag
//!   PUT     /v1/PART  PATCH /v1/PART  DELETE /v1/LIST/NAME      a change: needs If-Match
//!   POST    /v1/reload /v1/config/discard /v1/hosts/NQN/disconnect
//!   GET     /v1/operations[/ID] /v1/openapi.json /v1/connections /v1/hosts/NQN/keys
//!   GET     /v1/devices/NAME/room
//!   GET, PUT, DELETE  /v1/devices/NAME/snapshots[/SNAPSHOT]     not of the document
//!   GET, POST  /v1/groups/NAME/takeover  POST /v1/groups/NAME/release
//!   GET, POST, DELETE  /v1/drain                                now, not in the order of changes
//! ```
//!
//! Holds: no request is answered by an error of the server (`any_request_is_the_clients_mistake_or_none`).
//! Elsewhere: parts are `place`, changes `edit`, connections and draining `hosts`, snapshots `snapshots`, groups that move `takeover`, the paths of who only looks `sight`.

use crate::access::{Access, Peer, Role};
use crate::board::Board;
use crate::edit::{Change, Edit, read};
use crate::hosts;
use crate::openapi;
use crate::order::{Action, Answer, OnDocument, OnGroup, OnSnapshot, Order, Source};
use crate::place::Place;
use crate::refusal::Refusal;
use crate::service::PATIENCE;
use crate::sight::{Sight, response};
use crate::snapshots;
use crate::takeover;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Value, json};
use server::KeyUse;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tracing::{info, warn};

/// The largest body of a request.
const BODY_MAX: usize = 4 << 20;
/// The time that a client waits for the owner. Then it gets the number of the operation.
const ANSWER_WAIT: Duration = Duration::from_secs(25);
const TOML: &str = "application/toml";
const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";

#[derive(Clone)]
struct Reached {
    source: Arc<dyn Source>,
    board: Arc<Board>,
    sight: Arc<Sight>,
    /// `None`: every request may do everything.
    access: Option<Arc<Access>>,
}

/// All routes.
pub(crate) fn all(
    source: &Arc<dyn Source>,
    board: &Arc<Board>,
    sight: &Arc<Sight>,
    access: Option<Arc<Access>>,
) -> Router {
    let (source, board, sight) = (Arc::clone(source), Arc::clone(board), Arc::clone(sight));
    let reached = Reached { source, board, sight, access };
    Router::new().fallback(handle).with_state(reached)
}

/// The routes of who only looks: they change nothing, and need no permission.
pub(crate) fn open(source: &Arc<dyn Source>, board: &Arc<Board>, sight: &Arc<Sight>) -> Router {
    let (source, board, sight) = (Arc::clone(source), Arc::clone(board), Arc::clone(sight));
    let reached = Reached { source, board, sight, access: None };
    Router::new().fallback(look).with_state(reached)
}

async fn look(State(reached): State<Reached>, request: Request) -> Response {
    let words = words_of(request.uri().path());
    let seen = words.and_then(|words| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let found = seen(&reached, &words, &request);
        found.unwrap_or_else(|| {
            Err(Refusal::new(404, "there is nothing at this path; /metrics, /healthz and /readyz are here"))
        })
    });
    let answer = seen.unwrap_or_else(|refusal| refused(&refusal));
    if request.method() == Method::HEAD { answer.map(|_| Body::empty()) } else { answer }
}

/// The answer for who only looks; `None` if the path is of another kind.
fn seen(reached: &Reached, words: &[&str], request: &Request) -> Option<Result<Response, Refusal>> {
    let Reached { source, board, sight, .. } = reached;
    let found = sight.answer(words, request.uri().query(), request.headers(), source, board)?;
    let method = request.method();
    Some(if is_read(method) {
        found
    } else {
        Err(Refusal::new(405, format!("{method} is not possible here; GET is")))
    })
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// A request, as the log and the list of operations name it.
struct Asked {
    who: String,
    what: String,
}

async fn handle(State(reached): State<Reached>, request: Request) -> Response {
    let peer = request.extensions().get::<Peer>().copied();
    let asked = Asked {
        who: peer.map(|peer| peer.to_string()).unwrap_or_default(),
        what: format!("{} {}", request.method(), request.uri()),
    };
    let is_write = !is_read(request.method());
    let is_head = request.method() == Method::HEAD;
    let answer = match permitted(&reached, &request, peer) {
        Ok(()) => answer(&reached, request, &asked).await,
        Err(refusal) => Err(refusal),
    };
    let answer = answer.unwrap_or_else(|refusal| refused(&refusal));
    // Requests without a token are counted where they are refused.
    if is_write
        && answer.status() != StatusCode::UNAUTHORIZED
        && let Some(peer) = peer
    {
        let (status, what) = (answer.status().as_u16(), asked.what);
        let generation = text_of(answer.headers(), header::ETAG);
        match answer.status().is_success() {
            true => info!(%peer, what, status, generation, "admin"),
            false => warn!(%peer, what, status, "admin: refused"),
        }
    }
    match is_head {
        true => answer.map(|_| Body::empty()),
        false => answer,
    }
}

fn permitted(reached: &Reached, request: &Request, peer: Option<Peer>) -> Result<(), Refusal> {
    let Some(access) = &reached.access else { return Ok(()) };
    let role = access.role(request.headers(), peer)?;
    match role == Role::Read && !is_read(request.method()) {
        true => Err(Refusal::new(403, "this token may only look; use the one of the role admin")),
        false => Ok(()),
    }
}

async fn answer(reached: &Reached, request: Request, asked: &Asked) -> Result<Response, Refusal> {
    let words = words_of(request.uri().path())?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let method = request.method().clone();
    let is_read = is_read(&method);
    if let Some(answer) = seen(reached, &words, &request) {
        return answer;
    }
    let only = |allowed: &str| Err(Refusal::new(405, format!("{method} is not possible here; {allowed}")));
    match words[..] {
        ["v1", "openapi.json"] if is_read => {
            Ok(response(StatusCode::OK, JSON, openapi::description().to_string()))
        }
        ["v1", "operations"] if is_read => {
            let all = reached.board.operations();
            Ok(response(
                StatusCode::OK,
                JSON,
                Value::from_iter(all.iter().map(|each| each.to_json())).to_string(),
            ))
        }
        ["v1", "operations", id] if is_read => {
            let all = reached.board.operations();
            let found = all.iter().find(|operation| operation.id().to_string() == id);
            let found = found.ok_or_else(|| {
                Refusal::new(
                    404,
                    format!("there is no operation {id}; the last 64 are kept, see /v1/operations"),
                )
            })?;
            Ok(response(StatusCode::OK, JSON, found.to_json().to_string()))
        }
        ["v1", "hosts", host, "keys"] if is_read => {
            let uses = reached.source.key_uses(host).ok_or_else(|| {
                Refusal::new(404, format!("there is no [[host]] with the NQN {host}; see /v1/hosts"))
            })?;
            let keys: Vec<Value> = uses.iter().map(key_json).collect();
            Ok(response(StatusCode::OK, JSON, Value::from(keys).to_string()))
        }
        ["v1", "connections"] if is_read => {
            let found = hosts::connections(&reached.source, request.uri().query()).await?;
            Ok(response(StatusCode::OK, JSON, found.to_string()))
        }
        ["v1", "drain"] => {
            let change = match method {
                _ if is_read => None,
                Method::POST => Some(true),
                Method::DELETE => Some(false),
                _ => return only("GET, POST and DELETE are"),
            };
            Ok(response(StatusCode::OK, JSON, hosts::drain(&reached.source, change).await?.to_string()))
        }
        ["v1", "devices", device, "room"] if is_read => {
            let found = snapshots::room(&reached.source, device).await?;
            Ok(response(StatusCode::OK, JSON, found.to_string()))
        }
        ["v1", "devices", device, "snapshots"] if is_read => {
            let found = snapshots::list(&reached.source, device).await?;
            Ok(response(StatusCode::OK, JSON, found.to_string()))
        }
        ["v1", "devices", device, "snapshots", name] if matches!(method, Method::PUT | Method::DELETE) => {
            let dry_run = dry_run(request.uri().query())?;
            let order = match method {
                Method::PUT => snapshots::taking(device, name, &body_of(request).await?, dry_run)?,
                _ => OnSnapshot { device: device.to_owned(), name: name.to_owned(), taken_of: None, dry_run },
            };
            ordered(reached, Action::Snapshot(order), asked).await
        }
        ["v1", "devices", _, "snapshots", _] => only("PUT and DELETE are"),
        ["v1", "groups", group, "takeover"] if is_read => {
            let generation = reached.source.takeover(group).map_err(|error| Refusal::of_takeover(&error))?;
            Ok(response(StatusCode::OK, JSON, takeover::shown(group, generation).to_string()))
        }
        ["v1", "groups", group, "takeover"] if method == Method::POST => {
            let dry_run = dry_run(request.uri().query())?;
            let order = takeover::taking(group, &body_of(request).await?, dry_run)?;
            ordered(reached, Action::Group(order), asked).await
        }
        ["v1", "groups", group, "release"] if method == Method::POST => {
            let order = OnGroup { group: group.to_owned(), takes_over: None, dry_run: false };
            ordered(reached, Action::Group(order), asked).await
        }
        ["v1", "groups", _, "takeover"] => only("GET and POST are"),
        ["v1", "operations" | "openapi.json" | "connections"]
        | ["v1", "devices", _, "snapshots" | "room"]
        | ["v1", "operations", _]
        | ["v1", "hosts", _, "keys"] => only("GET is"),
        ["v1", "reload"] if method == Method::POST => {
            ordered(reached, Action::Document(OnDocument::Reload), asked).await
        }
        ["v1", "config", "discard"] if method == Method::POST => {
            ordered(reached, Action::Document(OnDocument::Discard), asked).await
        }
        ["v1", "hosts", host, "disconnect"] if method == Method::POST => {
            ordered(reached, Action::Disconnect(host.to_owned()), asked).await
        }
        ["v1", "reload"]
        | ["v1", "config", "discard"]
        | ["v1", "hosts", _, "disconnect"]
        | ["v1", "groups", _, "release"] => only("POST is"),
        ["v1", ref words @ ..] if let Some(place) = Place::of(words) => {
            if is_read {
                show(reached, &place, request.headers())
            } else {
                change(reached, place, request, asked).await
            }
        }
        _ => Err(Refusal::new(404, "there is nothing at this path; docs/admin.md lists the paths")),
    }
}

/// The uses of a key, times in seconds.
fn key_json(of: &KeyUse) -> Value {
    json!({
        "field": of.field,
        "fingerprint": of.fingerprint,
        "known_seconds": of.known.as_secs_f64(),
        "proofs": of.proofs,
        "last_proof_seconds": of.last.map(|last| last.as_secs_f64()),
    })
}

/// The words of a path, decoded.
fn words_of(path: &str) -> Result<Vec<String>, Refusal> {
    path.trim_start_matches('/').split('/').map(decoded).collect()
}

/// A word of a path without its escapes (RFC 3986).
fn decoded(word: &str) -> Result<String, Refusal> {
    let wrong =
        || Refusal::new(400, "the path has an escape that is not % and two hexadecimal digits of UTF-8");
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        bytes.push(match byte {
            b'%' => {
                let (high, low) = (digit(rest.next()), digit(rest.next()));
                let both = high.zip(low).map(|(high, low)| high * 16 + low);
                both.and_then(|both| u8::try_from(both).ok()).ok_or_else(wrong)?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

fn show(reached: &Reached, place: &Place, headers: &HeaderMap) -> Result<Response, Refusal> {
    let document = reached.board.document();
    let wants_text =
        *place == Place::Whole && text_of(headers, header::ACCEPT).is_some_and(|kinds| kinds.contains(TOML));
    let mut shown = match wants_text {
        true => response(StatusCode::OK, TOML, document.text().to_owned()),
        false => response(StatusCode::OK, JSON, read(document.text(), place)?.to_string()),
    };
    shown.headers_mut().insert(header::ETAG, etag(document.generation()));
    Ok(shown)
}

async fn change(
    reached: &Reached,
    place: Place,
    request: Request,
    asked: &Asked,
) -> Result<Response, Refusal> {
    let method = request.method().clone();
    if !matches!(method, Method::PUT | Method::PATCH | Method::DELETE) {
        return Err(Refusal::new(
            405,
            format!("{method} is not possible here; GET, PUT, PATCH and DELETE may be"),
        ));
    }
    let dry_run = dry_run(request.uri().query())?;
    let expected = expected(request.headers())?;
    if expected.is_none() && !dry_run {
        let detail = "If-Match is missing: read the configuration first, and send its ETag, so that no change of another is lost";
        return Err(Refusal::new(428, detail));
    }
    let is_new = text_of(request.headers(), header::IF_NONE_MATCH).is_some_and(|tags| tags.trim() == "*");
    let is_text = text_of(request.headers(), header::CONTENT_TYPE).is_some_and(|kind| kind.starts_with(TOML));
    let edit = if method == Method::DELETE {
        Edit::Part(place, Change::Remove)
    } else {
        let body = body_of(request).await?;
        match (is_text, &place, &method) {
            (true, Place::Whole, &Method::PUT) => {
                let text = String::from_utf8(body).map_err(|_| Refusal::new(400, "the body is not UTF-8"))?;
                Edit::Text(text)
            }
            (true, ..) => {
                let detail =
                    "only PUT /v1/config takes TOML; write JSON, with Content-Type: application/json";
                return Err(Refusal::new(415, detail));
            }
            _ => {
                let json = serde_json::from_slice(&body)
                    .map_err(|error| Refusal::new(400, format!("the body is not JSON: {error}")))?;
                Edit::Part(
                    place,
                    if method == Method::PATCH {
                        Change::Merge(json)
                    } else if is_new {
                        Change::Add(json)
                    } else {
                        Change::Put(json)
                    },
                )
            }
        }
    };
    ordered(reached, Action::Document(OnDocument::Edit { edit, expected, dry_run }), asked).await
}

/// Has the owner do it, and waits for a while.
async fn ordered(reached: &Reached, action: Action, asked: &Asked) -> Result<Response, Refusal> {
    let (order, id, answered) = Order::new(action, asked.who.clone(), asked.what.clone(), &reached.board);
    reached.source.ask(order)?;
    let location = format!("/v1/operations/{id}");
    let accepted = |body: Value| {
        let mut accepted = response(StatusCode::ACCEPTED, JSON, body.to_string());
        let location = HeaderValue::from_str(&location).expect("a path of ASCII");
        accepted.headers_mut().insert(header::LOCATION, location);
        accepted
    };
    let Ok(answer) = timeout(ANSWER_WAIT, answered).await else {
        return Ok(accepted(
            json!({ "operation": location, "pending": "it waits for an earlier change, or for a device" }),
        ));
    };
    let stopping = |_| Refusal::new(503, "the target is stopping");
    match answer.map_err(stopping)? {
        Answer::Refused(refusal) => Err(refusal),
        answer @ Answer::Pending { .. } => {
            let mut body = answer.to_json();
            body["operation"] = json!(location);
            Ok(accepted(body))
        }
        answer
        @ (Answer::Done { .. } | Answer::Disconnected(_) | Answer::Snapshot(_) | Answer::Group(..)) => {
            let mut done = response(StatusCode::OK, JSON, answer.to_json().to_string());
            if let Answer::Done { generation, .. } = &answer {
                done.headers_mut().insert(header::ETAG, etag(generation));
            }
            Ok(done)
        }
    }
}

/// The value of the only field that a query may have.
fn dry_run(query: Option<&str>) -> Result<bool, Refusal> {
    match query {
        None | Some("" | "dry_run=false") => Ok(false),
        Some("dry_run=true") => Ok(true),
        Some(_) => Err(Refusal::new(400, "the only query is ?dry_run=true")),
    }
}

/// The generation in If-Match.
fn expected(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let Some(value) = headers.get(header::IF_MATCH) else { return Ok(None) };
    let tag = value.to_str().ok().map(str::trim);
    let tag = tag.and_then(|tag| tag.strip_prefix('"')?.strip_suffix('"'));
    match tag {
        Some(tag) => Ok(Some(tag.to_owned())),
        None => Err(Refusal::new(400, "If-Match has to be the one ETag of an answer, in quotes")),
    }
}

async fn body_of(request: Request) -> Result<Vec<u8>, Refusal> {
    let large =
        || Refusal::new(413, "the body is larger than 4 MiB; write such a file in its place and reload it");
    let declared =
        text_of(request.headers(), header::CONTENT_LENGTH).and_then(|length| length.parse::<usize>().ok());
    if declared.is_some_and(|length| length > BODY_MAX) {
        return Err(large());
    }
    let collected = timeout(PATIENCE, Limited::new(request.into_body(), BODY_MAX).collect()).await;
    match collected {
        Ok(Ok(body)) => Ok(body.to_bytes().to_vec()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(large()),
        Ok(Err(error)) => Err(Refusal::new(400, format!("the body cannot be read: {error}"))),
        Err(_) => Err(Refusal::new(408, "the body did not come within 30 s")),
    }
}

fn text_of(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

fn etag(generation: &str) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{generation}\"")).expect("hexadecimal digits")
}

fn refused(refusal: &Refusal) -> Response {
    let status = StatusCode::from_u16(refusal.status).expect("a status of HTTP");
    let mut answer = response(status, PROBLEM, refusal.to_json().to_string());
    if status == StatusCode::UNAUTHORIZED {
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if status == StatusCode::SERVICE_UNAVAILABLE {
        answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    answer
}

#[cfg(test)]
mod tests;
