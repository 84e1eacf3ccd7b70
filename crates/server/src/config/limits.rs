//! Bounds on what hosts may make the target hold, and on how long they may keep it waiting.

use units::{ByteRate, Bytes, Nanos};

/// Bounds on what hosts may make the target hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// IO buffers of the whole target.
    pub memory: Bytes,
    /// IO buffers on behalf of one connection.
    pub memory_per_connection: Bytes,
    /// IO buffers on behalf of all connections of one host NQN; `None` is no more than the dynamic threshold of `account` lets it
    /// have. As `memory`, it is divided among the devices.
    pub memory_per_host: Option<Bytes>,
    /// What controllers say of themselves (log pages, Identify, reports) and hosts have not read yet. It is divided among the
    /// devices, and the discovery service has as much besides.
    pub reply_memory: Bytes,
    /// What one named host, or the unnamed hosts of one address, are told by controllers in a second, on each device.
    pub reply_rate: ByteRate,
    /// Connections (queues of all hosts together).
    pub connections: u32,
    /// Connections of one host NQN.
    pub connections_per_host: u32,
    /// Connections of all unnamed hosts of one address; `None` is twice as many as would still be free
    /// afterwards.
    pub connections_per_address: Option<u32>,
    /// Unnamed hosts of one address that have connections.
    pub hosts_per_address: u32,
    /// Connections to the discovery service, beyond the others.
    pub discovery_connections: u32,
    /// Of these, from one address.
    pub discovery_per_address: u32,
    /// Connections that have not said Connect, beyond the others.
    pub connections_waiting: u32,
    /// Entries of a submission queue.
    pub queue_depth: u16,
    /// IO queues of one controller.
    pub io_queues: u16,
    /// The largest transfer of one command (MDTS), a power of two of at least 4 KiB.
    pub transfer_max: Bytes,
    /// From accept to the end of the host's ICReq.
    pub handshake_timeout: Nanos,
    /// From ICReq to the end of Connect. Hosts connect all their queues before they say Connect on the first.
    pub connect_timeout: Nanos,
    /// How long a host may leave its replies unread, or its announced data unsent, before it is disconnected.
    pub stall_timeout: Nanos,
    /// How long a host may take for the data of one write, from the R2T to the last byte, whatever else it does meanwhile.
    pub transfer_timeout: Nanos,
    /// The longest keep-alive time-out (KATO) that a host may ask for.
    pub keep_alive_max: Nanos,
    /// How long an IO may be on a device before the device is reported to hang.
    pub hang_after: Nanos,
    /// How long the end of the target may take: what is not answered then is given up.
    pub drain_timeout: Nanos,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            memory: Bytes::mib(512),
            memory_per_connection: Bytes::mib(32),
            memory_per_host: None,
            reply_memory: Bytes::mib(16),
            reply_rate: ByteRate(16 << 20),
            connections: 1024,
            connections_per_host: 512,
            connections_per_address: None,
            hosts_per_address: 64,
            discovery_connections: 128,
            discovery_per_address: 16,
            connections_waiting: 1024,
            queue_depth: 1024,
            io_queues: 64,
            transfer_max: Bytes::mib(1),
            handshake_timeout: Nanos::secs(10),
            connect_timeout: Nanos::secs(30),
            stall_timeout: Nanos::secs(30),
            transfer_timeout: Nanos::secs(30),
            keep_alive_max: Nanos::secs(600),
            hang_after: Nanos::secs(10),
            drain_timeout: Nanos::secs(30),
        }
    }
}
