//! Devices that fail: who hears of it, in which words, and who does not.
//!
//! Real targets with two SSDs, of which one is made to fail, and hosts that use both. Which IO must fail with what is said
//! by a naive model, or by the test in so many words.

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
