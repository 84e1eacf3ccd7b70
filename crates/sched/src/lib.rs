//! Schedulers: which IO goes to the SSD next, and when.
//!
//! A [`Policy`] is one SSD's scheduler. It owns the queues of all tenants of that SSD and decides one question: which IO,
//! if any, may be submitted now? It sees neither wire nor device: IOs and completions come in as values, with the time as
//! an argument, and decisions go out.
//!
//! ```text
//!  on_arrival(io) ──► [ tenants' queues ] ──► next() = Submit(io) ──► SSD
//!                              ▲                                       │
//!        credit ◄── on_completion(done) ◄──────────────────────────────┘
//! ```
//!
//! One that measures the SSD may also answer `Extra`: a read of its own, which no tenant has asked for ([`ExtraRead`]).
#![no_std]

extern crate alloc;

mod bfq;
mod busy;
mod calibration;
mod client;
mod cost;
mod device;
mod drr;
mod extra_reads;
mod flashfq;
mod gimbal;
mod io;
mod io_cost;
mod kyber;
mod level;
mod lines;
mod marks;
mod mclock;
mod mq_deadline;
mod none;
mod objective;
mod papers_drive;
mod policy;
mod queues;
mod reflex;
mod registry;
mod requests;
mod spdk_qos;
mod station;
mod view;
#[cfg(test)]
mod withdrawals;

pub use bfq::{Bfq, BfqConfig};
pub use busy::{BusyDetector, BusyPeriod};
pub use calibration::{Calibration, CalibrationError};
pub use client::{
    ClientWindow, CreditWindow, Fixed, LatencySample, LocalQueue, PardaConfig, PardaWindow, VirtualView,
    VirtualViewKeeper, VmShares,
};
pub use cost::Cost;
pub use device::DeviceConstants;
pub use drr::RoundConfig;
pub use extra_reads::{ExtraRead, ExtraReads};
pub use flashfq::{Flashfq, FlashfqConfig, LinearCost};
pub use gimbal::{Gimbal, GimbalConfig, GimbalOrder, Halvings};
pub use io::{Done, Io, IoId, IoKind, Mark, Outcome, Priority};
pub use io_cost::{IoCost, IoCostConfig, IoCostQos, IoCostRates};
pub use kyber::{Kyber, KyberConfig};
pub use level::{
    CalibratedConfig, CostCurve, DeviceCosts, Fragmentation, InFlightLimits, Learnt, LearntPrice,
    LearntReads, Level, LevelCalibrated, ReadsPart, StateCosts,
};
pub use mclock::{Mclock, MclockConfig};
pub use mq_deadline::{MqDeadline, MqDeadlineConfig};
pub use none::Fifo;
pub use objective::{Admitted, Objective, Percentile, Refused, Slo};
pub use papers_drive::PapersDrive;
pub use policy::{Backlog, Credit, Next, Order, Policy, Share, Ticket};
pub use reflex::{Millitokens, ReadOnlyLoad, Reflex, ReflexConfig, SupplyPoint, TokenRate};
pub use registry::{Factory, Facts, Missing, Needs, Scheduler, Setup, SpdkQosConfig, Unconfigured};
pub use spdk_qos::SpdkQos;
pub use station::{Action, Reading, Station, Turn};
pub use view::{
    Congestion, MonitorView, ObjectiveState, ObjectiveView, PacingView, SsdView, TenantView,
    TimeInFlightView, Wait,
};

/// Random cases for a property.
#[cfg(test)]
fn random_cases(cases: u32) -> proptest::test_runner::Config {
    proptest::test_runner::Config { cases, failure_persistence: None, ..Default::default() }
}
