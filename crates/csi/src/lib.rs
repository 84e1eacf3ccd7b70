//! A driver of the Container Storage Interface: volumes are namespaces in the directories of a target.
//!
//! ```text
//!   sidecars of Kubernetes ══ gRPC, Unix socket ══► service ─┬─► identity
//!                                                            ├─► controller ─► target ══ admin API ══► gimbal serve
//!                                                            └─► node ─► nvme, mkfs, mount …
//! ```
//!
//! The driver remembers nothing: a volume is a subsystem in the configuration of the target, a snapshot a file of its directory, an attached volume a
//! mount of the node. So a driver that was killed at any moment goes on where the request is repeated.
//!
//! Holds: csi-sanity passes (`tests/sanity.rs`); a kill between any two requests to the target leaks nothing (`tests/kills.rs`).
//! Elsewhere: docs/kubernetes.md is the contract.

mod capability;
mod controller;
mod identity;
pub mod messages;
mod node;
mod page;
mod parameters;
mod service;
mod size;
mod target;
mod volume;

pub use controller::{Controller, ControllerService};
pub use identity::{Identity, IdentityService};
pub use node::{Node, NodeService};
pub use target::Target;

/// The identifier of the volume with this name.
///
/// # Errors
/// There can be no volume with this name.
pub fn volume_id(name: &str) -> Result<String, tonic::Status> {
    volume::id_of(name).map(|id| id.to_string())
}

/// The name of the driver.
pub const DRIVER: &str = "csi.gimbal.io";
