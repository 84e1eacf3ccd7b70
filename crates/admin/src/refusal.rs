//! Why a request is refused, as RFC 9457 has it (`application/problem+json`).

use serde_json::{Value, json};
use server::config::{ConfigError, Problem};

/// A refusal: the status of HTTP, the reason, and for a wrong configuration all its problems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status of HTTP.
    pub status: u16,
    /// The reason, with advice.
    pub detail: String,
    /// Every problem of a configuration.
    pub problems: Vec<Problem>,
}

impl Refusal {
    /// A refusal without problems of a configuration.
    pub fn new(status: u16, detail: impl Into<String>) -> Refusal {
        Refusal { status, detail: detail.into(), problems: Vec::new() }
    }

    /// The configuration is wrong.
    pub fn of_config(error: ConfigError) -> Refusal {
        match error {
            ConfigError::Wrong { problems, .. } => {
                let detail = "the configuration is refused, and nothing has changed".to_owned();
                Refusal { status: 422, detail, problems }
            }
            error @ ConfigError::Unreadable { .. } => Refusal::new(409, error.to_string()),
        }
    }

    /// The body of the answer.
    pub(crate) fn to_json(&self) -> Value {
        let title = axum::http::StatusCode::from_u16(self.status)
            .ok()
            .and_then(|status| status.canonical_reason())
            .unwrap_or("Refused");
        let problem = |problem: &Problem| json!({ "field": problem.field, "line": problem.line, "what": problem.what, "advice": problem.advice });
        let problems: Vec<Value> = self.problems.iter().map(problem).collect();
        json!({ "type": "about:blank", "title": title, "status": self.status, "detail": self.detail, "problems": problems })
    }
}
