//! Proofs of identity: a host with a key proves that it has the key before it reaches anything of this target.
//!
//! ```text
//!   Connect ─► is a proof due? ──no──► as before
//!               │ yes: answered by the acceptor (authenticate this queue), nothing is reserved
//!               ▼
//!          Proof ── Job ──► Computing (a thread) ──► Proof ─┬─ proved ─► admitted under the proved NQN, handed over
//!                                                           └─ failed ─► Failure1, closed, counted by the throttle
//! ```
//!
//! A host that is connected may prove itself anew, on each of its queues; the same [`Proof`] serves that in the pipeline.
//!
//! A proof on an admin queue without TLS may make a key for TLS instead (concatenation): [`GeneratedKeys`] keeps it.
//!
//! Holds: a connection without its proof reaches no pipeline, no controller, and no quota of the name that it claims
//!        (`tests/proofs.rs`); an unknown host is answered like a known one with a wrong key (there, too).
//! Elsewhere: messages and responses are the crate `auth`'s; the step of the acceptor is `acceptor::proving`, the one of a session
//!            `pipeline::proofs`.

mod computing;
mod exchange;
mod generated;
mod keys;
mod refusals;
mod throttle;
mod uses;

pub(crate) use computing::{Computing, ComputingThread, Task};
pub(crate) use exchange::{Computed, Job, Message, Names, Proof};
pub(crate) use generated::{GeneratedKeys, Made};
pub(crate) use keys::{Due, KeyRing, Keys, Queue};
pub(crate) use refusals::Refusals;
pub use refusals::{Refusal, RefusalCounts};
pub(crate) use throttle::Throttle;
pub use uses::KeyUse;
pub(crate) use uses::Uses;

use std::sync::Arc;

/// All that a thread needs for proofs.
#[derive(Clone)]
pub(crate) struct Proofs {
    /// The keys of hosts.
    pub(crate) keys: Arc<KeyRing>,
    /// The thread of computations.
    pub(crate) computing: Computing,
    /// Counters of hosts that did not prove themselves.
    pub(crate) refusals: Refusals,
}
