//! The messages of DH-HMAC-CHAP.
//!
//! | message   | type, id | from byte 6 (2 and 3 are 0, 4 and 5 the transaction identifier; numbers are little-endian)             |
//! |-----------|----------|---------------------------------------------------------------------------------------------------------|
//! | Negotiate | 00h, 00h | SC_C, NAPD = 1, then 64 bytes: AUTHID = 01h, 0, HALEN, DHLEN, 30 hash ids, 30 group ids                 |
//! | Challenge | 01h, 01h | HL, 0, HASHID, DHGID, DHVLEN (2), S1 (4), C1 (HL), public value (DHVLEN)                                |
//! | Reply     | 01h, 02h | HL, 0, CVALID, 0, DHVLEN (2), S2 (4), R1 (HL), C2 (HL), public value (DHVLEN)                           |
//! | Success1  | 01h, 03h | HL, 0, RVALID, 7 zeroes, R2 (HL) if RVALID                                                              |
//! | Success2  | 01h, 04h | 10 zeroes                                                                                               |
//! | Failure1  | 00h, F0h | reason = 01h, explanation                                                                               |
//! | Failure2  | 00h, F1h | the same                                                                                                |
//!
//! Holds: what is written reads back, and any bytes are read or refused with an explanation (`every_message_reads_back`,
//!        `any_bytes_are_a_message_or_refused`).
//! NVM Express Base Specification: "DH-HMAC-CHAP Protocol".

use crate::group::Group;
use crate::hash::Hash;
use std::fmt;

/// The longest message: a Reply of SHA-512 with ffdhe8192.
pub const LENGTH_MAX: usize = HEADER + 2 * 64 + 1024;
/// Bytes before the variable part.
const HEADER: usize = 16;
/// Length of Negotiate.
const NEGOTIATE: usize = 72;
/// Length of a failure.
const FAILURE: usize = 8;
/// Identifiers of hashes or groups in Negotiate at most.
const IDS_MAX: usize = 30;
/// The authentication protocol: DH-HMAC-CHAP.
const AUTHID: u8 = 1;
/// The reason of every failure: authentication failed.
const REASON: u8 = 1;

/// An explanation in a failure message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Explanation {
    /// The proof is wrong.
    Failed = 1,
    /// The authentication protocol is not usable.
    Protocol = 2,
    /// The secure channel that was asked for is not offered.
    SecureChannel = 3,
    /// There is no common hash.
    Hash = 4,
    /// There is no common group.
    Group = 5,
    /// A field of the message is wrong.
    Payload = 6,
    /// The message is not the one that is due.
    Message = 7,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Explanation::Failed => "the key is not the one that is expected",
            Explanation::Protocol => "the authentication protocol is not usable",
            Explanation::SecureChannel => "the secure channel that was asked for is not offered",
            Explanation::Hash => "there is no common hash",
            Explanation::Group => "there is no common group",
            Explanation::Payload => "a field of a message is wrong",
            Explanation::Message => "a message is not the one that is due",
        })
    }
}

impl Explanation {
    /// All explanations.
    const ALL: [Explanation; 7] = [
        Explanation::Failed,
        Explanation::Protocol,
        Explanation::SecureChannel,
        Explanation::Hash,
        Explanation::Group,
        Explanation::Payload,
        Explanation::Message,
    ];
}

/// A message without its transaction identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The host offers hashes and groups.
    Negotiate {
        /// Secure channel (SC_C).
        secure_channel: u8,
        /// Hash identifiers, known or not.
        hashes: Vec<u8>,
        /// Group identifiers, known or not; 0 is no group.
        groups: Vec<u8>,
    },
    /// The controller challenges the host.
    Challenge {
        /// The hash.
        hash: Hash,
        /// The group and the public value of the controller.
        group: Option<(Group, Vec<u8>)>,
        /// S1.
        sequence: u32,
        /// C1.
        challenge: Vec<u8>,
    },
    /// The host responds, and perhaps challenges the controller.
    Reply {
        /// R1.
        response: Vec<u8>,
        /// C2, if it is valid.
        challenge: Option<Vec<u8>>,
        /// S2.
        sequence: u32,
        /// The public value of the host; empty without a group.
        public: Vec<u8>,
    },
    /// The controller accepts the host, and proves itself if it was challenged.
    Success1 {
        /// R2.
        response: Option<Vec<u8>>,
        /// Length of a digest of the hash.
        length: usize,
    },
    /// The host accepts the controller.
    Success2,
    /// The controller refuses.
    Failure1(Explanation),
    /// The host refuses.
    Failure2(Explanation),
}

