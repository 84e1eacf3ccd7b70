//! The format of a file with reservations: a line with version, checksum and length, then JSON.
//!
//! ```text
//!   gimbal-reservations 2 crc32c=0b1d2c3f bytes=412
//!   { "subsystem": "nqn.…", "namespace": "f81d4fae…", "generation": 3, "registrants": [ … ], "held": … }
//! ```
//!
//! The file names its namespace, so a moved or renamed file is detected. People can read it. Editing it breaks the checksum, on purpose:
//! only hosts may change keys and holders.
//!
//! Version 2 names the holder by HOSTID and NQN, because two NQNs may be registered with one HOSTID. Version 1 had the HOSTID alone, which
//! one registrant had at most; such files are still read.
//!
//! Holds: a file of version 1 is read (`a_file_of_the_first_version_is_read`); a file with a changed byte, or a truncated file, is refused (`no_damage_goes_unnoticed`).

use super::NamespaceName;
use super::frame::{FormatError, framed, unframed};
use nvme::spec::reservation::ReservationType;
use nvme::spec::{HostId, Nqn};
use nvme::subsystem::{Held, Registrant, ReservationHost, Reservations, SavedReservations};
use serde::{Deserialize, Serialize};

/// The first word.
const MAGIC: &str = "gimbal-reservations";
/// The version of the format that is written.
const VERSION: &str = "2";
/// The version before it, which is read too.
const VERSION_BEFORE: &str = "1";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    subsystem: String,
    namespace: String,
    generation: u32,
    registrants: Vec<Entry>,
    held: Option<HeldEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    host_nqn: String,
    host_id: String,
    key: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeldEntry {
    /// Not in version 1.
    #[serde(default)]
    host_nqn: Option<String>,
    host_id: String,
    rtype: u8,
}

/// Encodes reservations as the bytes of a file.
pub(super) fn encode(namespace: &NamespaceName, saved: &SavedReservations) -> Vec<u8> {
    let entry = |registrant: &Registrant| Entry {
        host_nqn: registrant.host.nqn.as_str().to_owned(),
        host_id: hex(registrant.host.id.0),
        key: format!("{:016x}", registrant.key),
    };
    let document = Document {
        subsystem: namespace.subsystem.clone(),
        namespace: hex(namespace.uuid),
        generation: saved.generation,
        registrants: saved.registrants.iter().map(entry).collect(),
        held: saved.held.as_ref().map(|held| HeldEntry {
            host_nqn: Some(held.by.nqn.as_str().to_owned()),
            host_id: hex(held.by.id.0),
            rtype: held.kind.to_wire(),
        }),
    };
    let mut body = serde_json::to_vec_pretty(&document).expect("texts and numbers are JSON");
    body.push(b'\n');
    framed(MAGIC, VERSION, &body)
}

/// The content of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Decoded {
    pub(super) namespace: NamespaceName,
    pub(super) saved: SavedReservations,
    /// Whether a target of this version writes the same format.
    pub(super) is_current: bool,
}

/// Decodes the bytes of the file of a namespace.
pub(super) fn decode(namespace: &NamespaceName, bytes: &[u8]) -> Result<SavedReservations, FormatError> {
    let decoded = decode_any(bytes)?;
    if decoded.namespace != *namespace {
        let NamespaceName { subsystem, uuid } = decoded.namespace;
        let uuid = hex(uuid);
        return Err(FormatError::Damaged(format!("it is of namespace {uuid} of subsystem {subsystem:?}")));
    }
    Ok(decoded.saved)
}

/// Decodes the bytes of a file of any namespace.
pub(super) fn decode_any(bytes: &[u8]) -> Result<Decoded, FormatError> {
    let damaged = |what: &str| FormatError::Damaged(what.to_owned());
    let (version, body) = unframed(MAGIC, &[VERSION, VERSION_BEFORE], bytes)?;
    let document: Document =
        serde_json::from_slice(body).map_err(|error| FormatError::Damaged(error.to_string()))?;
    let of_fields = || Some((unhex(&document.namespace)?, read(&document, version)?));
    let (uuid, saved) = of_fields().ok_or_else(|| damaged("a field has a wrong value"))?;
    Reservations::restore(saved.clone()).map_err(|error| FormatError::Damaged(error.to_string()))?;
    let namespace = NamespaceName { subsystem: document.subsystem, uuid };
    Ok(Decoded { namespace, saved, is_current: version == VERSION })
}

fn read(document: &Document, version: &str) -> Option<SavedReservations> {
    let host =
        |id: &str, nqn: &str| Some(ReservationHost { id: HostId(unhex(id)?), nqn: Nqn::new(nqn).ok()? });
    let registrant = |entry: &Entry| {
        let key = u64::from_str_radix(&entry.key, 16).ok()?;
        Some(Registrant { host: host(&entry.host_id, &entry.host_nqn)?, key })
    };
    let held = match &document.held {
        Some(held) => {
            let nqn = match &held.host_nqn {
                Some(nqn) => nqn,
                None if version == VERSION_BEFORE => only_name(document, &held.host_id)?,
                None => return None,
            };
            Some(Held { by: host(&held.host_id, nqn)?, kind: ReservationType::from_wire(held.rtype)? })
        }
        None => None,
    };
    Some(SavedReservations {
        generation: document.generation,
        registrants: document.registrants.iter().map(registrant).collect::<Option<_>>()?,
        held,
    })
}

