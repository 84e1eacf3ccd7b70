//! Requests to the routes, with an owner that answers at once.

use super::*;
use crate::document::Document;
use crate::events::Events;
use proptest::prelude::*;
use server::{
    AcceptorStats, ConnectionFacts, Listing, Room, SlowIos, Snapshot, SnapshotError, Stats, Taken,
    TakeoverError,
};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tower_service::Service;
use units::{Bytes, Nanos};

const HOST: &str = "nqn.2025-01.io.example:host";
const TEXT: &str = "listen = [\"127.0.0.1:0\"]\n[limits]\nconnections = 5\n";

/// An owner that edits the document and judges nothing; or one that does not answer.
struct Owner {
    board: Mutex<Option<Arc<Board>>>,
    turn: Nanos,
    is_drained: AtomicBool,
}

impl Source for Owner {
    fn stats(&self) -> Stats {
        let acceptor = AcceptorStats { turn: self.turn, connections: 4, handshakes: 0, accepted: 9 };
        Stats { acceptor, is_drained: self.is_drained.load(Ordering::Relaxed), ..Stats::default() }
    }

    fn slow_ios(&self) -> SlowIos {
        SlowIos { at: units::Instant(5), ssds: vec![("ssd0".to_owned(), Vec::new())] }
    }

    fn key_uses(&self, host: &str) -> Option<Vec<KeyUse>> {
        let (known, last) = (Duration::from_secs(90), Some(Duration::from_secs(5)));
        let of = |field| KeyUse { field, fingerprint: "0a1b2c3d".to_owned(), known, proofs: 2, last };
        (host == HOST).then(|| vec![of("dhchap_key")])
    }

    /// Two hosts, one with more connections than an answer has.
    fn connections(&self) -> Listing {
        let of = |host: &str, queue| ConnectionFacts {
            peer: ([127, 0, 0, 1], 1).into(),
            host: host.into(),
            subsystem: None,
            controller: 1,
            queue,
            thread: "device a".to_owned(),
            is_open: queue > 0,
            is_authenticated: false,
            transport: "tcp",
            has_tls: false,
            age: Nanos::secs(3),
            ios: 2,
        };
        let connections = (0..1001).map(|queue| of("nqn.a", queue)).chain([of("nqn.b", 1)]).collect();
        Listing { connections, unanswered: vec!["b".to_owned()] }
    }

    fn snapshots(&self, device: &str) -> Result<Vec<Snapshot>, SnapshotError> {
        let of =
            |name: &str| Snapshot { name: name.to_owned(), namespace: "u".to_owned(), size: 4096, taken: 7 };
        if device == "ssd0" { Ok(vec![of("a")]) } else { Err(SnapshotError::NoDevice(device.to_owned())) }
    }

    fn room(&self, device: &str) -> Result<Room, SnapshotError> {
        if device != "ssd0" {
            return Err(SnapshotError::NoDevice(device.to_owned()));
        }
        Ok(Room { size: Bytes(9), free: Bytes(5), promised: Bytes(2) })
    }

    fn takeover(&self, group: &str) -> Result<Option<u64>, TakeoverError> {
        match group {
            "held" => Ok(Some(7)),
            "free" => Ok(None),
            other => Err(TakeoverError::NoGroup(other.to_owned())),
        }
    }

    fn drain(&self, is_drained: bool) {
        self.is_drained.store(is_drained, Ordering::Relaxed);
    }

