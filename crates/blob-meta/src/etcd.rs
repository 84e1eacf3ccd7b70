//! An etcd cluster as metadata store, over its JSON gateway (HTTP/1.1, `/v3/...`, etcd 3.4 and newer).
//!
//! ```text
//!   check   compare MOD of the key with a revision; 0: the key does not exist
//!   commit  /v3/kv/txn      get, list  /v3/kv/range      lease  /v3/lease/grant, keepalive, revoke
//! ```
//!
//! Keys begin with `/gimbal/`, so that the cluster can be shared. Several endpoints may be given: if one does not
//! respond, the next is asked. Only plain HTTP; where that is not safe, put a local proxy in front.
//!
//! Holds: `tests/etcd.rs`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use blob::store::{Commit, Entry, LeaseId, Revision, Store, StoreError, Transaction};
use serde_json::{Value, json};
use std::time::Duration;
use units::Nanos;
use ureq::Agent;

const PREFIX: &str = "/gimbal/";
/// Time without a response after which an endpoint counts as unreachable.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum length of a response, in bytes.
const ANSWER_MAX: u64 = 256 << 20;
/// gRPC's NOT_FOUND.
const NOT_FOUND: u64 = 5;

/// An etcd cluster.
#[derive(Debug)]
pub struct Etcd {
    agent: Agent,
    endpoints: Vec<String>,
    /// The endpoint that responded last.
    current: usize,
}

/// An error response of a kind that other endpoints would give as well.
struct Refused {
    code: u64,
    message: String,
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

fn full_key(key: &str) -> String {
    encode(format!("{PREFIX}{key}"))
}

fn damaged(what: &str) -> StoreError {
    StoreError::Unavailable(format!("etcd gave an answer that cannot be understood: {what}"))
}

/// 64-bit numbers are texts in JSON; absent ones are zero.
fn number(value: &Value) -> Result<i64, StoreError> {
    match value {
        Value::Null => Ok(0),
        Value::String(text) => text.parse().map_err(|_| damaged(text)),
        Value::Number(number) => number.as_i64().ok_or_else(|| damaged("a number")),
        _ => Err(damaged("a number")),
    }
}

fn bytes(value: &Value) -> Result<Vec<u8>, StoreError> {
    STANDARD.decode(value.as_str().unwrap_or("")).map_err(|_| damaged("base64"))
}

impl Etcd {
    /// A cluster by its endpoints, `HOST:PORT[,HOST:PORT...]`.
    ///
    /// # Errors
    /// A description of the problem of the text.
    pub fn new(endpoints: &str) -> Result<Etcd, String> {
        let endpoints: Vec<String> =
            endpoints.split(',').map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned).collect();
        if endpoints.is_empty() || endpoints.iter().any(|text| !text.contains(':') || text.contains('/')) {
            return Err("etcd endpoints are written as HOST:PORT[,HOST:PORT...]".to_owned());
        }
        let config = Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            .proxy(None)
            .build();
        Ok(Etcd { agent: config.into(), endpoints, current: 0 })
    }

    fn call(&mut self, path: &str, request: &Value) -> Result<Result<Value, Refused>, StoreError> {
        let mut reasons = Vec::new();
        for step in 0..self.endpoints.len() {
            let index = (self.current + step) % self.endpoints.len();
            match self.call_one(&self.endpoints[index], path, request) {
                Ok(answer) => {
                    self.current = index;
                    return Ok(answer);
                }
                Err(reason) => reasons.push(format!("{}: {reason}", self.endpoints[index])),
            }
        }
        Err(StoreError::Unavailable(reasons.join("; ")))
    }

    fn call_one(
        &self,
        endpoint: &str,
        path: &str,
        request: &Value,
    ) -> Result<Result<Value, Refused>, String> {
        let url = format!("http://{endpoint}/v3/{path}");
        let sent = self.agent.post(&url).content_type("application/json").send(request.to_string());
        let mut response = sent.map_err(|error| error.to_string())?;
        let status = response.status();
        let body = response.body_mut().with_config().limit(ANSWER_MAX).read_to_string();
        let body = body.map_err(|error| error.to_string())?;
        let answer: Value = serde_json::from_str(&body).map_err(|_| format!("{status}: not JSON"))?;
        if status.is_success() && answer.get("error").is_none() {
            return Ok(Ok(answer));
        }
        // The response of a streaming call contains its error.
        let error = if answer["error"].is_object() { &answer["error"] } else { &answer };
        let code = error["code"].as_u64().or_else(|| error["grpc_code"].as_u64()).unwrap_or(0);
        let message =
            error["message"].as_str().or_else(|| error["error"].as_str()).unwrap_or("no reason given");
        if code == NOT_FOUND {
            return Ok(Err(Refused { code, message: message.to_owned() }));
        }
        Err(format!("{status}: {message}"))
    }

