//! The first byte of a connection: before it, the host's protocol is unknown.
//!
//! | first byte | protocol                                                       |
//! |------------|----------------------------------------------------------------|
//! | 16h        | TLS: a handshake record (RFC 8446, section 5.1)                |
//! | other      | NVMe/TCP: 00h is ICReq, and its parser refuses everything else |

/// ContentType of a TLS record: handshake.
const TLS_HANDSHAKE: u8 = 0x16;

/// A protocol that a host begins to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// NVMe/TCP.
    NvmeTcp,
    /// TLS.
    Tls,
}

impl Protocol {
    /// The protocol that begins with these bytes; `None` if there are none yet.
    pub(crate) fn of(bytes: &[u8]) -> Option<Protocol> {
        match bytes.first()? {
            &TLS_HANDSHAKE => Some(Protocol::Tls),
            _ => Some(Protocol::NvmeTcp),
        }
    }
}