    fn ask(&self, order: Order) -> Result<(), Refusal> {
        let board = self.board.lock().expect("nobody panics with it").clone();
        let Some(board) = board else { return Err(Refusal::new(503, "8 changes wait already")) };
        let answer = match order.action.clone() {
            Action::Document(OnDocument::Edit { edit, dry_run, .. }) => {
                match edit.apply(board.document().text()) {
                    Ok(text) => {
                        if !dry_run {
                            board.replace(Document::new(text), true);
                        }
                        let generation = board.document().generation().to_owned();
                        Answer::Done { generation, changes: Vec::new() }
                    }
                    Err(refusal) => Answer::Refused(refusal),
                }
            }
            Action::Disconnect(_) => Answer::Disconnected(2),
            Action::Snapshot(OnSnapshot { name, taken_of: Some((_, 1)), dry_run: false, .. }) => {
                let snapshot = Snapshot { name, namespace: "u".to_owned(), size: 4096, taken: 7 };
                Answer::Snapshot(Some(Taken { snapshot, pause: Nanos::millis(3) }))
            }
            Action::Snapshot(_) => Answer::Snapshot(None),
            Action::Group(OnGroup { group, takes_over, .. }) => Answer::Group(group, takes_over),
            Action::Document(OnDocument::Reload | OnDocument::Discard) => Answer::Pending {
                generation: board.document().generation().to_owned(),
                why: "stuck".to_owned(),
            },
        };
        order.answer(answer);
        Ok(())
    }
}

fn api() -> (Router, Arc<Board>) {
    let board = Arc::new(Board::new(Some(Path::new("/etc/gimbal.toml")), Document::new(TEXT.to_owned())));
    let owner = Owner {
        board: Mutex::new(Some(Arc::clone(&board))),
        turn: Nanos::ZERO,
        is_drained: AtomicBool::default(),
    };
    let source: Arc<dyn Source> = Arc::new(owner);
    (all(&source, &board, &Arc::new(Sight::new(1000)), None), board)
}

struct Seen {
    status: u16,
    headers: HeaderMap,
    body: String,
}

fn send(router: &Router, method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Seen {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(body.into()).expect("a request");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let answer = router.clone().call(request).await.expect("it is infallible");
        let (head, body) = answer.into_parts();
        let body = body.collect().await.expect("it is here").to_bytes();
        let body = String::from_utf8(body.to_vec()).expect("text");
        Seen { status: head.status.as_u16(), headers: head.headers, body }
    })
}

#[test]
fn a_part_is_read_with_its_generation_and_written_with_it() {
    let (router, board) = api();
    let seen = send(&router, "GET", "/v1/limits", &[], "");
    assert_eq!((seen.status, &*seen.body), (200, "{\"connections\":5}"));
    let tag = seen.headers[header::ETAG].to_str().expect("text").to_owned();
    assert_eq!(tag, format!("\"{}\"", board.document().generation()));
    let change = "{\"connections\":6}";
    assert_eq!(send(&router, "PATCH", "/v1/limits", &[], change).status, 428);
    assert_eq!(send(&router, "PATCH", "/v1/limits?dry_run=true", &[], change).status, 200);
    assert_eq!(board.document().text(), TEXT);
    let done = send(&router, "PATCH", "/v1/limits", &[("if-match", &tag)], change);
    assert_eq!(done.status, 200, "{}", done.body);
    assert_eq!(board.document().text(), TEXT.replace('5', "6"));
    let text = send(&router, "GET", "/v1/config", &[("accept", "application/toml")], "");
    assert_eq!(text.body, board.document().text());
    let head = send(&router, "HEAD", "/v1/config", &[], "");
    assert_eq!((head.status, &*head.body), (200, ""));
}