/// The NQN of the only registrant with this HOSTID.
fn only_name<'a>(document: &'a Document, id: &str) -> Option<&'a str> {
    let mut with_id = document.registrants.iter().filter(|entry| entry.host_id == id);
    let first = with_id.next()?;
    with_id.next().is_none().then_some(&first.host_nqn)
}

pub(super) fn hex(bytes: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(bytes))
}

fn unhex(text: &str) -> Option<[u8; 16]> {
    (text.len() == 32).then(|| u128::from_str_radix(text, 16).ok())?.map(u128::to_be_bytes)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use nvme::tcp::pdu::crc32c;

    fn namespace() -> NamespaceName {
        NamespaceName { subsystem: "nqn.test:a/../b".to_owned(), uuid: [0xab; 16] }
    }

    fn host(id: u8) -> ReservationHost {
        let nqn = Nqn::new("nqn.test:host \u{202e}\\ \"").expect("a strange name, but one");
        ReservationHost { id: HostId([id; 16]), nqn }
    }

    fn saved() -> SavedReservations {
        let registrant = |id: u8, key| Registrant { host: host(id), key };
        SavedReservations {
            generation: u32::MAX,
            registrants: vec![registrant(1, u64::MAX), registrant(2, 0)],
            held: Some(Held { by: host(2), kind: ReservationType::ExclusiveAccess }),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for saved in [saved(), SavedReservations { held: None, ..saved() }] {
            assert_eq!(decode(&namespace(), &encode(&namespace(), &saved)), Ok(saved));
        }
        let nobody = SavedReservations { generation: 0, registrants: Vec::new(), held: None };
        assert_eq!(decode(&namespace(), &encode(&namespace(), &nobody)), Ok(nobody));
    }

    #[test]
    fn no_damage_goes_unnoticed() {
        let bytes = encode(&namespace(), &saved());
        for length in 0..bytes.len() {
            assert!(decode(&namespace(), &bytes[..length]).is_err(), "cut to {length} bytes");
        }
        for at in 0..bytes.len() {
            for flip in [1, 0x20, 0x80] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                assert!(decode(&namespace(), &damaged).is_err(), "byte {at} flipped by {flip:#x}");
            }
        }
        assert!(decode(&namespace(), &[&bytes[..], b"\n"].concat()).is_err(), "a byte more");
    }

    #[test]
    fn a_file_of_another_namespace_is_not_read() {
        let bytes = encode(&namespace(), &saved());
        for other in [
            NamespaceName { uuid: [1; 16], ..namespace() },
            NamespaceName { subsystem: "nqn.test:b".to_owned(), ..namespace() },
        ] {
            assert!(
                matches!(decode(&other, &bytes), Err(FormatError::Damaged(what)) if what.contains("nqn.test:a"))
            );
        }
    }

    #[test]
    fn a_later_version_is_not_reported_as_damage() {
        let later = b"gimbal-reservations 3 crc32c=00000000 bytes=0\n";
        assert_eq!(decode(&namespace(), later), Err(FormatError::Newer("3".to_owned())));
    }

    /// The bytes of a file with this text as its content, in this version.
    pub(crate) fn file_of(version: &str, body: &str) -> Vec<u8> {
        let crc = crc32c(body.as_bytes());
        format!("{MAGIC} {version} crc32c={crc:08x} bytes={}\n{body}", body.len()).into_bytes()
    }

    /// A file of the release before this format.
    pub(crate) const OF_VERSION_1: &str = r#"{
  "subsystem": "nqn.test:a/../b",
  "namespace": "abababababababababababababababab",
  "generation": 7,
  "registrants": [
    { "host_nqn": "nqn.test:one", "host_id": "01010101010101010101010101010101", "key": "000000000000000a" },
    { "host_nqn": "nqn.test:two", "host_id": "02020202020202020202020202020202", "key": "000000000000000b" }
  ],
  "held": { "host_id": "02020202020202020202020202020202", "rtype": 2 }
}
"#;

    #[test]
    fn a_file_of_the_first_version_is_read() {
        let saved = decode(&namespace(), &file_of("1", OF_VERSION_1)).expect("it is whole");
        let two =
            ReservationHost { id: HostId([2; 16]), nqn: Nqn::new("nqn.test:two").expect("a good name") };
        assert_eq!(saved.held, Some(Held { by: two, kind: ReservationType::ExclusiveAccess }));
        assert_eq!((saved.generation, saved.registrants.len()), (7, 2));
        let without_name = decode(&namespace(), &file_of("2", OF_VERSION_1));
        assert!(matches!(without_name, Err(FormatError::Damaged(_))), "{without_name:?}");
    }

    #[test]
    fn two_names_with_one_identifier_are_read_as_they_were_written() {
        let named = |name: &str| ReservationHost { nqn: Nqn::new(name).expect("a good name"), ..host(3) };
        let registrants = ["nqn.test:a", "nqn.test:b"]
            .map(|name| Registrant { host: named(name), key: name.len() as u64 })
            .to_vec();
        let held = Some(Held { by: named("nqn.test:b"), kind: ReservationType::WriteExclusive });
        let saved = SavedReservations { generation: 1, registrants, held };
        assert_eq!(decode(&namespace(), &encode(&namespace(), &saved)), Ok(saved));
    }

    #[test]
    fn a_contradiction_is_damage() {
        let held = Some(Held { by: host(9), kind: ReservationType::ExclusiveAccess });
        let bytes = encode(&namespace(), &SavedReservations { held, ..saved() });
        assert!(
            matches!(decode(&namespace(), &bytes), Err(FormatError::Damaged(what)) if what.contains("not registered"))
        );
    }
}
