//! PARDA: hosts that share an SSD without any help from it, by watching its latency.
//!
//! ```text
//!  VMs ──► local_queue: which IO is next ──► window: may another go? ──► SSD (first in, first out)
//!   │ number outstanding                       ▲ w(t)          │ latency of each IO
//!   └──► shares: β ────────────────────────────┤               ▼
//!                                              └── L(t) ◄── latency: the samples of all hosts together
//! ```
//!
//! Once in a period each host publishes its sample, takes in the sum of all hosts' samples, and sets its window. Everything is
//! a plain value; the medium between the hosts is the caller's.
//!
//! Paper: PARDA (Gulati, Ahmad, Waldspurger, FAST 2009) §3.

mod config;
mod latency;
mod shares;
mod window;

pub use config::{Fixed, PardaConfig};
pub use latency::LatencySample;
pub use shares::VmShares;
pub use window::PardaWindow;