impl Message {
    /// The bytes of the message.
    pub fn to_bytes(&self, transaction: u16) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&transaction.to_le_bytes());
        match self {
            Message::Negotiate { secure_channel, hashes, groups } => {
                assert!(hashes.len() <= IDS_MAX && groups.len() <= IDS_MAX, "at most 30 of each");
                bytes.resize(NEGOTIATE, 0);
                (bytes[6], bytes[7], bytes[8]) = (*secure_channel, 1, AUTHID);
                (bytes[10], bytes[11]) = (hashes.len() as u8, groups.len() as u8);
                bytes[12..12 + hashes.len()].copy_from_slice(hashes);
                bytes[42..42 + groups.len()].copy_from_slice(groups);
            }
            Message::Challenge { hash, group, sequence, challenge } => {
                let public = group.as_ref().map_or(&[][..], |(_, public)| public);
                (bytes[0], bytes[1], bytes[6]) = (1, 1, hash.length() as u8);
                (bytes[8], bytes[9]) = (hash.id(), group.as_ref().map_or(0, |(group, _)| group.id()));
                bytes[10..12].copy_from_slice(&(public.len() as u16).to_le_bytes());
                bytes[12..16].copy_from_slice(&sequence.to_le_bytes());
                bytes.extend([&challenge[..], public].concat());
            }
            Message::Reply { response, challenge, sequence, public } => {
                let zeroes = vec![0; response.len()];
                (bytes[0], bytes[1], bytes[6]) = (1, 2, response.len() as u8);
                bytes[8] = challenge.is_some().into();
                bytes[10..12].copy_from_slice(&(public.len() as u16).to_le_bytes());
                bytes[12..16].copy_from_slice(&sequence.to_le_bytes());
                let parts: [&[u8]; 3] = [response, challenge.as_ref().unwrap_or(&zeroes), public];
                bytes.extend(parts.concat());
            }
            Message::Success1 { response, length } => {
                (bytes[0], bytes[1], bytes[6]) = (1, 3, *length as u8);
                bytes[8] = response.is_some().into();
                bytes.extend(response.as_deref().unwrap_or_default());
            }
            Message::Success2 => (bytes[0], bytes[1]) = (1, 4),
            Message::Failure1(explanation) | Message::Failure2(explanation) => {
                bytes.truncate(FAILURE);
                bytes[1] = if matches!(self, Message::Failure1(_)) { 0xf0 } else { 0xf1 };
                (bytes[6], bytes[7]) = (REASON, *explanation as u8);
            }
        }
        bytes
    }

    /// Reads a message and its transaction identifier. `hash` is the negotiated one, which says how long responses are; `None` before the
    /// challenge.
    ///
    /// # Errors
    /// The explanation of the failure that answers it.
    pub fn parse(bytes: &[u8], hash: Option<Hash>) -> Result<(u16, Message), Explanation> {
        let cut = Explanation::Payload;
        let at = |offset: usize| bytes.get(offset).copied().ok_or(cut);
        let part = |from: usize, length: usize| bytes.get(from..from + length).map(<[u8]>::to_vec).ok_or(cut);
        let two = |offset: usize| Ok::<u16, Explanation>(u16::from_le_bytes([at(offset)?, at(offset + 1)?]));
        let four = |offset: usize| {
            Ok::<u32, Explanation>(u32::from(two(offset)?) | u32::from(two(offset + 2)?) << 16)
        };
        let transaction = two(4)?;
        // The length of responses is one byte, which must be that of the negotiated hash.
        let response_length = || {
            let length = usize::from(at(6)?);
            match hash {
                Some(hash) if hash.length() == length => Ok(length),
                _ => Err(Explanation::Payload),
            }
        };
        let explanation = || {
            let number = at(7)?;
            Explanation::ALL.into_iter().find(|other| *other as u8 == number).ok_or(Explanation::Payload)
        };
        let (kind, id) = (at(0)?, at(1)?);
        if kind == 1 && bytes.len() < HEADER {
            return Err(Explanation::Payload);
        }
        let message = match (kind, id) {
            (0, 0) => {
                if at(7)? != 1 || at(8)? != AUTHID {
                    return Err(Explanation::Protocol);
                }
                let (hashes, groups) = (usize::from(at(10)?), usize::from(at(11)?));
                if hashes > IDS_MAX || groups > IDS_MAX || bytes.len() < NEGOTIATE {
                    return Err(Explanation::Payload);
                }
                Message::Negotiate {
                    secure_channel: at(6)?,
                    hashes: part(12, hashes)?,
                    groups: part(42, groups)?,
                }
            }
            (1, 1) => {
                let hash = Hash::from_id(at(8)?).ok_or(Explanation::Hash)?;
                let length = usize::from(two(10)?);
                let group = match at(9)? {
                    0 => None,
                    id => Some(Group::from_id(id).ok_or(Explanation::Group)?),
                };
                if usize::from(at(6)?) != hash.length() || length != group.map_or(0, Group::length) {
                    return Err(Explanation::Payload);
                }
                let public = part(HEADER + hash.length(), length)?;
                Message::Challenge {
                    hash,
                    group: group.map(|group| (group, public)),
                    sequence: four(12)?,
                    challenge: part(HEADER, hash.length())?,
                }
            }
            (1, 2) => {
                let length = response_length()?;
                let challenge = part(HEADER + length, length)?;
                let challenge = match at(8)? {
                    0 => None,
                    1 => Some(challenge),
                    _ => return Err(Explanation::Payload),
                };
                Message::Reply {
                    response: part(HEADER, length)?,
                    challenge,
                    sequence: four(12)?,
                    public: part(HEADER + 2 * length, usize::from(two(10)?))?,
                }
            }
            (1, 3) => {
                let length = response_length()?;
                let response = match at(8)? {
                    0 => None,
                    1 => Some(part(HEADER, length)?),
                    _ => return Err(Explanation::Payload),
                };
                Message::Success1 { response, length }
            }
            (1, 4) => Message::Success2,
            (0, 0xf0) => Message::Failure1(explanation()?),
            (0, 0xf1) => Message::Failure2(explanation()?),
            _ => return Err(Explanation::Message),
        };
        Ok((transaction, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect()
    }

    fn messages() -> Vec<(Hash, Message)> {
        let mut all = vec![
            (Hash::Sha256, Message::Success2),
            (
                Hash::Sha256,
                Message::Negotiate { secure_channel: 2, hashes: vec![1, 9, 3], groups: vec![0, 5] },
            ),
        ];
        all.extend(Explanation::ALL.map(|explanation| (Hash::Sha256, Message::Failure1(explanation))));
        all.extend(Explanation::ALL.map(|explanation| (Hash::Sha256, Message::Failure2(explanation))));
        for hash in Hash::ALL {
            let length = hash.length();
            all.push((hash, Message::Success1 { response: None, length }));
            all.push((hash, Message::Success1 { response: Some(vec![8; length]), length }));
            for group in Group::ALL.map(Some).into_iter().chain([None]) {
                let public = vec![5; group.map_or(0, Group::length)];
                all.push((
                    hash,
                    Message::Challenge {
                        hash,
                        group: group.map(|group| (group, public.clone())),
                        sequence: 0x1234_5678,
                        challenge: vec![7; length],
                    },
                ));
                for challenge in [None, Some(vec![6; length])] {
                    let response = vec![9; length];
                    all.push((
                        hash,
                        Message::Reply { response, challenge, sequence: 3, public: public.clone() },
                    ));
                }
            }
        }
        all
    }

    #[test]
    fn every_message_reads_back() {
        for (hash, message) in messages() {
            let written = message.to_bytes(0xabcd);
            assert!(written.len() <= LENGTH_MAX);
            assert_eq!(Message::parse(&written, Some(hash)), Ok((0xabcd, message.clone())));
            // A Receive is answered with the message and zeroes after it.
            let padded = [&written[..], &[0; 100]].concat();
            assert_eq!(Message::parse(&padded, Some(hash)), Ok((0xabcd, message.clone())));
        }
    }

    /// Messages of Linux 6.12's host and target.
    #[test]
    fn messages_of_linux_are_read() {
        let mut negotiate = bytes("0000000001000001010003060102030000");
        negotiate.resize(72, 0);
        negotiate[42..48].copy_from_slice(&[0, 1, 2, 3, 4, 5]);
        let expected =
            Message::Negotiate { secure_channel: 0, hashes: vec![1, 2, 3], groups: vec![0, 1, 2, 3, 4, 5] };
        assert_eq!(Message::parse(&negotiate, None), Ok((1, expected.clone())));
        assert_eq!(expected.to_bytes(1), negotiate);
        let challenge = bytes(
            "010100000100200001000000 8233f4b7 c3bf1eb7f65f5368a2eed91f49e4ae1cef03571bdc778c5e70622effbf4b74bf"
                .replace(' ', "")
                .as_str(),
        );
        let (transaction, read) = Message::parse(&challenge, None).expect("a challenge");
        assert!(matches!(&read, Message::Challenge { hash: Hash::Sha256, group: None, .. }));
        assert_eq!(read.to_bytes(transaction), challenge);
        let success = bytes("01040000010000000000000000000000");
        assert_eq!(Message::parse(&success, None), Ok((1, Message::Success2)));
    }

    #[test]
    fn any_bytes_are_a_message_or_refused() {
        for (hash, message) in messages() {
            let written = message.to_bytes(1);
            for cut in 0..written.len().min(100) {
                let read = Message::parse(&written[..cut], Some(hash));
                assert!(read.is_err(), "{message:?} cut at {cut}");
            }
            for at in 0..written.len().min(100) {
                for value in [0, 1, 2, 0x7f, 0xff] {
                    let mut changed = written.clone();
                    changed[at] = value;
                    if let Ok((transaction, read)) = Message::parse(&changed, Some(hash)) {
                        let again = read.to_bytes(transaction);
                        assert_eq!(Message::parse(&again, Some(hash)), Ok((transaction, read)));
                    }
                }
            }
        }
        let wrong = Message::Reply { response: vec![1; 48], challenge: None, sequence: 1, public: vec![] };
        assert_eq!(Message::parse(&wrong.to_bytes(1), Some(Hash::Sha256)), Err(Explanation::Payload));
        assert_eq!(
            Message::parse(&wrong.to_bytes(1), None),
            Err(Explanation::Payload),
            "before the challenge"
        );
    }
}
