//! An etcd cluster as metadata store, over its JSON gateway (HTTP/1.1, `/v3/...`, etcd 3.4 and newer).
//!
//! ```text
//!   check   compare MOD of the key with a revision; 0: the key does not exist
//!   commit  /v3/kv/txn      get, list  /v3/kv/range      lease  /v3/lease/grant, keepalive, revoke
//! ```
//!
//! Keys begin with `/gimbal/`, so that the cluster can be shared. Several endpoints may be given: if one does not
//! respond, the next is asked.
//!
//! ```text
//!   place    etcds://USER@HOST:PORT,…          files   password, CA, certificate: where they are
//!   gateway  a request and its failures        login   the user's token         tls   whom to trust
//! ```
//!
//! Holds: `tests/etcd.rs`, `tests/etcd_tls.rs`, `tests/etcd_user.rs`.

mod files;
mod gateway;
mod login;
mod place;
mod tls;

pub use files::EtcdFiles;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use blob::store::{Commit, Entry, LeaseId, Revision, Store, StoreError, Transaction};
use gateway::{Gateway, NotFound};
use place::Place;
use serde_json::{Value, json};
use units::Nanos;

/// The beginning of every key.
const PREFIX: &str = "/gimbal/";

/// An etcd cluster.
#[derive(Debug)]
pub struct Etcd {
    gateway: Gateway,
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
    /// A cluster by its name, `etcd[s]://[USER@]HOST:PORT[,HOST:PORT...]`. Sends no request yet.
    ///
    /// # Errors
    /// A description of the problem of the text, or of a file.
    pub fn open(text: &str, files: &EtcdFiles) -> Result<Etcd, String> {
        Ok(Etcd { gateway: Gateway::new(Place::parse(text)?, files)? })
    }

    /// Whether the text names an etcd cluster.
    pub(crate) fn is_meant(text: &str) -> bool {
        Place::is_meant(text)
    }

    fn call(&mut self, path: &str, request: &Value) -> Result<Result<Value, NotFound>, StoreError> {
        self.gateway.call(path, request)
    }

    fn range(&mut self, request: &Value) -> Result<Vec<Entry>, StoreError> {
        let answer = self.call("kv/range", request)?;
        let answer = answer.map_err(|NotFound(why)| StoreError::Unavailable(why))?;
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
            Err(NotFound(_)) => Err(StoreError::NoLease),
            Ok(answer) if answer["succeeded"].as_bool() == Some(true) => {
                Ok(Commit::Done(Revision(number(&answer["header"]["revision"])? as u64)))
            }
            Ok(_) => Ok(Commit::Conflict),
        }
    }

    fn grant(&mut self, ttl: Nanos) -> Result<LeaseId, StoreError> {
        let seconds = ttl.0.div_ceil(1_000_000_000).max(1).to_string();
        let answer = self.call("lease/grant", &json!({ "TTL": seconds }))?;
        let answer = answer.map_err(|NotFound(why)| StoreError::Unavailable(why))?;
        match number(&answer["ID"])? {
            0 => Err(damaged("a lease without a number")),
            id => Ok(LeaseId(id)),
        }
    }

    fn renew(&mut self, lease: LeaseId) -> Result<(), StoreError> {
        let answer = self.call("lease/keepalive", &json!({ "ID": lease.0.to_string() }))?;
        let answer = answer.map_err(|NotFound(_)| StoreError::NoLease)?;
        // An expired lease has no time left.
        if number(&answer["result"]["TTL"])? > 0 { Ok(()) } else { Err(StoreError::NoLease) }
    }

    fn revoke(&mut self, lease: LeaseId) -> Result<(), StoreError> {
        // A lease that does not exist has expired already.
        self.call("lease/revoke", &json!({ "ID": lease.0.to_string() })).map(drop)
    }
}
