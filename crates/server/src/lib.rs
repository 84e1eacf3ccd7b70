//! The NVMe/TCP and NVMe/RDMA target: the engine behind `gimbal serve`, usable inside any process.
//!
//! ```text
//!             ┌─────── acceptor ────────┐      one pipeline thread per SSD
//!   hosts ──► │ accept, Connect,        │ ──►  ┌ connections ─ subsystems ─ switch ─ device ┐
//!             │ discovery               │      └──────▲──────── IOs for other SSDs ──▲──────┘
//!             └─────────────────────────┘             ▼                              ▼
//!                                              threads with connections only
//! ```
//!
//! ```
//! use server::{Server, Shutdown, config::{Config, DeviceKind}};
//!
//! let null = DeviceKind::Null { size: units::Bytes::gib(1) };
//! let server = Server::start(Config::simple(null, "127.0.0.1:0".parse().unwrap())).unwrap();
//! println!("listening on {}", server.addresses()[0]);
//! assert_eq!(server.shutdown(std::time::Duration::from_secs(10)), Shutdown::Complete);
//! ```
//!
//! Reading order: `config`; `server` (start and end); `acceptor` and `connections` (sockets and queue pairs, and their threads); `pipeline` (the path of a
//! command); `switch` (scheduler and device); `device`. The other modules serve these. The `nvme` crate says what commands mean,
//! `sched` which IO goes next, `reactor` makes the system calls.

mod acceptor;
mod account;
mod assemble;
pub mod config;
mod connections;
mod device;
mod eviction;
mod handshake;
mod home;
mod identity;
mod intrusive_list;
mod judge;
mod listing;
mod log_lines;
mod log_throttle;
mod mailbox;
mod memory;
mod missed;
mod outbox;
mod payload;
mod pipeline;
mod policy;
mod proof;
mod quota;
mod rdma;
mod replies;
mod retry;
mod server;
mod slab;
mod state;
mod stats;
mod switch;
mod tenants;
mod transport;

pub use assemble::SubsystemError;
pub use device::{
    DeviceError, Holes, LocalDevice, LocalDone, LocalOp, LocalOptions, Room, Shortage, Snapshot,
    SnapshotError, User,
};
pub use judge::AdminTokens;
pub use listing::{ConnectionFacts, Listing};
pub use log_lines::EscapedLines;
pub use policy::PolicyError;
pub use proof::{KeyUse, Refusal, RefusalCounts};
pub use server::{
    Change, NamespaceFacts, ReloadError, Remote, Server, ServerHandle, Shutdown, StartError, Subject, Taken,
    TakeoverError,
};
pub use state::{
    StateContents, StateError, StoredReservations, check_state_directory, inspect_state_directory,
    prepare_state_directory,
};
pub use stats::{
    AcceptorStats, AuxiliaryStats, Counters, ExtraReadStats, FileStats, SLOW_MAX, SlowIo, SlowIos, SsdStats,
    Stats, TenantDetail, TenantStats, ThreadStats, Transferred, TurnStats, Waits,
};
pub use tenants::TenantName;
