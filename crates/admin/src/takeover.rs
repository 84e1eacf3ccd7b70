//! Takeover of groups whose devices are fenced.
//!
//! ```text
//!   GET     /v1/groups/NAME/takeover    {"group", "held", "generation"}
//!   POST    /v1/groups/NAME/takeover    takes it over: {"generation": N}; ?dry_run=true only asks
//!   POST    /v1/groups/NAME/release
//! ```
//!
//! A group that is held is in no document, so no If-Match is asked for.

use crate::order::OnGroup;
use crate::refusal::Refusal;
use serde_json::{Value, json};
use server::TakeoverError;

/// The state of a group: held with a generation, or not.
pub(crate) fn shown(group: &str, generation: Option<u64>) -> Value {
    json!({ "group": group, "held": generation.is_some(), "generation": generation })
}

/// The order that the body of a POST describes.
pub(crate) fn taking(group: &str, body: &[u8], dry_run: bool) -> Result<OnGroup, Refusal> {
    let wrong = || Refusal::new(400, "the body is not {\"generation\": NUMBER}");
    let body: Value = serde_json::from_slice(body).map_err(|_| wrong())?;
    let fields = body.as_object().filter(|fields| fields.len() == 1).ok_or_else(wrong)?;
    let generation = fields.get("generation").and_then(Value::as_u64).ok_or_else(wrong)?;
    Ok(OnGroup { group: group.to_owned(), takes_over: Some(generation), dry_run })
}

impl Refusal {
    /// The group is not taken over, for this reason.
    pub fn of_takeover(error: &TakeoverError) -> Refusal {
        let status = match error {
            TakeoverError::Generation(_) => 400,
            TakeoverError::NoGroup(_) => 404,
            TakeoverError::NotFenced(_) | TakeoverError::NotNewer { .. } | TakeoverError::Lost(_) => 409,
            TakeoverError::Device { .. } => 502,
        };
        Refusal::new(status, error.to_string())
    }
}
