//! Identifiers that are not configured. They are the same after every restart.
//!
//! A host refuses a namespace with identifiers that change on reconnect ("identifiers changed for nsid 1").
//! So a namespace without a configured UUID gets a computed one: 128 bits of FNV-1a over the subsystem's NQN
//! and the namespace identifier, marked as an RFC 9562 version 8 UUID (vendor specific contents). FNV is
//! enough: forging it gains nothing, and it spreads names that differ in few bytes well.
//!
//! Holds: same input, same UUID; another name or namespace, another UUID
//!        (`derived_identifiers_are_stable_and_differ`).

use crate::spec::Nqn;

const FNV_OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const FNV_PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// The UUID of a namespace without a configured one.
pub fn derived_uuid(subsystem: &Nqn, nsid: u32) -> [u8; 16] {
    let mut hash = FNV_OFFSET;
    for byte in subsystem.as_str().bytes().chain([0]).chain(nsid.to_be_bytes()) {
        hash = (hash ^ u128::from(byte)).wrapping_mul(FNV_PRIME);
    }
    let mut uuid = hash.to_be_bytes();
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn derived_identifiers_are_stable_and_differ() {
        let name = |text| Nqn::new(text).expect("a good name");
        let uuid = derived_uuid(&name("nqn.2024-01.test:a"), 1);
        assert_eq!(uuid, derived_uuid(&name("nqn.2024-01.test:a"), 1));
        assert_eq!((uuid[6] >> 4, uuid[8] >> 6), (8, 2), "version 8, variant 10b");
        // A fixed value, so that a change of the derivation fails here: it would break the mounts of every
        // host.
        let text: alloc::string::String = uuid.iter().map(|byte| alloc::format!("{byte:02x}")).collect();
        assert_eq!(text, "69d361b0b66e838b80f470172cc0ef62");
        let all: BTreeSet<_> =
            (1..=1000).flat_map(|nsid| ["a", "b", "aa"].map(|n| derived_uuid(&name(n), nsid))).collect();
        assert_eq!(all.len(), 3000);
    }
}
