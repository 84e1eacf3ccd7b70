//! Identifiers that must be the same at every start: UUID, NGUID and EUI64 of namespaces, serial numbers.
//!
//! A Linux host that reconnects and finds another identifier on a namespace fails its IOs ("identifiers changed"). So identifiers that
//! the configuration leaves out are derived from the configured names; they are not random. The derivation is FNV-1a in 128 bits. A
//! derived UUID is marked as version 8 (free form) of RFC 9562.
//!
//! NGUID and EUI64 contain an OUI, which IEEE assigns to manufacturers. This project has none. So derived identifiers have the U/L bit of
//! the OUI set: locally administered, never used by a manufacturer. Some hosts (ESXi) ignore a namespace without NGUID and EUI64.
//!
//! Holds: `derived_names_never_change`, `derived_identifiers_claim_no_manufacturer`.
//! NVM Express Base Specification: "Namespace Globally Unique Identifier", "IEEE Extended Unique Identifier".

use crate::config::NamespaceConfig;

const FNV_OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const FNV_PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
/// Characters of a serial number: NVMe gives it 20 bytes, 16 hexadecimal digits are enough.
const SERIAL_MASK: u128 = u64::MAX as u128;

/// The offset of the OUI in an NGUID, after the vendor's extension. In an EUI64 it comes first.
const NGUID_OUI: usize = 8;
/// In the first byte of an OUI: a group address. No device has one.
const GROUP: u8 = 1;
/// In the first byte of an OUI: locally administered.
const LOCAL: u8 = 1 << 1;

/// The identifiers of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identifiers {
    /// UUID, in the byte order of its text.
    pub(crate) uuid: [u8; 16],
    /// NGUID.
    pub(crate) nguid: [u8; 16],
    /// EUI64.
    pub(crate) eui64: [u8; 8],
}

impl Identifiers {
    /// The identifiers of `namespace` of subsystem `nqn`: as configured, otherwise derived.
    pub(crate) fn of(nqn: &str, namespace: &NamespaceConfig) -> Identifiers {
        let nsid = namespace.nsid;
        Identifiers {
            uuid: namespace.uuid.unwrap_or_else(|| namespace_uuid(nqn, nsid)),
            nguid: namespace.nguid.unwrap_or_else(|| namespace_nguid(nqn, nsid)),
            eui64: namespace.eui64.unwrap_or_else(|| namespace_eui64(nqn, nsid)),
        }
    }
}

/// The NGUID of namespace `nsid` of subsystem `nqn`.
fn namespace_nguid(nqn: &str, nsid: u32) -> [u8; 16] {
    let mut nguid = fnv1a(&[b"nguid", &[0], nqn.as_bytes(), &[0], &nsid.to_be_bytes()]).to_be_bytes();
    nguid[NGUID_OUI] = nguid[NGUID_OUI] & !GROUP | LOCAL;
    nguid
}

/// The EUI64 of namespace `nsid` of subsystem `nqn`.
fn namespace_eui64(nqn: &str, nsid: u32) -> [u8; 8] {
    let hash = fnv1a(&[b"eui64", &[0], nqn.as_bytes(), &[0], &nsid.to_be_bytes()]);
    let mut eui64 = ((hash >> u64::BITS) as u64 ^ hash as u64).to_be_bytes();
    eui64[0] = eui64[0] & !GROUP | LOCAL;
    eui64
}

