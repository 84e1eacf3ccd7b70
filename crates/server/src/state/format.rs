//! The format of a file with reservations: a line with version, checksum and length, then JSON.
//!
//! ```text
//!   gimbal-reservations 1 crc32c=0b1d2c3f bytes=412
//!   { "subsystem": "nqn.…", "namespace": "f81d4fae…", "generation": 3, "registrants": [ … ], "held": … }
//! ```
//!
//! The file names its namespace, so a moved or renamed file is detected. People can read it. Editing it breaks the checksum, on purpose:
//! only hosts may change keys and holders.
//!
//! Holds: a file with a changed byte, or a truncated file, is refused (`no_damage_goes_unnoticed`).

use super::NamespaceName;
use nvme::pdu::crc32c;
use nvme::spec::reservation::ReservationType;
use nvme::spec::{HostId, Nqn};
use nvme::subsystem::{Held, Registrant, Reservations, SavedReservations};
use serde::{Deserialize, Serialize};

/// The first word.
const MAGIC: &str = "gimbal-reservations";
/// The version of the format. There was no other one.
const VERSION: &str = "1";

/// Why a file is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FormatError {
    /// Its content has changed.
    Damaged(String),
    /// A later version of the target has written it.
    Newer(String),
}

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
    host_id: String,
    rtype: u8,
}

/// Encodes reservations as the bytes of a file.
pub(super) fn encode(namespace: &NamespaceName, saved: &SavedReservations) -> Vec<u8> {
    let entry = |registrant: &Registrant| Entry {
        host_nqn: registrant.nqn.as_str().to_owned(),
        host_id: hex(registrant.host.0),
        key: format!("{:016x}", registrant.key),
    };
    let document = Document {
        subsystem: namespace.subsystem.clone(),
        namespace: hex(namespace.uuid),
        generation: saved.generation,
        registrants: saved.registrants.iter().map(entry).collect(),
        held: saved.held.map(|held| HeldEntry { host_id: hex(held.by.0), rtype: held.kind.to_wire() }),
    };
    let mut body = serde_json::to_vec_pretty(&document).expect("texts and numbers are JSON");
    body.push(b'\n');
    let crc = crc32c(&body);
    let mut bytes = format!("{MAGIC} {VERSION} crc32c={crc:08x} bytes={}\n", body.len()).into_bytes();
    bytes.append(&mut body);
    bytes
}

/// Decodes the bytes of a file.
pub(super) fn decode(namespace: &NamespaceName, bytes: &[u8]) -> Result<SavedReservations, FormatError> {
    let damaged = |what: &str| FormatError::Damaged(what.to_owned());
    if bytes.is_empty() {
        return Err(damaged("it is empty"));
    }
    let end = bytes
        .iter()
        .position(|&byte| byte == b'\n')
        .ok_or_else(|| damaged("its first line has no line end"))?;
    let line = str::from_utf8(&bytes[..end]).map_err(|_| damaged("its first line is not text"))?;
    let body = &bytes[end + 1..];
    let words: Vec<&str> = line.split(' ').collect();
    let &[MAGIC, version, crc, length] = &words[..] else {
        return Err(damaged("its first line is not that of such a file"));
    };
    if version != VERSION {
        return Err(FormatError::Newer(version.to_owned()));
    }
    if length != format!("bytes={}", body.len()) {
        return Err(FormatError::Damaged(format!(
            "{} bytes follow its first line, which says {length}",
            body.len()
        )));
    }
    if crc != format!("crc32c={:08x}", crc32c(body)) {
        return Err(damaged("its checksum is wrong"));
    }
    let document: Document =
        serde_json::from_slice(body).map_err(|error| FormatError::Damaged(error.to_string()))?;
    if document.subsystem != namespace.subsystem || document.namespace != hex(namespace.uuid) {
        let (subsystem, uuid) = (document.subsystem, document.namespace);
        return Err(FormatError::Damaged(format!("it is of namespace {uuid} of subsystem {subsystem:?}")));
    }
    let saved = read(&document).ok_or_else(|| damaged("a field has a wrong value"))?;
    Reservations::restore(saved.clone()).map_err(|error| FormatError::Damaged(error.to_string()))?;
    Ok(saved)
}

fn read(document: &Document) -> Option<SavedReservations> {
    let registrant = |entry: &Entry| {
        let key = u64::from_str_radix(&entry.key, 16).ok()?;
        Some(Registrant { host: HostId(unhex(&entry.host_id)?), nqn: Nqn::new(&entry.host_nqn).ok()?, key })
    };
    let held = match &document.held {
        Some(held) => {
            Some(Held { by: HostId(unhex(&held.host_id)?), kind: ReservationType::from_wire(held.rtype)? })
        }
        None => None,
    };
    Some(SavedReservations {
        generation: document.generation,
        registrants: document.registrants.iter().map(registrant).collect::<Option<_>>()?,
        held,
    })
}

fn hex(bytes: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(bytes))
}

fn unhex(text: &str) -> Option<[u8; 16]> {
    (text.len() == 32).then(|| u128::from_str_radix(text, 16).ok())?.map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace() -> NamespaceName {
        NamespaceName { subsystem: "nqn.test:a/../b".to_owned(), uuid: [0xab; 16] }
    }

    fn saved() -> SavedReservations {
        let registrant = |id: u8, key| Registrant {
            host: HostId([id; 16]),
            nqn: Nqn::new("nqn.test:host \u{202e}\\ \"").expect("a strange name, but one"),
            key,
        };
        SavedReservations {
            generation: u32::MAX,
            registrants: vec![registrant(1, u64::MAX), registrant(2, 0)],
            held: Some(Held { by: HostId([2; 16]), kind: ReservationType::ExclusiveAccess }),
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
        let later = b"gimbal-reservations 2 crc32c=00000000 bytes=0\n";
        assert_eq!(decode(&namespace(), later), Err(FormatError::Newer("2".to_owned())));
    }

    #[test]
    fn a_contradiction_is_damage() {
        let held = Some(Held { by: HostId([9; 16]), kind: ReservationType::ExclusiveAccess });
        let bytes = encode(&namespace(), &SavedReservations { held, ..saved() });
        assert!(
            matches!(decode(&namespace(), &bytes), Err(FormatError::Damaged(what)) if what.contains("not registered"))
        );
    }
}
