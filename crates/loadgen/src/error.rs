//! Why a run did not start or did not end well: what happened, to what, what to do.

use host::{ConnectError, DiscoverError, NqnError, Refusal};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use units::Bytes;

/// Why a run did not start, or did not end well.
#[derive(Debug)]
pub enum BenchError {
    /// The discovery log could not be read.
    Discover(DiscoverError),
    /// The discovery log has no subsystem.
    NoSubsystem(SocketAddr),
    /// The discovery log has more than one subsystem: their NQNs.
    SeveralSubsystems(SocketAddr, Vec<String>),
    /// A name is not an NQN.
    Nqn(String, NqnError),
    /// No controller can be connected.
    Connect(Box<ConnectError>),
    /// The subsystem has no such namespace: job, wanted, present.
    Namespace(String, Option<u32>, Vec<u32>),
    /// `bs` or `offset` is not a multiple of the namespace's blocks: job, block size.
    BlockSize(String, Bytes),
    /// `offset_increment` is not a multiple of the common divisor of the sizes: job, divisor.
    Increment(String, Bytes),
    /// `bs` is larger than one command may move: job, limit.
    Transfer(String, Bytes),
    /// The region is not within the namespace: job, size of the namespace.
    Region(String, Bytes),
    /// The initiator refuses an IO: job, why.
    Refused(String, Refusal),
    /// A system call of this machine failed.
    Io(io::Error),
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::Discover(error) => error.fmt(f),
            BenchError::NoSubsystem(address) => write!(
                f,
                "the target at {address} lists no subsystem for this host; give one with --nqn, or check the target's configuration"
            ),
            BenchError::SeveralSubsystems(address, names) => {
                write!(f, "the target at {address} has several subsystems; choose one with --nqn:")?;
                names.iter().try_for_each(|name| write!(f, "\n  {name}"))
            }
            BenchError::Nqn(text, error) => write!(f, "`{text}` is not an NQN: {error}"),
            BenchError::Connect(error) => error.fmt(f),
            BenchError::Namespace(job, Some(nsid), present) => {
                write!(f, "job {job}: the subsystem has no namespace {nsid}; it has {present:?}")
            }
            BenchError::Namespace(job, None, _) => write!(f, "job {job}: the subsystem has no namespace"),
            BenchError::BlockSize(job, block) => {
                write!(
                    f,
                    "job {job}: bs and offset must be multiples of the namespace's block size of {block}"
                )
            }
            BenchError::Increment(job, unit) => {
                write!(
                    f,
                    "job {job}: offset_increment must be a multiple of {unit}, the common divisor of bs"
                )
            }
            BenchError::Transfer(job, limit) => {
                write!(
                    f,
                    "job {job}: bs is larger than the {limit} that one command of this controller may move"
                )
            }
            BenchError::Region(job, size) => {
                write!(f, "job {job}: offset and size do not fit into the namespace of {size}")
            }
            BenchError::Refused(job, why) => write!(f, "job {job}: an IO was refused: {why}"),
            BenchError::Io(error) => write!(f, "cannot generate load on this machine: {error}"),
        }
    }
}

impl std::error::Error for BenchError {}
