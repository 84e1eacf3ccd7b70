//! Reads of one tenant whose time is divided into parts, from the client to the SSD and back.

use ssd::Waits;
use std::collections::HashMap;
use units::{Nanos, TenantId};

/// The time of one read, from sending by the client to completion at the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadTime {
    /// All of it.
    pub whole: Nanos,
    /// In the switch, until the scheduler gave it out.
    pub switch: Nanos,
    /// In the SSD.
    pub ssd: Waits,
}

impl ReadTime {
    /// On the network, both ways.
    pub fn network(&self) -> Nanos {
        Nanos(self.whole.0 - self.switch.0 - self.ssd.all().0)
    }
}

/// The reads of one tenant.
pub(crate) struct Followed {
    pub(crate) tenant: TenantId,
    /// Their parts in the SSD, by the number of the IO, until the answer is at the client.
    pub(crate) in_ssd: HashMap<u64, Waits>,
    /// Those that were answered in the measured time.
    pub(crate) times: Vec<ReadTime>,
}

impl Followed {
    pub(crate) fn new(tenant: TenantId) -> Followed {
        Followed { tenant, in_ssd: HashMap::new(), times: Vec::new() }
    }
}
