//! Names that must be the same at every start: UUIDs and serial numbers.
//!
//! A Linux host that reconnects and finds another UUID on a namespace fails its IOs ("identifiers changed"), so what the
//! configuration leaves open is derived from what it names, never drawn at random. The derivation is FNV-1a in 128 bits,
//! marked as a version 8 (free form) UUID of RFC 9562.

const FNV_OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const FNV_PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
/// Characters of a serial number: NVMe gives it 20 bytes, 16 hexadecimal digits are enough.
const SERIAL_MASK: u128 = u64::MAX as u128;

/// The UUID of namespace `nsid` of subsystem `nqn`.
pub(crate) fn namespace_uuid(nqn: &str, nsid: u32) -> [u8; 16] {
    let mut uuid = fnv1a(&[nqn.as_bytes(), &[0], &nsid.to_be_bytes()]).to_be_bytes();
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

/// The serial number of subsystem `nqn`.
pub(crate) fn serial(nqn: &str) -> String {
    format!("{:016x}", fnv1a(&[nqn.as_bytes()]) & SERIAL_MASK)
}

/// `f81d4fae-7dec-4d00-a765-00a0c91e6bf6`, with or without dashes; never the nil UUID.
pub(crate) fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(|&char| char != '-').collect();
    if digits.len() != 32 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let number = u128::from_str_radix(&digits, 16).ok()?;
    (number != 0).then(|| number.to_be_bytes())
}

fn fnv1a(parts: &[&[u8]]) -> u128 {
    parts
        .iter()
        .copied()
        .flatten()
        .fold(FNV_OFFSET, |hash, &byte| (hash ^ u128::from(byte)).wrapping_mul(FNV_PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_names_never_change() {
        // If these change, every Linux host sees other disks after an update of the target.
        let uuid = namespace_uuid("nqn.2025-01.io.gimbal:ssd", 1);
        assert_eq!(format!("{:032x}", u128::from_be_bytes(uuid)), "6442c4ebce9b848bb61b3a1645adb526");
        assert_eq!(serial("nqn.2025-01.io.gimbal:ssd"), "1902194d3c6044c3");
    }

    #[test]
    fn namespaces_have_uuids_of_their_own() {
        let all: std::collections::HashSet<_> =
            (1..100).flat_map(|nsid| ["nqn.a:1", "nqn.a:11"].map(|nqn| namespace_uuid(nqn, nsid))).collect();
        assert_eq!(all.len(), 198);
    }

    #[test]
    fn a_uuid_is_read_with_and_without_dashes() {
        let uuid = parse_uuid("f81d4fae-7dec-4d00-a765-00a0c91e6bf6").expect("a UUID");
        assert_eq!(parse_uuid("f81d4fae7dec4d00a76500a0c91e6bf6"), Some(uuid));
        assert_eq!(uuid[0], 0xf8);
        assert_eq!(parse_uuid("f81d4fae"), None);
        assert_eq!(parse_uuid("00000000-0000-0000-0000-000000000000"), None);
    }
}
