//! Hosts that break the rules, by mistake or on purpose: what each gets, what the log says, what the others notice.
//!
//! | module | what they do |
//! |---|---|
//! | `silence` | say nothing, too little, or too slowly |
//! | `violations` | break the protocol |
//! | `greed` | ask for more than they may have, or do not take what they asked for |
//! | `crowds` | come in numbers |
//! | `reservations` | reach for others' reservations |
//! | `strangers` | make up names, and take the places and the share of those who have one |
//! | `replies` | have the target tell them what they never read |
//! | `neighbours` | all of it, seen from the others |
//!
//! `raw` is a host that sends whatever it is told to; `log` reads what the target wrote about a peer. docs/hostile-hosts.md has
//! the same list for operators.

#[path = "../common/mod.rs"]
mod common;
mod crowds;
mod greed;
mod log;
mod misbehaviour;
mod neighbours;
mod raw;
mod replies;
mod reservations;
mod silence;
mod strangers;
mod violations;

use common::{any_port, start};
use target::ServerHandle;
use target::config::{Config, DeviceKind, EmulatedConfig, Limits, Speed};
use units::Bytes;

/// A host other than the one most tests use.
const OTHER: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000002";

/// A target with a device that is done at once.
fn null_with(limits: Limits) -> ServerHandle {
    log::capture();
    let device = DeviceKind::Null { size: Bytes::gib(1) };
    start(Config { limits, ..Config::simple(device, any_port()) })
}

/// A target with an SSD so slow that the processor is never what limits.
fn slowed_with(speed_thousandths: u32, limits: Limits) -> ServerHandle {
    log::capture();
    let speed = Speed::from_thousandths(speed_thousandths).expect("above zero");
    let device = DeviceKind::Emulated(EmulatedConfig { speed, ..EmulatedConfig::new(Bytes::gib(1)) });
    start(Config { limits, ..Config::simple(device, any_port()) })
}
