//! Whole worlds in virtual time, replayed by seed.
//!
//! A world is tenants with workloads, a network, one SSD's scheduler and the SSD model. The scheduler is the very code
//! that the product runs; only the wire and the flash are stand-ins. One seed decides everything, so a run that went wrong
//! can be had again.
//!
//! ```text
//!  workload ─► client window ─► network ─► Policy ─► SSD model
//!     ▲                                                  │
//!     └──────── credit ◄─ network ◄─ completion ◄────────┘
//! ```
//!
//! Checkers watch every run ([`checkers`]): nothing is lost or done twice, order is kept within a tenant's class, no more
//! bytes leave than came in, and when all is over nothing is left behind.
//!
//! Reading order: [`world`] (what is simulated), [`engine`] (the loop), then the parts.

pub mod checkers;
mod client;
mod engine;
mod host;
pub mod network;
mod queue;
pub mod random;
pub mod results;
pub mod workload;
pub mod world;

pub use engine::{run, run_on, run_with};
pub use network::Network;
pub use results::{Direction, Latencies, Point, Results, Tally, TenantResults, WindowPoint, Windows};
pub use workload::{Arrival, Pattern, SizeMix, Workload};
pub use world::{ClientChoice, LatencyScope, PolicyChoice, TenantSpec, World};
