//! The connections of this thread's subsystems, for operators.

use super::Pipeline;
use super::sessions::Session;
use crate::listing::ConnectionFacts;
use crate::proof::Proof;
use auth::exchange::Outcome;
use units::Instant;

impl Pipeline {
    /// All connections, and those that have ended while IOs of them are on a device.
    pub(super) fn list(&self, now: Instant) -> Vec<ConnectionFacts> {
        self.commands.sessions.iter().map(|session| self.facts(now, session)).collect()
    }

    fn facts(&self, now: Instant, session: &Session) -> ConnectionFacts {
        let (_, controller) = session.controller();
        let thread = match session.wire.thread() {
            None => format!("device {}", self.name),
            Some(thread) => format!("connections {thread}"),
        };
        ConnectionFacts {
            peer: session.peer,
            host: session.admission.shared_host(),
            subsystem: self.commands.homes.name(session.subsystem).map(str::to_owned),
            controller,
            queue: session.queue_id,
            thread,
            is_open: session.wire.is_open(),
            is_authenticated: session.is_proved || session.proof.as_ref().is_some_and(|proof| proved(proof)),
            transport: session.transport.word(),
            has_tls: session.secured.is_some(),
            age: now.since(session.since),
            ios: session.ios,
        }
    }
}

fn proved(proof: &Proof) -> bool {
    matches!(proof.outcome(), Outcome::Proved(_))
}
