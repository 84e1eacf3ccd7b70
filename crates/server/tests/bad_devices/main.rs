//! Devices that fail: which hosts see errors, with which status, and which hosts see none.
//!
//! Real targets have two SSDs, one of them faulty; hosts use both. A naive model, or the test itself, says which IO must fail.

#[path = "../common/mod.rs"]
mod common;

mod bed;
mod endings;
mod errors;
mod flushes;
mod ghosts;
mod hangs;
mod statuses;
mod torn;
mod volatile;
