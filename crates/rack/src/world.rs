//! The simulated world. Together with its seed it determines all results.

use crate::neighbour::Work;
use blob::steer::Policy;
use sched::Share;
use sim::{ClientChoice, Network, PolicyChoice};
use ssd::Image;
use units::Nanos;
use ycsb::Workload;

/// Everything that a run depends on.
#[derive(Clone)]
pub struct World {
    /// Of the workloads.
    pub seed: u64,
    /// Each SSD at the start.
    pub image: Image,
    /// Targets: the two copies of everything lie on different ones.
    pub targets: u32,
    /// SSDs of each target.
    pub ssds: u32,
    /// The scheduler of each SSD.
    pub scheduler: PolicyChoice,
    /// Limit on the IOs that a client has outstanding.
    pub clients: ClientChoice,
    /// Which copy is read, and where new data goes.
    pub steering: Policy,
    /// Between clients and targets. There is no contention for it.
    pub network: Network,
    /// Databases, each with a client and a tenant of its own.
    pub databases: u32,
    /// Threads of each database: each does one operation after the other.
    pub threads: u32,
    /// Their work.
    pub workload: Workload,
    /// Settings of a database.
    pub options: lsm::Options,
    /// The databases' share of each SSD.
    pub share: Share,
    /// The log goes before reads, and these before compactions, within each database: as a volume says on the wire.
    pub has_classes: bool,
    /// Other tenants of the SSDs.
    pub neighbours: Vec<Work>,
    /// A write ends when it is in the client's buffer of the log, not when both copies of the log have it. The buffer is written by 128 KiB.
    pub is_log_buffered: bool,
    /// Not measured.
    pub warm_up: Nanos,
    /// Measured.
    pub duration: Nanos,
}
