//! Memory of the host that the controller may reach.

use crate::queue::Route;
use crate::spec::{Sgl, Sqe};

/// A place in the host's memory, as a keyed descriptor names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Of the first byte, in the host's terms.
    pub address: u64,
    /// The key that opens it.
    pub key: u32,
    /// Whether the host asks for the key to be invalidated with the answer.
    pub invalidates: bool,
}

/// No place: the command names none.
const NOWHERE: Remote = Remote { address: 0, key: 0, invalidates: false };

impl Route for Remote {
    fn of(sqe: &Sqe) -> Remote {
        match sqe.sgl() {
            // A command without data has a descriptor of zeroes: no key to invalidate.
            Sgl::Keyed { address, length, key, invalidates } => {
                Remote { address, key, invalidates: invalidates && length > 0 }
            }
            Sgl::InCapsule { .. } | Sgl::Transport { .. } | Sgl::Other(_) => NOWHERE,
        }
    }

    fn moved(sgl: Sgl) -> Option<u32> {
        match sgl {
            Sgl::Keyed { length, .. } => Some(length),
            Sgl::InCapsule { .. } | Sgl::Transport { .. } | Sgl::Other(_) => None,
        }
    }
}
