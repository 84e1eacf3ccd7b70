//! Why a run did not start or did not end well: what happened, to what, what to do.

use host::{ConnectError, DiscoverError, NqnError, Refusal};
use std::io;
use std::net::SocketAddr;
use units::Bytes;

/// Why a run did not start, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The discovery log could not be read.
    #[error("{0}")]
    Discover(DiscoverError),
    /// The discovery log has no subsystem.
    #[error(
        "the target at {0} lists no subsystem for this host; give one with --nqn, or check the target's configuration"
    )]
    NoSubsystem(SocketAddr),
    /// The only subsystem is reached with TLS only, and there is no key.
    #[error(
        "{1} at {0} is reached with TLS only: give the key of the host with --tls-key-file, and its NQN with --hostnqn"
    )]
    NeedsTls(SocketAddr, String),
    /// The discovery log has more than one subsystem: their NQNs, and which need TLS.
    #[error("the target at {0} has several subsystems; choose one with --nqn:\n  {names}", names = .1.join("\n  "))]
    SeveralSubsystems(SocketAddr, Vec<String>),
    /// A name is not an NQN.
    #[error("`{0}` is not an NQN: {1}")]
    Nqn(String, NqnError),
    /// No controller can be connected.
    #[error("{0}")]
    Connect(Box<ConnectError>),
    /// The subsystem has no such namespace: job, wanted, present.
    #[error("job {0}: the subsystem has no namespace{lacking}", lacking = lacking(*.1, .2))]
    Namespace(String, Option<u32>, Vec<u32>),
    /// `bs` or `offset` is not a multiple of the namespace's blocks: job, block size.
    #[error("job {0}: bs and offset must be multiples of the namespace's block size of {1}")]
    BlockSize(String, Bytes),
    /// `offset_increment` is not a multiple of the common divisor of the sizes: job, divisor.
    #[error("job {0}: offset_increment must be a multiple of {1}, the common divisor of bs")]
    Increment(String, Bytes),
    /// `bs` is larger than one command may move: job, limit.
    #[error("job {0}: bs is larger than the {1} that one command of this controller may move")]
    Transfer(String, Bytes),
    /// The region is not within the namespace: job, size of the namespace.
    #[error("job {0}: offset and size do not fit into the namespace of {1}")]
    Region(String, Bytes),
    /// The initiator refuses an IO: job, why.
    #[error("job {0}: an IO was refused: {1}")]
    Refused(String, Refusal),
    /// There is not enough memory for the buffers and the maps of random blocks.
    #[error(
        "the jobs need {needed} of memory for their buffers and for what they remember of random blocks, and there are {available}; \
         use fewer connections (numjobs), a smaller iodepth, bs or size, or norandommap"
    )]
    Memory {
        /// The memory that the jobs need.
        needed: Bytes,
        /// The memory that is available.
        available: Bytes,
    },
    /// A system call of this machine failed.
    #[error("cannot generate load on this machine: {0}")]
    Io(io::Error),
}

/// Which namespace is wanted, and which there are.
fn lacking(wanted: Option<u32>, present: &[u32]) -> String {
    wanted.map_or(String::new(), |nsid| format!(" {nsid}; it has {present:?}"))
}
