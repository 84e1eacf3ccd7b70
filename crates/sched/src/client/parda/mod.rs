//! PARDA: hosts that share an SSD without any help from it, by watching its latency.

mod config;

pub use config::{Fixed, PardaConfig};