    fn range(&mut self, request: &Value) -> Result<Vec<Entry>, StoreError> {
        let answer = self.call("kv/range", request)?;
        let answer = answer.map_err(|refused| StoreError::Unavailable(refused.message))?;
        let all = answer["kvs"].as_array().map_or(&[][..], Vec::as_slice);
        all.iter()
            .map(|found| {
                let key = String::from_utf8(bytes(&found["key"])?).map_err(|_| damaged("a key"))?;
                let key = key.strip_prefix(PREFIX).ok_or_else(|| damaged("a key"))?.to_owned();
                let revision = Revision(number(&found["mod_revision"])? as u64);
                Ok(Entry { key, value: bytes(&found["value"])?, revision })
            })
            .collect()
    }
}

impl Store for Etcd {
    fn get(&mut self, key: &str) -> Result<Option<Entry>, StoreError> {
        Ok(self.range(&json!({ "key": full_key(key) }))?.pop())
    }

    fn list(&mut self, prefix: &str) -> Result<Vec<Entry>, StoreError> {
        let first = format!("{PREFIX}{prefix}").into_bytes();
        // The range ends before the next text without the prefix.
        let mut end = first.clone();
        *end.last_mut().expect("the prefix is not empty") += 1;
        let request = json!({
            "key": encode(first),
            "range_end": encode(end),
            "sort_order": "ASCEND",
            "sort_target": "KEY",
        });
        self.range(&request)
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<Commit, StoreError> {
        let compare: Vec<Value> = transaction
            .checks
            .iter()
            .map(|check| {
                let revision = check.revision.0.to_string();
                json!({ "key": full_key(&check.key), "target": "MOD", "result": "EQUAL", "mod_revision": revision })
            })
            .collect();
        let success: Vec<Value> = transaction
            .writes
            .iter()
            .map(|write| match &write.value {
                None => json!({ "request_delete_range": { "key": full_key(&write.key) } }),
                Some(bytes) => {
                    let lease = write.lease.map_or(0, |lease| lease.0).to_string();
                    json!({ "request_put": { "key": full_key(&write.key), "value": encode(bytes), "lease": lease } })
                }
            })
            .collect();
        let request = json!({ "compare": compare, "success": success });
        match self.call("kv/txn", &request)? {
            Err(Refused { code: NOT_FOUND, .. }) => Err(StoreError::NoLease),
            Err(refused) => Err(StoreError::Unavailable(refused.message)),
            Ok(answer) if answer["succeeded"].as_bool() == Some(true) => {
                Ok(Commit::Done(Revision(number(&answer["header"]["revision"])? as u64)))
            }
            Ok(_) => Ok(Commit::Conflict),
        }
    }

    fn grant(&mut self, ttl: Nanos) -> Result<LeaseId, StoreError> {
        let seconds = ttl.0.div_ceil(1_000_000_000).max(1).to_string();
        let answer = self.call("lease/grant", &json!({ "TTL": seconds }))?;
        let answer = answer.map_err(|refused| StoreError::Unavailable(refused.message))?;
        match number(&answer["ID"])? {
            0 => Err(damaged("a lease without a number")),
            id => Ok(LeaseId(id)),
        }
    }

    fn renew(&mut self, lease: LeaseId) -> Result<(), StoreError> {
        let answer = self.call("lease/keepalive", &json!({ "ID": lease.0.to_string() }))?;
        let answer = answer.map_err(|_| StoreError::NoLease)?;
        // An expired lease has no time left.
        if number(&answer["result"]["TTL"])? > 0 { Ok(()) } else { Err(StoreError::NoLease) }
    }

    fn revoke(&mut self, lease: LeaseId) -> Result<(), StoreError> {
        // A lease that does not exist has expired already.
        self.call("lease/revoke", &json!({ "ID": lease.0.to_string() })).map(drop)
    }
}
