//! The transport's note of a command: where its data is outside of the capsule, and where its answer goes.
//!
//! A stream needs none: there is one way back. A transport whose controller reaches into the host's memory keeps the
//! command's address and key until the answer. The note belongs to the command, not to its identifier: a host may use that again
//! at once.

use crate::spec::{Sgl, Sqe};
use core::fmt::Debug;

/// See the module.
pub(crate) trait Route: Copy + Debug {
    /// The note of a command.
    fn of(sqe: &Sqe) -> Self;

    /// Bytes of data that the transport moves; `None` if it does not know the descriptor.
    fn moved(sgl: Sgl) -> Option<u32>;
}

/// NVMe/TCP.
impl Route for () {
    #[inline]
    fn of(_sqe: &Sqe) {}

    #[inline]
    fn moved(sgl: Sgl) -> Option<u32> {
        match sgl {
            Sgl::Transport { length } => Some(length),
            Sgl::InCapsule { .. } | Sgl::Keyed { .. } | Sgl::Other(_) => None,
        }
    }
}
