//! The phase of a mount, and the identity of its volume.
//!
//! ```text
//!   new ──lock, generation──► begun ──metadata found, checkpoint──► mounted ──unmount, or the mount failed──► over
//! ```

use crate::{Generation, Geometry, VolumeId};
use std::cell::Cell;

/// The volume, and the number of the mount.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    pub(crate) volume: VolumeId,
    pub(crate) geometry: Geometry,
    pub(crate) generation: Generation,
}

/// The phase; see the module.
#[derive(Default)]
pub(crate) struct Phase {
    identity: Cell<Option<Identity>>,
    is_mounted: Cell<bool>,
    is_over: Cell<bool>,
}

impl Phase {
    /// Begins the mount: the volume is locked for it.
    pub(crate) fn begin(&self, identity: Identity) {
        self.identity.set(Some(identity));
    }

    pub(crate) fn mounted(&self) {
        self.is_mounted.set(true);
    }

    pub(crate) fn end(&self) {
        self.is_over.set(true);
        self.is_mounted.set(false);
    }

    pub(crate) fn is_mounted(&self) -> bool {
        self.is_mounted.get()
    }

    /// Whether the mount is over, so that background tasks must end.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    pub(crate) fn identity(&self) -> Identity {
        self.identity.get().expect("only a mounted volume has files")
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.identity().geometry
    }
}
