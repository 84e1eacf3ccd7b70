//! The admin API of the target, as the controller uses it.
//!
//! A procedure makes all its requests in one [`Call`], which has a time for all of them together. A change is made for a generation of the
//! configuration; if another one came between, it is decided anew. Changes of this driver take turns, as they would only be in each other's way.
//!
//! Holds: a target that is away or hangs is told within 10 s (`a_target_that_is_away_is_told_and_a_repeated_request_succeeds`).

use admin::{Client, Reply};
use serde_json::Value;
use std::fmt::Write;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tonic::Status;

/// The time of a procedure with the target.
const PATIENCE: Duration = Duration::from_secs(9);
/// The statuses of HTTP that mean something here.
const ACCEPTED: u16 = 202;
const NOT_FOUND: u16 = 404;
const STALE: u16 = 412;

/// A target.
#[derive(Debug)]
pub struct Target {
    client: Client,
    turn: Turn,
}

/// The right to change something, which one call has.
#[derive(Debug, Default)]
struct Turn {
    is_taken: Mutex<bool>,
    is_free: Condvar,
}

/// The requests of one procedure.
pub(crate) struct Call<'t> {
    target: &'t Target,
    until: Instant,
}

/// The configuration that a change is made for.
pub(crate) struct Document {
    /// Its generation.
    generation: String,
    /// Its devices.
    devices: Vec<Value>,
}

/// Why a change was not made.
pub(crate) enum Trouble {
    /// Another change came between: it is decided again.
    Again,
    /// The target refuses it.
    Refused(Status),
    /// Anything else.
    Other(Status),
}

impl From<Status> for Trouble {
    fn from(status: Status) -> Trouble {
        Trouble::Other(status)
    }
}

impl Target {
    /// The target of this client.
    pub fn new(client: Client) -> Target {
        Target { client, turn: Turn::default() }
    }

    /// Begins the requests of a procedure.
    pub(crate) fn call(&self) -> Call<'_> {
        Call { target: self, until: Instant::now() + PATIENCE }
    }
}

