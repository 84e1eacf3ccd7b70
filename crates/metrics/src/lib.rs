//! One table of everything that a target measures ([`table`]), and its forms: text and protobuf for Prometheus ([`text`], [`protobuf`]), JSON for programs ([`json`]).
//!
//! Each row has a name, a unit, a kind, labels, a line of help, and how its values are found in [`server::Stats`]. The metrics, `/v1/stats`, `gimbal top`, the
//! dashboard and docs/metrics.md come from the rows: none of them knows a number that the others do not.
//!
//! Elsewhere: `shown` chooses the tenants that have series of their own; `lately` makes the events of `/v1/events`.

mod families;
mod json;
mod lately;
mod protobuf;
mod shown;
pub mod table;
mod text;

pub use json::{identity, json};
pub use lately::Lately;
pub use protobuf::{PROTOBUF_KIND, protobuf};
pub use shown::{Shown, Tenants};
pub use text::{TEXT_KIND, text};