#[test]
fn every_refusal_is_a_problem_with_a_reason() {
    let (router, _) = api();
    let tag = [("if-match", "\"x\"")];
    let toml = [("if-match", "\"x\""), ("content-type", "application/toml")];
    let large = vec![b' '; BODY_MAX + 1];
    for (method, path, headers, body, status) in [
        ("GET", "/nothing", &[][..], &b""[..], 404),
        ("GET", "/v1/nothing", &[], b"", 404),
        ("GET", "/v1/devices/a%zz", &[], b"", 400),
        ("GET", "/v1/devices/%ff", &[], b"", 400),
        ("GET", "/v1/log", &[], b"", 404),
        ("POST", "/v1/config", &tag, b"", 405),
        ("PUT", "/healthz", &tag, b"", 405),
        ("GET", "/v1/reload", &[], b"", 405),
        ("PUT", "/v1/limits?quick=1", &tag, b"{}", 400),
        ("PUT", "/v1/limits", &[("if-match", "W/x")], b"{}", 400),
        ("PUT", "/v1/limits", &tag, b"{", 400),
        ("PUT", "/v1/limits", &toml, b"", 415),
        ("PUT", "/v1/config", &toml, b"\xff", 400),
        ("PUT", "/v1/config", &toml, &large, 413),
        ("DELETE", "/v1/devices/a", &tag, b"", 404),
        ("GET", "/v1/operations/7", &[], b"", 404),
    ] {
        let seen = send(&router, method, path, headers, body.to_vec());
        assert_eq!(seen.status, status, "{method} {path}: {}", seen.body);
        assert_eq!(seen.headers[header::CONTENT_TYPE], PROBLEM, "{method} {path}");
        let problem: Value = serde_json::from_str(&seen.body).expect("JSON");
        assert_eq!(problem["status"], status);
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.len() > 10), "{problem}");
    }
}

#[test]
fn what_is_not_complete_has_an_operation() {
    let (router, board) = api();
    let seen = send(&router, "POST", "/v1/reload", &[], "");
    assert_eq!(seen.status, 202, "{}", seen.body);
    let path = seen.headers[header::LOCATION].to_str().expect("text").to_owned();
    let state = |router: &Router| {
        let operation: Value = serde_json::from_str(&send(router, "GET", &path, &[], "").body).expect("JSON");
        operation["state"].as_str().expect("a word").to_owned()
    };
    assert_eq!(state(&router), "pending");
    board.replace(Document::new(TEXT.to_owned()), true);
    assert_eq!(state(&router), "done");
}

#[test]
fn a_body_that_does_not_come_is_not_waited_for() {
    let (router, _) = api();
    let (_sender, body) = tokio::sync::oneshot::channel::<()>();
    let never = Body::new(Never(body));
    let seen = send(&router, "PUT", "/v1/limits", &[("if-match", "\"x\"")], never);
    assert_eq!(seen.status, 408, "{}", seen.body);
}

#[test]
fn a_full_queue_says_when_to_come_again_and_a_thread_that_hangs_is_named() {
    let board = Arc::new(Board::new(None, Document::new(TEXT.to_owned())));
    let owner = Owner { board: Mutex::new(None), turn: Nanos::secs(7), is_drained: AtomicBool::default() };
    let source: Arc<dyn Source> = Arc::new(owner);
    let router = all(&source, &board, &Arc::new(Sight::new(1000)), None);
    let seen = send(&router, "POST", "/v1/reload", &[], "");
    assert_eq!((seen.status, &seen.headers[header::RETRY_AFTER]), (503, &HeaderValue::from_static("1")));
    assert!(board.operations().is_empty(), "what was refused does not wait");
    let sick = send(&router, "GET", "/healthz", &[], "");
    assert_eq!(sick.status, 503);
    assert!(sick.body.contains("acceptor hangs for 7 s"), "{}", sick.body);
    let (router, board) = api();
    for path in ["/healthz", "/readyz"] {
        assert_eq!(send(&router, "GET", path, &[], "").status, 200);
    }
    // The open address neither changes anything nor shows the configuration.
    let open = open(&source, &board, &Arc::new(Sight::new(1000)));
    assert_eq!(send(&open, "GET", "/healthz", &[], "").status, 503);
    assert_eq!(send(&open, "GET", "/v1/config", &[], "").status, 404);
    assert_eq!(send(&open, "POST", "/readyz", &[], "").status, 405);
    board.stop();
    assert_eq!(send(&router, "GET", "/healthz", &[], "").status, 200);
    assert!(send(&router, "GET", "/readyz", &[], "").body.contains("stopping"));
}