impl Call<'_> {
    /// Sends a request. Only answers that say something about what was asked are returned.
    fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Result<Reply, Status> {
        let left = self.left()?;
        let sent = self.target.client.clone().within(left).send(method, path, headers, body);
        let reply = sent.map_err(|error| Status::unavailable(error.to_string()))?;
        match reply.status {
            401 | 403 => Err(Status::failed_precondition(format!(
                "the target refuses the driver: {}; start the driver with the admin_token",
                said(&reply)
            ))),
            408 | 503 | 504 => Err(Status::unavailable(format!("{}; repeat it later", said(&reply)))),
            _ => Ok(reply),
        }
    }

    fn left(&self) -> Result<Duration, Status> {
        let left = self.until.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => {
                Err(Status::unavailable("the target has not answered in time; see gimbal ctl health there"))
            }
            false => Ok(left),
        }
    }

    /// A part of the configuration, or another answer; `None` if there is no such part.
    pub(crate) fn get(&self, path: &str) -> Result<Option<Value>, Status> {
        let reply = self.send("GET", path, &[], Vec::new())?;
        match reply.status {
            NOT_FOUND => Ok(None),
            _ if reply.is_success() => Ok(Some(reply.json())),
            _ => Err(refusal(&reply)),
        }
    }

    /// The configuration as it is now.
    pub(crate) fn document(&self) -> Result<Document, Status> {
        let reply = self.send("GET", "/v1/devices", &[], Vec::new())?;
        if !reply.is_success() {
            return Err(refusal(&reply));
        }
        let Value::Array(devices) = reply.json() else {
            return Err(Status::internal("the target has answered with no list of devices"));
        };
        let generation = reply.generation.ok_or_else(|| {
            Status::failed_precondition(
                "the target has no configuration file: start it with gimbal serve -c FILE",
            )
        })?;
        Ok(Document { generation, devices })
    }

    /// Has `decide` read and change the configuration, anew if another change came between.
    pub(crate) fn change<T>(
        &self,
        decide: impl Fn(&Call<'_>, &Document) -> Result<T, Trouble>,
    ) -> Result<T, Status> {
        self.take_turn()?;
        let _turn = Taken(&self.target.turn);
        loop {
            match decide(self, &self.document()?) {
                Ok(done) => return Ok(done),
                Err(Trouble::Again) => _ = self.left()?,
                Err(Trouble::Refused(status) | Trouble::Other(status)) => return Err(status),
            }
        }
    }

    fn take_turn(&self) -> Result<(), Status> {
        let turn = &self.target.turn;
        let is_taken = turn.is_taken.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = turn.is_free.wait_timeout_while(is_taken, self.left()?, |is_taken| *is_taken);
        let (mut is_taken, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() && *is_taken {
            return Err(Status::unavailable("earlier changes of the driver are not done yet; repeat it"));
        }
        *is_taken = true;
        Ok(())
    }

    /// Makes a change of one part: `PUT` of what must not be there, `PATCH`, or `DELETE`.
    pub(crate) fn write(
        &self,
        method: &str,
        path: &str,
        document: &Document,
        body: &Value,
    ) -> Result<(), Trouble> {
        let tag = format!("\"{}\"", document.generation);
        let mut headers = vec![("If-Match", tag.as_str()), ("Content-Type", "application/json")];
        if method == "PUT" {
            headers.push(("If-None-Match", "*"));
        }
        let reply = self.send(method, path, &headers, body.to_string().into_bytes())?;
        done(&reply)
    }

    /// Takes or deletes a snapshot, which is no part of the configuration.
    pub(crate) fn write_snapshot(&self, method: &str, path: &str, body: &Value) -> Result<(), Trouble> {
        done(&self.send(method, path, &[], body.to_string().into_bytes())?)
    }
}

impl Document {
    /// The names of the directories, and whether they may promise more than they have.
    pub(crate) fn pools(&self) -> impl Iterator<Item = (&str, bool)> {
        let pools = self.devices.iter().filter(|device| device["kind"] == "directory");
        pools.filter_map(|device| Some((device["name"].as_str()?, device["overcommit"] != "refuse")))
    }
}

/// The turn of a call, which ends with this.
struct Taken<'t>(&'t Turn);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.0.is_taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.is_free.notify_one();
    }
}

fn done(reply: &Reply) -> Result<(), Trouble> {
    match reply.status {
        STALE => Err(Trouble::Again),
        // The file has it, and something is left to do that the target completes by itself.
        ACCEPTED if reply.json()["generation"].is_string() => Ok(()),
        ACCEPTED => Err(Trouble::Other(Status::unavailable(
            "the target waits for an earlier change or for a device, and does this later; repeat it",
        ))),
        _ if reply.is_success() => Ok(()),
        _ => Err(Trouble::Refused(refusal(reply))),
    }
}

/// The status for a request that the target refuses.
fn refusal(reply: &Reply) -> Status {
    let said = said(reply);
    match reply.status {
        400 | 422 => Status::invalid_argument(said),
        NOT_FOUND => Status::not_found(said),
        507 => Status::resource_exhausted(said),
        _ => Status::failed_precondition(said),
    }
}

/// The reason in a refusal, with every problem.
fn said(reply: &Reply) -> String {
    let body = reply.json();
    let mut said = match body["detail"].as_str() {
        Some(detail) => format!("the target says: {detail}"),
        None => format!("the target answers with status {}", reply.status),
    };
    for problem in body["problems"].as_array().into_iter().flatten() {
        let text = |name: &str| problem[name].as_str().unwrap_or_default().to_owned();
        let _ = write!(said, "; {}: {}: {}", text("field"), text("what"), text("advice"));
    }
    said
}

/// A name as a word of a path (RFC 3986).
pub(crate) fn word(name: &str) -> String {
    let mut word = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => {
                word.push(byte.into());
            }
            _ => _ = write!(word, "%{byte:02X}"),
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_place_in_a_path() {
        assert_eq!(word("nqn.2014-08.org:uuid:1"), "nqn.2014-08.org:uuid:1");
        assert_eq!(word("../a?b#c é"), "..%2Fa%3Fb%23c%20%C3%A9");
    }
}
