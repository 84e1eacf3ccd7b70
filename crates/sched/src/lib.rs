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

mod client;
mod cost;
mod flashfq;
mod gimbal;
mod io;
mod lines;
mod none;
mod policy;
mod reflex;
mod view;
#[cfg(test)]
mod withdrawals;

pub use client::{
    ClientWindow, CreditWindow, Fixed, LatencySample, LocalQueue, PardaConfig, PardaWindow, VirtualView,
    VirtualViewKeeper, VmShares,
};
pub use cost::Cost;
pub use flashfq::{Flashfq, FlashfqConfig, LinearCost};
pub use gimbal::{
    CostCurve, DeferredDeficit, DeviceConstants, DeviceCosts, Gimbal, GimbalConfig, Halvings, LeadAmong,
    RateGrowth, ReadOverflow, StateCosts, TokenSplit, Wear, WindowSizes, WriteCostRule,
};
pub use io::{Done, Io, IoId, IoKind, Mark, Outcome, Priority};
pub use none::Fifo;
pub use policy::{Backlog, Credit, Next, Objective, Policy, Share, Slo, Ticket};
pub use reflex::{Millitokens, ReadOnlyLoad, Reflex, ReflexConfig, Refused, SupplyPoint, TokenRate};
pub use view::{Congestion, MonitorView, SsdView, TenantView, WindowView};

/// Random cases for a property.
#[cfg(test)]
fn random_cases(cases: u32) -> proptest::test_runner::Config {
    proptest::test_runner::Config { cases, failure_persistence: None, ..Default::default() }
}
