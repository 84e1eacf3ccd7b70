//! Counts of hosts that did not prove who they are, by reason.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why a host was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Refusal {
    /// It sent other commands before its proof.
    NoProof,
    /// Its messages were malformed, or out of turn.
    Protocol,
    /// It has no hash or no group in common with the target.
    NothingInCommon,
    /// Its response was not the one of its key.
    Failed,
    /// It has no key here.
    Unknown,
    /// It asked for a secure channel, which is not offered.
    SecureChannel,
    /// It did not finish in time, or ended the connection before the end.
    Unfinished,
    /// It connected without TLS, which its subsystem, or its key, asks for.
    TlsRequired,
    /// It began with TLS, which its subsystem does not have.
    TlsOff,
    /// No identity that it offered has a key for TLS here.
    TlsUnknown,
    /// Its key for TLS is another one.
    TlsWrongKey,
    /// It offered no pre-shared key of TLS 1.3, or not its cipher suite.
    TlsNoPsk,
    /// Its TLS was malformed, or failed after the first message.
    TlsMalformed,
    /// It did not finish the handshake of TLS.
    TlsUnfinished,
    /// A record of its TLS was broken, after the handshake.
    TlsRecord,
    /// It updated its keys of TLS too often.
    TlsKeyUpdates,
    /// Its Connect named another host or subsystem than the one that TLS has proved.
    IdentityMismatch,
}

impl Refusal {
    /// All reasons.
    pub const ALL: [Refusal; 17] = [
        Refusal::NoProof,
        Refusal::Protocol,
        Refusal::NothingInCommon,
        Refusal::Failed,
        Refusal::Unknown,
        Refusal::SecureChannel,
        Refusal::Unfinished,
        Refusal::TlsRequired,
        Refusal::TlsOff,
        Refusal::TlsUnknown,
        Refusal::TlsWrongKey,
        Refusal::TlsNoPsk,
        Refusal::TlsMalformed,
        Refusal::TlsUnfinished,
        Refusal::TlsRecord,
        Refusal::TlsKeyUpdates,
        Refusal::IdentityMismatch,
    ];

    /// The name in statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Refusal::NoProof => "no_proof",
            Refusal::Protocol => "auth_protocol",
            Refusal::NothingInCommon => "auth_no_common",
            Refusal::Failed => "auth_failed",
            Refusal::Unknown => "auth_unknown",
            Refusal::SecureChannel => "auth_concat",
            Refusal::Unfinished => "auth_unfinished",
            Refusal::TlsRequired => "tls_required",
            Refusal::TlsOff => "tls_off",
            Refusal::TlsUnknown => "tls_unknown",
            Refusal::TlsWrongKey => "tls_wrong_key",
            Refusal::TlsNoPsk => "tls_no_psk",
            Refusal::TlsMalformed => "tls_malformed",
            Refusal::TlsUnfinished => "tls_unfinished",
            Refusal::TlsRecord => "tls_record",
            Refusal::TlsKeyUpdates => "tls_key_updates",
            Refusal::IdentityMismatch => "identity_mismatch",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The counts at one moment, in the order of [`Refusal::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusalCounts([u64; Refusal::ALL.len()]);

impl RefusalCounts {
    /// Number of refusals for a reason.
    pub fn of(&self, refusal: Refusal) -> u64 {
        self.0[refusal as usize]
    }
}

/// The counters, which all threads share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusals(Arc<[AtomicU64; Refusal::ALL.len()]>);

impl Refusals {
    /// Counts one.
    pub(crate) fn count(&self, refusal: Refusal) {
        self.0[refusal as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The counts now.
    pub(crate) fn counts(&self) -> RefusalCounts {
        RefusalCounts(std::array::from_fn(|index| self.0[index].load(Ordering::Relaxed)))
    }
}
