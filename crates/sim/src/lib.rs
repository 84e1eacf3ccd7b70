//! Simulates worlds in virtual time; a seed repeats a run exactly.
//!
//! A world has tenants with workloads, a network, the scheduler of one SSD, and the SSD model. The scheduler
//! is the same code as in the product; only network and flash are models. One seed determines everything, so
//! a failed run can be repeated.
//!
//! ```text
//!  workload ─► client window ─► network ─► Policy ─► SSD model
//!     ▲                                                  │
//!     └──────── credit ◄─ network ◄─ completion ◄────────┘
//! ```
//!
//! Checkers watch every run ([`checkers`]): nothing is lost or done twice, the order within a tenant's class
//! is kept, no more bytes leave than arrived, and nothing is left at the end.
//!
//! Reading order: [`world`] (the parts of a world), [`engine`] (the main loop), then the parts.

mod auxiliary;
pub mod checkers;
mod client;
mod drive;
mod engine;
mod followed;
mod host;
mod io_cost;
pub mod network;
mod queue;
pub mod random;
pub mod results;
pub mod workload;
pub mod world;

pub use auxiliary::AuxiliaryChoice;
pub use drive::Change;
pub use engine::{Disturbance, command, run, run_changing, run_disturbed, run_following, run_on, run_with};
pub use followed::ReadTime;
pub use io_cost::io_cost_model;
pub use network::Network;
pub use results::{Direction, Latencies, Point, Results, Tally, TenantResults, WindowPoint, Windows};
pub use workload::{Arrival, Bursts, Pattern, SizeMix, Workload};
pub use world::{ClientChoice, LatencyScope, PolicyChoice, TenantSpec, World};
