//! `gimbal ctl connections`: the connections of hosts, one line each.

use super::{Target, encoded};
use crate::output;
use serde_json::Value;
use std::process::ExitCode;

impl Target {
    /// Prints all connections, or those of one host.
    pub(super) fn connections(&self, host: Option<&str>) -> anyhow::Result<ExitCode> {
        let host = host.map_or(String::new(), |host| format!("&host={}", encoded(host)));
        let mut from = 0;
        loop {
            let path = format!("/v1/connections?from={from}{host}");
            let reply = self.client.send("GET", &path, &[], Vec::new())?;
            if self.json || !reply.is_success() {
                return self.show(&reply, |reply| reply.body.clone());
            }
            let body = reply.json();
            let page = body["connections"].as_array().cloned().unwrap_or_default();
            page.iter().map(line).try_for_each(output::line)?;
            let Some(next) = body["next"].as_u64() else {
                for device in body["not_answering"].as_array().into_iter().flatten() {
                    let device = device.as_str().unwrap_or_default();
                    output::note(format_args!(
                        "gimbal: device {device} does not answer: its connections are missing"
                    ));
                }
                return Ok(ExitCode::SUCCESS);
            };
            from = next;
        }
    }
}

fn line(connection: &Value) -> String {
    let text = |field: &str| connection[field].as_str().unwrap_or("?").to_owned();
    let proofs = [("authenticated", "authenticated"), ("tls", "TLS")];
    let mut line = format!(
        "{} {} {} controller {} queue {} on {}, {} s, {} IOs",
        text("host"),
        text("peer"),
        text("subsystem"),
        connection["controller"],
        connection["queue"],
        text("thread"),
        connection["age_seconds"],
        connection["ios"],
    );
    let proved = proofs.iter().filter(|(field, _)| connection[field] == true);
    proved.for_each(|(_, word)| line.push_str(&format!(", {word}")));
    if connection["transport"] == "rdma" {
        line.push_str(", RDMA");
    }
    if connection["open"] == false {
        line.push_str(", ended");
    }
    line
}
