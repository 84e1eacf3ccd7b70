//! Bounds on what hosts may make the target hold, and on how long they may keep it waiting.
//!
//! [`FIELDS`] is the table of them: reader, check, list of changes, reload, writer and the reference in the docs use its rows.

use super::schema::{Field, field};
use units::{ByteRate, Bytes, Nanos};

/// The least amount of replies: what one connection may hold of them on a device; also the least of a second.
pub(super) const REPLIES_LEAST: Bytes = Bytes::kib(64);
/// The shortest time-out: some are looked after several times while they run, which would take all of a processor.
const SPAN_MIN: u64 = Nanos::millis(1).get();
/// The most unnamed hosts of one address: each has a whole part of its weight.
const HOSTS_PER_ADDRESS_MAX: u64 = 1024;
/// The most failed proofs of an address in a minute that are not delayed.
const AUTH_FAILURES_MAX: u64 = 6000;

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
    /// Memory for replies of controllers (log pages, Identify, reports) that hosts have not read yet. It is divided among the
    /// devices, and the discovery service has as much besides.
    pub reply_memory: Bytes,
    /// Rate of replies of controllers to one named host, or to the unnamed hosts of one address, on each device.
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
    /// From Connect to the end of the proof, for hosts that have to prove who they are.
    pub auth_timeout: Nanos,
    /// Proofs of one address that fail, or are not finished, in a minute, before its new connections are delayed.
    pub auth_failures_per_minute: u32,
    /// Longest time that a host may leave its replies unread, or its announced data unsent, before it is disconnected.
    pub stall_timeout: Nanos,
    /// Longest time for the data of one write, from the R2T to the last byte, whatever else the host does meanwhile.
    pub transfer_timeout: Nanos,
    /// The longest keep-alive time-out (KATO) that a host may ask for.
    pub keep_alive_max: Nanos,
    /// Longest time of an IO on a device before the device is reported to hang.
    pub hang_after: Nanos,
    /// Longest time for the end of the target: commands that are not answered by then are dropped.
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
            auth_timeout: Nanos::secs(10),
            auth_failures_per_minute: 20,
            stall_timeout: Nanos::secs(30),
            transfer_timeout: Nanos::secs(30),
            keep_alive_max: Nanos::secs(600),
            hang_after: Nanos::secs(10),
            drain_timeout: Nanos::secs(30),
        }
    }
}

/// The fields of `[limits]`, in the order of the reference.
pub const FIELDS: &[Field<Limits>] = &[
    field!(Limits, memory, "IO buffers of all connections"),
    field!(Limits, memory_per_connection, "IO buffers of one connection"),
    field!(Limits, memory_per_host, "IO buffers of all connections of one host NQN")
        .absent("by what is free"),
    field!(Limits, reply_memory, "log pages, Identify data and reports that hosts have not read yet"),
    field!(Limits, reply_rate, "the rate of these to one named host, or to all unnamed hosts of an address")
        .least(
            REPLIES_LEAST.get(),
            "is too slow to connect within the time-outs of hosts",
            "write at least \"64K\"",
        ),
    field!(
        Limits,
        connections,
        "queues of all hosts; half of them are kept for named hosts, if there are any"
    )
    .least(1, "zero lets no host in", "write 1 or more"),
    field!(Limits, connections_per_host, "queues of one host NQN").least(
        1,
        "zero lets no host in",
        "write 1 or more",
    ),
    field!(Limits, connections_per_address, "queues of all unnamed hosts of one address")
        .least(1, "zero lets no host in", "write 1 or more")
        .absent("by what is free"),
    field!(Limits, hosts_per_address, "unnamed host NQNs of one address; together they have one weight")
        .least(1, "zero lets no host in", "write 1 or more")
        .most(
            HOSTS_PER_ADDRESS_MAX,
            "{} hosts cannot share the weight of one address",
            "write at most 1024, or name them in [[tenant]]",
        ),
    field!(
        Limits,
        discovery_connections,
        "connections to the discovery service, in addition to `connections`"
    )
    .least(1, "zero lets no host in", "write 1 or more"),
    field!(Limits, discovery_per_address, "discovery connections of one address").least(
        1,
        "zero lets no host in",
        "write 1 or more",
    ),
    field!(
        Limits,
        connections_waiting,
        "connections that have not sent Connect, in addition to `connections`"
    )
    .least(1, "zero lets no host in", "write 1 or more"),
    field!(Limits, queue_depth, "entries of a submission queue").at_start().least(
        2,
        "a queue of {} entries cannot work",
        "write 2 or more",
    ),
    field!(Limits, io_queues, "IO queues of one controller").at_start().least(
        1,
        "zero leaves no queue for IO",
        "write 1 or more",
    ),
    field!(Limits, transfer_max, "the largest transfer of one command (MDTS), a power of two").at_start(),
    field!(Limits, handshake_timeout, "time from accept to the end of ICReq").least(
        SPAN_MIN,
        "{} disconnects everybody at once",
        "write a span such as \"10s\"",
    ),
    field!(Limits, connect_timeout, "time from ICReq to the end of Connect").least(
        SPAN_MIN,
        "{} disconnects everybody at once",
        "write a span such as \"10s\"",
    ),
    field!(Limits, auth_timeout, "time from Connect to the end of the proof that a host with a key has to give").least(
        SPAN_MIN,
        "{} disconnects everybody at once",
        "write a span such as \"10s\"",
    ),
    field!(
        Limits,
        auth_failures_per_minute,
        "proofs of one address that may fail or stay unfinished; beyond it, its new connections are delayed by up to 10 s"
    )
    .least(1, "zero would delay every host", "write 1 or more")
    .most(AUTH_FAILURES_MAX, "{} in a minute are an attack, not a mistake", "write at most 6000"),
    field!(
        Limits,
        stall_timeout,
        "time that a host may leave its replies unread, or its announced data unsent"
    )
    .least(SPAN_MIN, "{} disconnects everybody at once", "write a span such as \"10s\""),
    field!(Limits, transfer_timeout, "time for the data of one write, even if the host sends other commands")
        .least(SPAN_MIN, "{} disconnects everybody at once", "write a span such as \"10s\""),
    field!(
        Limits,
        keep_alive_max,
        "the longest keep-alive time-out (KATO) that a host may ask for; 0 (none) is allowed"
    )
    .least(SPAN_MIN, "{} disconnects everybody at once", "write a span such as \"10s\""),
    field!(Limits, hang_after, "an IO on the device for longer than this is reported: the device hangs")
        .least(SPAN_MIN, "{} is shorter than many an IO", "write a span such as \"10s\""),
    field!(Limits, drain_timeout, "time for an orderly stop; IOs without an answer are then given up"),
];