#[test]
fn who_only_looks_gets_metrics_statistics_and_the_dashboard() {
    let (router, _) = api();
    let seen = send(&router, "GET", "/metrics", &[], "");
    assert_eq!(
        (seen.status, &seen.headers[header::CONTENT_TYPE]),
        (200, &HeaderValue::from_static(metrics::TEXT_KIND))
    );
    assert!(seen.body.contains("\ngimbal_accepted_total 9\n"), "{}", seen.body);
    let seen = send(&router, "GET", "/v1/stats", &[], "");
    let stats: Value = serde_json::from_str(&seen.body).expect("JSON");
    assert_eq!((&stats["connections"], &stats["devices"]), (&json!(4), &json!([])));
    let seen = send(&router, "GET", "/v1/stats?device=x", &[], "");
    assert_eq!(seen.status, 404, "{}", seen.body);
    assert_eq!(send(&router, "GET", "/v1/stats?tenant=x", &[], "").status, 400);
    assert_eq!(send(&router, "POST", "/metrics", &[], "").status, 405);
    let page = send(&router, "GET", "/", &[], "");
    assert!(page.body.starts_with("<!doctype html>"));
    assert!(
        page.headers[header::CONTENT_SECURITY_POLICY]
            .to_str()
            .expect("ASCII")
            .starts_with("default-src 'self'")
    );
    // All that the page asks for is there, and nothing of it is elsewhere.
    for asked in page.body.split('"').filter(|text| text.starts_with("/dashboard/")) {
        assert_eq!(send(&router, "GET", asked, &[], "").status, 200, "{asked}");
    }
    assert!(!page.body.contains("http"), "nothing from elsewhere");
    assert_eq!(send(&router, "GET", "/dashboard/../Cargo.toml", &[], "").status, 404);
    assert_eq!(send(&router, "HEAD", "/metrics", &[], "").body, "");
}

/// Events are made while somebody looks, at most 32 streams of them.
#[test]
fn events_come_once_a_second_to_a_bounded_number() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let (events, board) = (Events::new(), Arc::new(Board::new(None, Document::new(TEXT.to_owned()))));
        let owner =
            Owner { board: Mutex::new(Some(board)), turn: Nanos::ZERO, is_drained: AtomicBool::default() };
        tokio::spawn(events.clone().run(Arc::new(owner)));
        let mut streams: Vec<_> =
            (0..32).map(|_| events.stream().expect("there is room").into_body()).collect();
        assert!(events.stream().is_none());
        let before = tokio::time::Instant::now();
        for _ in 0..3 {
            let frame = streams[0].frame().await.expect("it goes on").expect("no error");
            let text = String::from_utf8(frame.into_data().expect("data").to_vec()).expect("text");
            let json =
                text.strip_prefix("data: ").and_then(|text| text.strip_suffix("\n\n")).expect("an event");
            let event: Value = serde_json::from_str(json).expect("JSON");
            assert!(event["at_seconds"].is_f64() && event["accepted"] == 9, "{event}");
        }
        assert_eq!(before.elapsed().as_secs(), 2, "the first one comes at once");
        // One that does not read is cut off.
        tokio::time::sleep(Duration::from_secs(20)).await;
        let last = streams.pop().expect("there are some");
        assert!(last.collect().await.expect("it ends").to_bytes().len() < 20 * 100);
        assert!(events.stream().is_some(), "a place is free");
    });
}

fn words() -> impl Strategy<Value = String> {
    const KNOWN: [&str; 11] = [
        "v1",
        "config",
        "devices",
        "subsystems",
        "namespaces",
        "limits",
        "listen",
        "operations",
        "a",
        "1",
        "%41",
    ];
    let word = prop_oneof![prop::sample::select(&KNOWN[..]).prop_map(str::to_owned), "[!-~&&[^/?#]]{0,6}"];
    prop::collection::vec(word, 0..5).prop_map(|words| format!("/{}", words.join("/")))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn any_request_is_the_clients_mistake_or_none(
        method in prop::sample::select(&["GET", "HEAD", "PUT", "PATCH", "POST", "DELETE", "OPTIONS", "TRACE"][..]),
        path in words(),
        body in prop_oneof!["[{}\\[\\]\":,a0-9n]{0,12}", Just("{\"name\":\"a\"}".to_owned()), Just("{}".to_owned())],
    ) {
        prop_assume!(path.parse::<axum::http::Uri>().is_ok());
        let (router, board) = api();
        let tag = etag(board.document().generation());
        let seen = send(&router, method, &path, &[("if-match", tag.to_str().expect("ASCII"))], body);
        prop_assert!(seen.status < 500, "{} {}: {} {}", method, path, seen.status, seen.body);
    }
}

