//! Hosts that break the rules, by mistake or on purpose: what each gets, what the log says, what other hosts notice.
//!
//! | module | what they do |
//! |---|---|
//! | `silence` | say nothing, too little, or too slowly |
//! | `violations` | break the protocol |
//! | `bulk` | stop, leave or go wrong in the middle of a large write |
//! | `greed` | ask for more than they may have, or do not receive what they asked for |
//! | `crowds` | open many connections |
//! | `queues` | ask for more IO queues than there is room for |
//! | `reservations` | try to use reservations of others |
//! | `strangers` | invent names, to get connections and a share that belong to others |
//! | `impostors` | use the name of a named host, from elsewhere |
//! | `replies` | ask for replies that they never read |
//! | `neighbours` | all of this, seen by other hosts |
//!
//! `raw` is a host that sends any bytes; `log` reads the log lines about a peer. docs/hostile-hosts.md has the same list for operators.

mod bulk;
#[path = "../common/mod.rs"]
mod common;
mod crowds;
mod greed;
mod impostors;
mod log;
mod misbehaviour;
mod neighbours;
mod queues;
mod raw;
mod replies;
mod reservations;
mod silence;
mod strangers;
mod violations;

use common::{any_port, simple, start};
use sched::Scheduler;
use server::ServerHandle;
use server::config::{Config, DeviceKind, EmulatedConfig, Limits, Speed};
use units::Bytes;

/// A second host. Most tests use only the first one.
const OTHER: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000002";

/// A target with a device that completes at once.
fn null_with(limits: Limits) -> ServerHandle {
    log::capture();
    let device = DeviceKind::Null { size: Bytes::gib(1) };
    start(Config { limits, ..simple(device, any_port()) })
}

/// A target with an SSD so slow that the processor is never the limit.
fn slowed_with(speed_thousandths: u32, limits: Limits) -> ServerHandle {
    log::capture();
    let speed = Speed::from_thousandths(speed_thousandths).expect("above zero");
    let device = DeviceKind::Emulated(EmulatedConfig { speed, ..EmulatedConfig::new(Bytes::gib(1)) });
    let mut config = Config { limits, ..simple(device, any_port()) };
    // On an SSD so slow the default would learn for minutes; this one knows the SSD.
    config.devices[0].scheduler.policy = Scheduler::GIMBAL;
    start(config)
}
