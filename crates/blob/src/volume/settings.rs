//! The settings of a mount.

use crate::steer::Policy;
use units::{Bytes, Nanos};

/// The settings of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Name of the volume.
    pub name: String,
    /// The client, for people; unique among all mounts.
    pub who: String,
    /// Time for which the volume stays locked after this client dies. The client itself stops a tenth earlier.
    pub ttl: Nanos,
    /// Time for which a mount waits while another client has locked the volume. After the crash of a client, `ttl` is
    /// enough.
    pub lock_patience: Nanos,
    /// After an unclean end of the previous mount, and after a failed write: the time in which an abandoned write may
    /// still be in flight to an SSD. Space that it could hit is not used during this time.
    pub quarantine: Nanos,
    /// Time for which an operation waits for a lease that cannot be renewed, or for space in quarantine, and a read or
    /// a mount for an SSD with the only copy that it needs.
    pub patience: Nanos,
    /// Time for which a mount waits for SSDs that cannot be reached.
    pub connect_patience: Nanos,
    /// Maximum number of bytes of one write to an SSD.
    pub write_max: Bytes,
    /// Maximum number of bytes of one read from an SSD.
    pub read_max: Bytes,
    /// Maximum number of bytes of one file in flight to SSDs; more wait.
    pub window: Bytes,
    /// The delay of freed space, so that many pieces are trimmed together.
    pub reclaim_delay: Nanos,
    /// Time after which an SSD that cannot be reached counts as gone: the micro blobs on it get another second copy, if
    /// there is a third target for it. Counted from the mount at the earliest.
    pub away_max: Nanos,
    /// The delay of a repair after an SSD came back or a copy was lost.
    pub repair_delay: Nanos,
    /// The policy for reading and placing.
    pub policy: Policy,
}

impl Settings {
    /// The defaults: a lease of 10 s, no wait for a volume that is in use, 30 s quarantine and patience, 10 min until
    /// an SSD counts as gone, writes and reads of 128 KiB.
    pub fn new(name: &str, who: &str) -> Settings {
        Settings {
            name: name.to_owned(),
            who: who.to_owned(),
            ttl: Nanos::secs(10),
            lock_patience: Nanos::ZERO,
            quarantine: Nanos::secs(30),
            patience: Nanos::secs(30),
            connect_patience: Nanos::secs(5),
            write_max: Bytes::kib(128),
            read_max: Bytes::kib(128),
            window: Bytes::mib(4),
            reclaim_delay: Nanos::secs(1),
            away_max: Nanos::secs(600),
            repair_delay: Nanos::secs(1),
            policy: Policy::default(),
        }
    }
}