/// The UUID of namespace `nsid` of subsystem `nqn`.
fn namespace_uuid(nqn: &str, nsid: u32) -> [u8; 16] {
    let mut uuid = fnv1a(&[nqn.as_bytes(), &[0], &nsid.to_be_bytes()]).to_be_bytes();
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

/// The serial number of subsystem `nqn`.
pub(crate) fn serial(nqn: &str) -> String {
    format!("{:016x}", fnv1a(&[nqn.as_bytes()]) & SERIAL_MASK)
}

/// The hexadecimal digits of an identifier.
pub(crate) fn digits(identifier: &[u8]) -> String {
    identifier.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `f81d4fae-7dec-4d00-a765-00a0c91e6bf6`, with or without dashes; never the nil UUID.
pub(crate) fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(|&char| char != '-').collect();
    parse_nguid(&digits)
}

/// 32 hexadecimal digits, not all zeros.
pub(crate) fn parse_nguid(text: &str) -> Option<[u8; 16]> {
    parse_digits(text, 32).map(u128::to_be_bytes)
}

/// 16 hexadecimal digits, not all zeros.
pub(crate) fn parse_eui64(text: &str) -> Option<[u8; 8]> {
    parse_digits(text, 16).map(|number| (number as u64).to_be_bytes())
}

fn parse_digits(digits: &str, count: usize) -> Option<u128> {
    if digits.len() != count || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u128::from_str_radix(digits, 16).ok().filter(|&number| number != 0)
}

pub(crate) fn fnv1a(parts: &[&[u8]]) -> u128 {
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
        // If these change, every Linux host sees different disks after an update of the target.
        let uuid = namespace_uuid("nqn.2025-01.io.gimbal:ssd", 1);
        assert_eq!(format!("{:032x}", u128::from_be_bytes(uuid)), "6442c4ebce9b848bb61b3a1645adb526");
        assert_eq!(serial("nqn.2025-01.io.gimbal:ssd"), "1902194d3c6044c3");
        let nguid = namespace_nguid("nqn.2025-01.io.gimbal:ssd", 1);
        assert_eq!(format!("{:032x}", u128::from_be_bytes(nguid)), "2e9999481c2f462e8ebaaa2ca817a61b");
        let eui64 = namespace_eui64("nqn.2025-01.io.gimbal:ssd", 1);
        assert_eq!(format!("{:016x}", u64::from_be_bytes(eui64)), "9ad12498049f6495");
    }

    #[test]
    fn derived_identifiers_claim_no_manufacturer() {
        for nsid in 1..1000 {
            let (nguid, eui64) = (namespace_nguid("nqn.a:1", nsid), namespace_eui64("nqn.a:1", nsid));
            assert_eq!((nguid[8] & 3, eui64[0] & 3), (2, 2), "locally administered, no group");
        }
    }

    #[test]
    fn namespaces_have_identifiers_of_their_own() {
        let names = ["nqn.a:1", "nqn.a:11"];
        let each = |nsid: u32| names.map(|nqn| Identifiers::of(nqn, &NamespaceConfig::whole(nsid, "a")));
        let all: Vec<Identifiers> = (1..1000).flat_map(each).collect();
        let uuids: std::collections::HashSet<_> = all.iter().map(|ids| ids.uuid).collect();
        let nguids: std::collections::HashSet<_> = all.iter().map(|ids| ids.nguid).collect();
        let eui64s: std::collections::HashSet<_> = all.iter().map(|ids| ids.eui64).collect();
        assert_eq!((uuids.len(), nguids.len(), eui64s.len()), (1998, 1998, 1998));
    }

    #[test]
    fn a_uuid_is_read_with_and_without_dashes() {
        let uuid = parse_uuid("f81d4fae-7dec-4d00-a765-00a0c91e6bf6").expect("a UUID");
        assert_eq!(parse_uuid("f81d4fae7dec4d00a76500a0c91e6bf6"), Some(uuid));
        assert_eq!(uuid[0], 0xf8);
        assert_eq!(parse_uuid("f81d4fae"), None);
        assert_eq!(parse_uuid("00000000-0000-0000-0000-000000000000"), None);
        assert_eq!(parse_nguid("f81d4fae7dec4d00a76500a0c91e6bf6"), Some(uuid));
        assert_eq!(parse_nguid("f81d4fae-7dec-4d00-a765-00a0c91e6bf6"), None, "an NGUID has no dashes");
        assert_eq!(parse_eui64("f81d4fae7dec4d00"), Some([0xf8, 0x1d, 0x4f, 0xae, 0x7d, 0xec, 0x4d, 0]));
        assert_eq!((parse_eui64("+81d4fae7dec4d00"), parse_eui64("0000000000000000")), (None, None));
    }
}
