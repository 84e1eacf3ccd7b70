//! `gimbal ctl drain`: takes the target out of use for maintenance, and says what hosts still have under way.

use super::{PENDING, Target};
use admin::Reply;
use clap::Subcommand;
use serde_json::Value;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};
use units::Nanos;

const PATH: &str = "/v1/drain";
/// Time between two questions.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Subcommand)]
pub(super) enum DrainAction {
    /// Let hosts use the target again
    End,
    /// Print what hosts still have under way
    Status,
}

impl Target {
    /// Drains the target. With `wait`, returns when no IO is left, or after that time.
    pub(super) fn drain(&self, wait: Option<Nanos>, action: Option<DrainAction>) -> anyhow::Result<ExitCode> {
        let method = match action {
            None => "POST",
            Some(DrainAction::End) => "DELETE",
            Some(DrainAction::Status) => "GET",
        };
        let deadline = wait.map(|wait| Instant::now() + Duration::from_nanos(wait.get()));
        let mut reply = self.client.send(method, PATH, &[], Vec::new())?;
        while reply.is_success() && is_busy(&reply) && deadline.is_some_and(|end| Instant::now() < end) {
            sleep(PAUSE);
            reply = self.client.send("GET", PATH, &[], Vec::new())?;
        }
        let code = self.show(&reply, left)?;
        Ok(if reply.is_success() && wait.is_some() && is_busy(&reply) {
            ExitCode::from(PENDING)
        } else {
            code
        })
    }
}

/// Whether IOs are left, or may be.
fn is_busy(reply: &Reply) -> bool {
    let body = reply.json();
    body["ios"] != 0 || body["not_answering"].as_array().is_some_and(|devices| !devices.is_empty())
}

/// A line for the target, one for each host, and one for each device that does not answer.
fn left(reply: &Reply) -> String {
    let body = reply.json();
    let state = if body["draining"] == true { "drained" } else { "in use" };
    let counts = |of: &Value| format!("{} connections, {} IOs", of["connections"], of["ios"]);
    let mut lines = vec![format!("{state}: {}", counts(&body))];
    for host in body["hosts"].as_array().into_iter().flatten() {
        lines.push(format!("{}: {}", host["host"].as_str().unwrap_or_default(), counts(host)));
    }
    for device in body["not_answering"].as_array().into_iter().flatten() {
        let device = device.as_str().unwrap_or_default();
        lines.push(format!("device {device} does not answer: its connections are not counted"));
    }
    lines.join("\n")
}
