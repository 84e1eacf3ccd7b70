//! Host identifiers for programs that keep none: derived from the host's NQN.

use crate::{HostId, Nqn};

/// A host identifier that is the same for the same name in every run (two rounds of FNV-1a).
pub fn host_id(host: &Nqn) -> HostId {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let hash = |basis: u64| {
        host.as_str().bytes().fold(basis, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
    };
    let (low, high) = (hash(0xcbf2_9ce4_8422_2325), hash(0x8422_2325_cbf2_9ce4));
    HostId((u128::from(high) << 64 | u128::from(low)).to_le_bytes())
}
