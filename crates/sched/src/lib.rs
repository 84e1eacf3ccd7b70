//! Who goes to the SSD next, and when.
//!
//! A [`Policy`] is one SSD's scheduler. It owns the queues of all tenants of that SSD and answers one question: which IO,
//! if any, may be submitted now? It sees neither wire nor device: IOs and completions come in as values, with the time as
//! an argument, and decisions go out.
//!
//! ```text
//!  on_arrival(io) ──► [ tenants' queues ] ──► next() = Submit(io) ──► SSD
//!                              ▲                                       │
//!        credit ◄── on_completion(done) ◄──────────────────────────────┘
//! ```
#![no_std]

extern crate alloc;

mod calibration;
mod client;
mod cost;
mod device;
mod drr;
mod flashfq;
mod gimbal;
mod gimbal_fair;
mod io;
mod level;
mod lines;
mod none;
mod policy;
mod reflex;
mod view;
#[cfg(test)]
mod withdrawals;

pub use calibration::{Calibration, CalibrationError};
pub use client::{
    ClientWindow, CreditWindow, Fixed, LatencySample, LocalQueue, PardaConfig, PardaWindow, VirtualView,
    VirtualViewKeeper, VmShares,
};
pub use cost::Cost;
pub use device::DeviceConstants;
pub use drr::RoundConfig;
pub use flashfq::{Flashfq, FlashfqConfig, LinearCost};
pub use gimbal::{Gimbal, GimbalConfig, Halvings, WriteCostRule};
pub use gimbal_fair::{GimbalFair, GimbalFairConfig};
pub use io::{Done, Io, IoId, IoKind, Mark, Outcome, Priority};
pub use level::{
    CostCurve, DeviceCosts, Fragmentation, InFlightLimits, Level, LevelConfig, LevelLearned, StateCosts,
};
pub use none::Fifo;
pub use policy::{Backlog, Credit, Next, Objective, Policy, Share, Slo, Ticket};
pub use reflex::{Millitokens, ReadOnlyLoad, Reflex, ReflexConfig, Refused, SupplyPoint, TokenRate};
pub use view::{Congestion, MonitorView, PacingView, SsdView, TenantView, TimeInFlightView};

/// The new name of a scheduler that had this name before.
pub fn renamed(name: &str) -> Option<&'static str> {
    match name {
        "gimbal-paper" => Some("gimbal"),
        "gimbal-next" => Some("level"),
        _ => None,
    }
}

/// Random cases for a property.
#[cfg(test)]
fn random_cases(cases: u32) -> proptest::test_runner::Config {
    proptest::test_runner::Config { cases, failure_persistence: None, ..Default::default() }
}
