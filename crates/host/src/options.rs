//! How a host wants its controllers: who it is, how many queues, how patient.

use crate::Backoff;
use nvme::spec::connect::HostId;
use nvme::spec::nqn::Nqn;
use std::net::SocketAddr;
use units::Nanos;

/// What to do with IOs that were out when their connection was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryPolicy {
    /// They fail; whoever asked decides.
    Never,
    /// They go out again on the next connection, at most so many times each. Reads, writes of the same data, flushes, write
    /// zeroes and deallocations may safely happen twice; a Compare may not have its answer changed by it either.
    Again {
        /// Losses that one IO survives.
        times: u32,
    },
}

/// One controller to connect to and keep connected.
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// Where the target listens.
    pub address: SocketAddr,
    /// The subsystem.
    pub subsystem: Nqn,
    /// Who we are: the target's tenant.
    pub host: Nqn,
    /// Which machine we are; stable, as reservations belong to it.
    pub host_id: HostId,
    /// IO queues, a connection each. The target may grant fewer.
    pub io_queues: u16,
    /// Commands per IO queue. The target may grant fewer.
    pub queue_depth: u16,
    /// IOs that may wait in the client beyond what is out; more are refused.
    pub waiting_max: usize,
    /// Protect PDU headers with CRC32C.
    pub header_digest: bool,
    /// Protect data with CRC32C.
    pub data_digest: bool,
    /// Ask for credits. A target that does not know them is used without.
    pub credits: bool,
    /// The keep-alive timeout; zero turns it off.
    pub keep_alive: Nanos,
    /// A connection (socket, handshake, bring-up) that takes longer counts as failed.
    pub connect_timeout: Nanos,
    /// An IO that takes longer shows that the connection is dead.
    pub io_timeout: Nanos,
    /// How patiently to connect again.
    pub backoff: Backoff,
    /// What happens to IOs when the connection is lost.
    pub retry: RetryPolicy,
    /// Seed of the jitter.
    pub seed: u64,
}

impl ControllerOptions {
    /// One IO queue of 128 commands, no digests, credits on, 5 s keep-alive, 30 s for an IO; IOs survive three losses.
    pub fn new(address: SocketAddr, subsystem: Nqn, host: Nqn, host_id: HostId) -> ControllerOptions {
        ControllerOptions {
            address,
            subsystem,
            host,
            host_id,
            io_queues: 1,
            queue_depth: 128,
            waiting_max: 65_536,
            header_digest: false,
            data_digest: false,
            credits: true,
            keep_alive: Nanos::secs(5),
            connect_timeout: Nanos::secs(3),
            io_timeout: Nanos::secs(30),
            backoff: Backoff::default(),
            retry: RetryPolicy::Again { times: 3 },
            seed: 0,
        }
    }
}
