//! The values that prove a key in DH-HMAC-CHAP.
//!
//! ```text
//!   KS = H(g^xy mod p)      Ca = C without a group, else HMAC(KS, C)
//!   R1 = HMAC(K′ of the host,       Ca1 || S1 || T_ID || SC_C || "HostHost"   || NQN of the host       || 00h || NQN of the controller)
//!   R2 = HMAC(K′ of the controller, Ca2 || S2 || T_ID || SC_C || "Controller" || NQN of the controller || 00h || NQN of the host)
//! ```
//!
//! Holds: they are those of Linux's host and target (`an_exchange_of_linux_has_these_responses`).
//! NVM Express Base Specification: "DH-HMAC-CHAP Protocol", "DH-HMAC-CHAP_Reply message".

use crate::hash::Hash;
use crate::key::Secret;
use subtle::ConstantTimeEq;

/// The end that proves its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prover {
    /// The host, to the controller: R1.
    Host,
    /// The controller, to the host: R2.
    Controller,
}

/// The facts that both ends know of an exchange.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// The negotiated hash.
    pub hash: Hash,
    /// The hash of the shared secret, if there is a group: KS.
    pub session_key: Option<&'a Secret>,
    /// Transaction identifier.
    pub transaction: u16,
    /// Secure channel that the host asked for (SC_C).
    pub secure_channel: u8,
    /// The NQN of the host.
    pub host: &'a str,
    /// The NQN of the controller, as Connect named it.
    pub controller: &'a str,
}

/// KS of a shared secret.
pub fn session_key(hash: Hash, shared: &Secret) -> Secret {
    Secret::new(hash.digest(shared.expose()).to_vec())
}

impl Exchange<'_> {
    /// The response of `prover` with its transformed `key` to the challenge with this sequence number.
    pub fn response(&self, prover: Prover, key: &Secret, challenge: &[u8], sequence: u32) -> Vec<u8> {
        let augmented = match self.session_key {
            Some(session_key) => self.hash.hmac(session_key.expose(), &[challenge]).to_vec(),
            None => challenge.to_vec(),
        };
        let (label, own, other): (&[u8], _, _) = match prover {
            Prover::Host => (b"HostHost", self.host, self.controller),
            Prover::Controller => (b"Controller", self.controller, self.host),
        };
        let parts: [&[u8]; 8] = [
            &augmented,
            &sequence.to_le_bytes(),
            &self.transaction.to_le_bytes(),
            &[self.secure_channel],
            label,
            own.as_bytes(),
            &[0],
            other.as_bytes(),
        ];
        self.hash.hmac(key.expose(), &parts).to_vec()
    }

    /// Whether `response` is the one of `prover`. The comparison takes the same time for all wrong ones.
    pub fn is_proved(
        &self,
        prover: Prover,
        key: &Secret,
        (challenge, sequence): (&[u8], u32),
        response: &[u8],
    ) -> bool {
        self.response(prover, key, challenge, sequence).ct_eq(response).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::DhKey;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect()
    }

    /// An exchange between Linux 6.12's host and target on an IO queue: SHA-256, no group, both ways. The keys were made for it.
    #[test]
    fn an_exchange_of_linux_has_these_responses() {
        const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:5f1c3c6e-0000-4000-8000-000000000001";
        const SUBSYSTEM: &str = "nqn.2024-01.test:a";
        let parsed = |text| DhKey::parse(text).expect("a key");
        let host = parsed(
            "DHHC-1:03:cndm6sY3LR/71sC5YHpV38+yj9UF2V8jTeWu/FOnj0fAz7n6esA6R9H/+th8Gzxr5s5qzTA72LWhl3g+jfApA2UC2U4=:",
        );
        let controller = parsed("DHHC-1:00:6Uw9yvIEYTOzFPN6xxc5DpSl1eryS7YAwR9uyVHrH7p1JU4O:");
        let exchange = Exchange {
            hash: Hash::Sha256,
            session_key: None,
            transaction: 1,
            secure_channel: 0,
            host: HOST,
            controller: SUBSYSTEM,
        };
        let c1 = bytes("c3bf1eb7f65f5368a2eed91f49e4ae1cef03571bdc778c5e70622effbf4b74bf");
        let c2 = bytes("7d4f19b440cd7580a2a2f0d3b886fbbbf11dfb7a70fb9c1ddc6a59366889668e");
        let (s1, s2) =
            (u32::from_le_bytes([0x82, 0x33, 0xf4, 0xb7]), u32::from_le_bytes([0x83, 0x33, 0xf4, 0xb7]));
        let r1 = bytes("794e9b0753db5c6a59c4a1cd4844974c40532b250008b1621a5f1fae34f2ae3d");
        let r2 = bytes("eb25610258159af0a90eae07036cce7b91b2d6e565fcf138561735b40c2c4242");
        let (host, controller) = (host.transformed(HOST), controller.transformed(SUBSYSTEM));
        assert!(exchange.is_proved(Prover::Host, &host, (&c1, s1), &r1));
        assert!(exchange.is_proved(Prover::Controller, &controller, (&c2, s2), &r2));
        let mut wrong = r1.clone();
        wrong[31] ^= 1;
        for response in [&wrong[..], &r1[..31], &[], &r2] {
            assert!(!exchange.is_proved(Prover::Host, &host, (&c1, s1), response));
        }
        let other = Exchange { transaction: 2, ..exchange };
        assert!(!other.is_proved(Prover::Host, &host, (&c1, s1), &r1), "another transaction");
        assert!(!exchange.is_proved(Prover::Host, &host, (&c1, s1 + 1), &r1), "another sequence number");
    }
}