#[test]
fn a_reader_may_look_and_no_more() {
    let [read, admin] = ["r", "a"].map(|letter| letter.repeat(32));
    let board = Arc::new(Board::new(None, Document::new(TEXT.to_owned())));
    let source: Arc<dyn Source> = Arc::new(Owner {
        board: Mutex::new(Some(Arc::clone(&board))),
        turn: Nanos::ZERO,
        is_drained: AtomicBool::default(),
    });
    let access = Access::new(server::AdminTokens::new(Some(&read), Some(&admin)));
    let router = all(&source, &board, &Arc::new(Sight::new(1000)), Some(Arc::new(access)));
    let tag = etag(board.document().generation());
    let tag = tag.to_str().expect("ASCII");
    for (token, looks, writes) in [(&*read, 200, 403), (&*admin, 200, 200), ("guess", 401, 401)] {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", &*bearer), ("if-match", tag)];
        assert_eq!(send(&router, "GET", "/v1/config", &headers, "").status, looks, "{token}");
        assert_eq!(send(&router, "PATCH", "/v1/limits", &headers, "{}").status, writes, "{token}");
    }
    let seen = send(&router, "GET", "/healthz", &[], "");
    assert_eq!(
        (seen.status, &seen.headers[header::WWW_AUTHENTICATE]),
        (401, &HeaderValue::from_static("Bearer"))
    );
}

#[test]
fn every_operation_of_the_description_is_answered() {
    let (router, board) = api();
    let tag = etag(board.document().generation());
    let headers = [("if-match", tag.to_str().expect("ASCII"))];
    let described: Value =
        serde_json::from_str(&send(&router, "GET", "/v1/openapi.json", &[], "").body).expect("JSON");
    let paths = described["paths"].as_object().expect("a table");
    assert!(paths.len() > 20);
    let methods = ["get", "put", "post", "patch", "delete"];
    for (path, operations) in paths {
        let words = path.split('/').map(|word| if word.starts_with('{') { "1" } else { word });
        let path = words.collect::<Vec<&str>>().join("/");
        // A stream of events has no end.
        for method in methods.into_iter().filter(|method| path != "/v1/events" || *method != "get") {
            let status = send(&router, &method.to_uppercase(), &path, &headers, "{}").status;
            assert_eq!(status != 405, operations.get(method).is_some(), "{method} {path}: {status}");
        }
    }
}

#[test]
fn connections_come_in_pages_and_a_drain_says_what_is_left() {
    let (router, _) = api();
    let get = |path: &str| -> (u16, Value) {
        let seen = send(&router, "GET", path, &[], "");
        (seen.status, serde_json::from_str(&seen.body).expect("JSON"))
    };
    let (_, first) = get("/v1/connections");
    assert_eq!((&first["total"], &first["next"]), (&json!(1002), &json!(1000)));
    assert_eq!(first["connections"].as_array().map(Vec::len), Some(1000));
    let (_, rest) = get("/v1/connections?from=1000");
    assert_eq!((rest["connections"].as_array().map(Vec::len), &rest["next"]), (Some(2), &Value::Null));
    let (_, own) = get("/v1/connections?host=nqn.b");
    assert_eq!((&own["total"], &own["connections"][0]["age_seconds"]), (&json!(1), &json!(3)));
    assert_eq!(own["not_answering"], json!(["b"]));
    for wrong in ["?from=x", "?hosts=a"] {
        assert_eq!(get(&format!("/v1/connections{wrong}")).0, 400);
    }
    assert_eq!(get("/v1/drain").1["draining"], false);
    for (method, is_drained) in [("POST", true), ("POST", true), ("DELETE", false)] {
        let body: Value =
            serde_json::from_str(&send(&router, method, "/v1/drain", &[], "").body).expect("JSON");
        assert_eq!(body["draining"], is_drained);
        assert_eq!(body["hosts"][0], json!({ "host": "nqn.a", "connections": 1000, "ios": 2002 }));
        assert_eq!((&body["ios"], &body["connections"]), (&json!(2004), &json!(1001)));
        let ready = get("/readyz");
        assert_eq!(ready.0 == 503, is_drained, "{}", ready.1);
        let reasons = ready.1["reasons"].as_array().expect("a list");
        assert_eq!(reasons.len(), usize::from(is_drained), "{reasons:?}");
        let says_so = |why: &Value| why.to_string().contains("drained for maintenance");
        assert_eq!(reasons.first().is_some_and(says_so), is_drained);
    }
}

