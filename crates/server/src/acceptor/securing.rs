//! TLS before NVMe/TCP: from the first byte of a ClientHello to the key that it proves.
//!
//! ```text
//!   16h ─► the ClientHello is collected ─► a key of the host that it names is right ─► handshake ─► ICReq, inside TLS
//!                 │                                    │ none is
//!                 └── malformed, too long ─────────────┴──► alert, counted, delays later ones of its address, closed
//! ```
//!
//! The identity that TLS has proved stays with the connection, and its Connect has to name the same host and subsystem. Until the handshake
//! is done the connection awaits ICReq, for `limits.handshake_timeout` in all; it holds at most 64 KiB, and may be evicted.
//!
//! A host that has made a key for TLS on its admin queue (`proving`) comes back with it; that key proves it, too.
//!
//! Holds: `tests/tls.rs`: no other version, key or identity gets in, and the reasons are counted.
//! NVMe/TCP Transport Specification: "Transport Layer Security"; RFC 8446, section 6.

use super::{Acceptor, Stage};
use crate::config::Tls;
use crate::log_throttle::Subject;
use crate::proof::{Names, Refusal, Uses};
use crate::quota::Origin;
use crate::slab::Key;
use auth::hello::{Alert, Chosen, Collector, Found, Mismatch};
use auth::psk::{Derivation, Kind};
use nvme::spec::Nqn;
use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use tls::Stream;
use tracing::{info, warn};
use units::Instant;

/// The names that TLS has proved.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) host: String,
    pub(super) controller: String,
    /// The kind of key that has proved them.
    pub(super) kind: Kind,
    /// The counts of the key, if it is of the configuration.
    uses: Option<Arc<Uses>>,
}

impl Identity {
    /// Counts the proof: the host has sent its Connect, so it has the key, and not only a recorded message.
    pub(super) fn count(&self, now: Instant) {
        if let Some(uses) = &self.uses {
            uses.note(now);
        }
    }
}

impl Acceptor {
    /// The first bytes of TLS have arrived.
    pub(super) fn begin_securing(&mut self, now: Instant, key: Key, bytes: &[u8]) {
        let Some(entry) = self.connections.get_mut(key) else { return };
        let is_off = self.routes.iter().all(|route| route.demand.tls == Tls::Off)
            && !self.parts.proofs.keys.discovery_has_tls();
        if is_off {
            let why = "it begins with TLS, which no subsystem has: write tls = \"optional\" into [security], or connect without it";
            let peer = entry.connection.peer();
            self.refuse_tls(now, key, Alert::HandshakeFailure);
            return self.note_unsecured(now, peer, Refusal::TlsOff, why);
        }
        entry.stage = Stage::Securing(Box::default());
        self.on_hello_bytes(now, key, bytes);
    }

    /// More bytes of a ClientHello have arrived.
    pub(super) fn on_hello_bytes(&mut self, now: Instant, key: Key, bytes: &[u8]) {
        let Some(entry) = self.connections.get_mut(key) else { return };
        let Stage::Securing(collector) = &mut entry.stage else { return };
        match collector.take(bytes) {
            Ok(false) => {}
            Ok(true) => {
                if let Stage::Securing(collector) = std::mem::replace(&mut entry.stage, Stage::Handshake) {
                    self.on_hello(now, key, *collector);
                }
            }
            Err(mismatch) => self.on_mismatch(now, key, mismatch, &Collector::default()),
        }
    }

