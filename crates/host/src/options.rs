//! Options of a host for its controllers: identity, number of queues, timeouts.

use crate::fault::Fault;
use crate::{Backoff, Keys};
use nvme::spec::connect::HostId;
use nvme::spec::discovery::TransportType;
use nvme::spec::nqn::Nqn;
use std::net::SocketAddr;
use units::Nanos;

/// Treatment of IOs that are outstanding when their connection is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryPolicy {
    /// They fail; the caller decides what to do.
    Never,
    /// They are sent again on the next connection, a limited number of times each. A read, a write of the
    /// same data, a Flush, a Write Zeroes or a deallocation may safely happen twice. A Compare that is sent
    /// twice also gives the same answer. A change of a reservation is never sent twice.
    Again {
        /// Number of losses that one IO survives.
        times: u32,
    },
}

/// One controller to connect to and keep connected.
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// Address of the target.
    pub address: SocketAddr,
    /// The transport by which it is reached there.
    pub transport: TransportType,
    /// The subsystem.
    pub subsystem: Nqn,
    /// This host's NQN: the tenant, for the target.
    pub host: Nqn,
    /// This host's identifier. It must stay the same, because reservations belong to it.
    pub host_id: HostId,
    /// IO queues, each with its own connection. The target may grant fewer.
    pub io_queues: u16,
    /// Commands per IO queue. The target may grant fewer.
    pub queue_depth: u16,
    /// IOs that may wait in the client, in addition to those outstanding. More are refused.
    pub waiting_max: usize,
    /// Protect PDU headers with CRC32C.
    pub header_digest: bool,
    /// Protect data with CRC32C.
    pub data_digest: bool,
    /// Request credits. A target that does not support them is used without.
    pub credits: bool,
    /// The keep-alive timeout; zero turns it off.
    pub keep_alive: Nanos,
    /// A connection attempt (socket, handshake, bring-up) that takes longer has failed.
    pub connect_timeout: Nanos,
    /// If an IO takes longer, the connection is considered dead.
    pub io_timeout: Nanos,
    /// Timing of reconnects.
    pub backoff: Backoff,
    /// Treatment of outstanding IOs when the connection is lost.
    pub retry: RetryPolicy,
    /// The keys by which this host and the controller prove themselves.
    pub keys: Keys,
    /// Seed of the jitter.
    pub seed: u64,
}

impl ControllerOptions {
    /// NVMe/TCP, one IO queue of 128 commands, no digests, credits on, 5 s keep-alive, 30 s IO timeout; IOs survive
    /// three losses.
    pub fn new(address: SocketAddr, subsystem: Nqn, host: Nqn, host_id: HostId) -> ControllerOptions {
        ControllerOptions {
            address,
            transport: TransportType::Tcp,
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
            keys: Keys::default(),
            seed: 0,
        }
    }

    /// Reports options that the transport has no use for.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        match self.transport {
            TransportType::Tcp => Ok(()),
            TransportType::Rdma if self.header_digest || self.data_digest => Err(Fault::NotByRdma("digests")),
            TransportType::Rdma if self.keys.tls.is_some() || self.keys.concatenates() => {
                Err(Fault::NotByRdma("TLS"))
            }
            TransportType::Rdma => Ok(()),
        }
    }
}