#[test]
fn the_room_of_a_directory_is_told_and_of_nothing_else() {
    let (router, _) = api();
    let ask = |method: &str, path: &str| {
        let seen = send(&router, method, path, &[], "");
        (seen.status, seen.body)
    };
    let (status, body) = ask("GET", "/v1/devices/ssd0/room");
    let body: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((status, body), (200, json!({ "size": 9, "free": 5, "promised": 2 })));
    assert_eq!(ask("HEAD", "/v1/devices/ssd0/room"), (200, String::new()));
    let (status, body) = ask("GET", "/v1/devices/pool/room");
    assert!(status == 404 && body.contains("pool"), "{status}: {body}");
    assert_eq!(ask("PUT", "/v1/devices/ssd0/room").0, 405);
    assert_eq!(ask("GET", "/v1/devices/ssd0/room/more").0, 404);
}

#[test]
fn the_description_is_the_one_in_the_docs() {
    let kept = include_str!("../../../../docs/openapi.json");
    let made = serde_json::to_string_pretty(&openapi::description()).expect("JSON");
    assert!(kept.trim_end() == made, "docs/openapi.json has to be:\n{made}");
}

/// A body that never comes.
struct Never(tokio::sync::oneshot::Receiver<()>);

impl hyper::body::Body for Never {
    type Data = hyper::body::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Self::Data>, Self::Error>>> {
        use std::future::Future;
        std::pin::Pin::new(&mut self.0).poll(context).map(|_| None)
    }
}

#[test]
fn groups_are_taken_over_and_released() {
    let (router, _) = api();
    let post = |path: &str, body: &str| {
        let reply = send(&router, "POST", path, &[], body.to_owned());
        (reply.status, serde_json::from_str::<Value>(&reply.body).expect("JSON"))
    };
    let get = |path: &str| {
        let reply = send(&router, "GET", path, &[], "");
        (reply.status, serde_json::from_str::<Value>(&reply.body).expect("JSON"))
    };
    let held = json!({ "group": "held", "held": true, "generation": 7 });
    assert_eq!(get("/v1/groups/held/takeover"), (200, held));
    assert_eq!(get("/v1/groups/free/takeover").1["generation"], Value::Null);
    assert_eq!(get("/v1/groups/other/takeover").0, 404);
    let taken = json!({ "group": "free", "held": true, "generation": 8 });
    assert_eq!(post("/v1/groups/free/takeover", r#"{"generation": 8}"#), (200, taken));
    for wrong in
        ["", "8", "{}", r#"{"generation": -1}"#, r#"{"generation": "8"}"#, r#"{"generation": 8, "x": 1}"#]
    {
        assert_eq!(post("/v1/groups/free/takeover", wrong).0, 400, "{wrong}");
    }
    let released = json!({ "group": "held", "held": false, "generation": null });
    assert_eq!(post("/v1/groups/held/release", ""), (200, released));
    for (method, path) in [("GET", "/v1/groups/held/release"), ("DELETE", "/v1/groups/held/takeover")] {
        assert_eq!(send(&router, method, path, &[], "").status, 405, "{method} {path}");
    }
}