    fn on_hello(&mut self, now: Instant, key: Key, collector: Collector) {
        let is_off = Cell::new(false);
        let keys = |host: &str, controller: &str| {
            let is_allowed = match self.routes.iter().find(|route| route.nqn == controller) {
                Some(route) => {
                    is_off.set(is_off.get() || route.demand.tls == Tls::Off);
                    route.demand.tls != Tls::Off && route.hosts.allows(host)
                }
                None => controller == Nqn::DISCOVERY && self.parts.proofs.keys.discovery_has_tls(),
            };
            let ring = &self.parts.proofs.keys;
            let names = Names { host: host.to_owned(), controller: controller.to_owned() };
            let generated = self.generated.find(now, &names, |origin| ring.is_origin(host, origin));
            ring.tls_keys(host, is_allowed, generated)
        };
        let chosen = match collector.hello().and_then(|hello| hello.choose(keys)) {
            Ok(chosen) => chosen,
            Err(mismatch) if is_off.get() => {
                let peer = self.connections.get(key).expect("it has just sent this").connection.peer();
                self.refuse_tls(now, key, Alert::HandshakeFailure);
                let why = "the subsystem that it names has tls = \"off\": write \"optional\" there, or connect without it";
                return self.note_unsecured(now, peer, Refusal::TlsOff, &format!("{why} ({mismatch})"));
            }
            Err(mismatch) => return self.on_mismatch(now, key, mismatch, &collector),
        };
        let Chosen { host, controller, psk, found } = chosen;
        let stream = match Stream::server(&psk) {
            Ok(stream) => stream,
            Err(broken) => return self.close(now, key, Subject::Dropped, &broken.to_string()),
        };
        let entry = self.connections.get_mut(key).expect("it has just sent this");
        let peer = entry.connection.peer();
        let (kind, uses) = match found {
            Found::Generated => (Kind::Generated, None),
            Found::Configured { index, derivation } => {
                let is_old = derivation == Derivation::OldLibnvme;
                if (index > 0 || is_old) && self.log_throttle.allows(now, peer.ip(), Subject::Connected) {
                    let derived = if is_old { ", derived as libnvme before 1.16 does" } else { "" };
                    info!(%peer, host, "the host proves itself with key {} of tls_key{derived}", index + 1);
                }
                (Kind::Retained, self.parts.proofs.keys.tls_uses(&host, index))
            }
        };
        entry.identity = Some(Identity { host, controller, kind, uses });
        if let Some(tcp) = entry.connection.tcp() {
            tcp.secure(stream);
        }
        self.parse(now, key, &collector.into_records());
    }

    /// The ClientHello proves no key.
    fn on_mismatch(&mut self, now: Instant, key: Key, mismatch: Mismatch, collector: &Collector) {
        let peer = self.connections.get(key).expect("it has just sent this").connection.peer();
        self.refuse_tls(now, key, mismatch.alert());
        let refusal = match mismatch {
            Mismatch::Malformed(_) => Refusal::TlsMalformed,
            Mismatch::OldVersion | Mismatch::NoPsk { .. } | Mismatch::NoSuite => Refusal::TlsNoPsk,
            Mismatch::Unknown { .. } => Refusal::TlsUnknown,
            Mismatch::WrongKey | Mismatch::WrongGeneratedKey | Mismatch::OtherHash => Refusal::TlsWrongKey,
        };
        let identities: Vec<String> = match collector.hello() {
            Ok(hello) => hello.identities().map(|identity| format!("{identity:?}")).collect(),
            Err(_) => Vec::new(),
        };
        let offered = if identities.is_empty() {
            String::new()
        } else {
            format!("; it offers {}", identities.join(" and "))
        };
        self.note_unsecured(now, peer, refusal, &format!("{mismatch}{offered}"));
    }

    /// Sends an alert, and then closes the connection.
    pub(super) fn refuse_tls(&mut self, now: Instant, key: Key, alert: Alert) {
        let Some(entry) = self.connections.get_mut(key) else { return };
        entry.stage = Stage::Refused;
        if let Some(tcp) = entry.connection.tcp() {
            tcp.refuse_tls(now, alert, &mut self.parts.reactor);
        }
        self.flush(now, key);
    }

    /// Counts and logs a host that TLS has not proved.
    pub(super) fn note_unsecured(&mut self, now: Instant, peer: SocketAddr, refusal: Refusal, why: &str) {
        self.parts.proofs.refusals.count(refusal);
        if !matches!(refusal, Refusal::TlsOff | Refusal::TlsRequired | Refusal::IdentityMismatch) {
            self.throttle.on_failure(now, Origin::of(peer.ip()));
        }
        if self.log_throttle.allows(now, peer.ip(), Subject::Unproved) {
            warn!(%peer, reason = %refusal, "connection refused: {why}");
        }
    }
}
