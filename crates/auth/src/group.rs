//! The finite fields of RFC 7919, and the Diffie-Hellman exchange in them.
//!
//! The primes are not listed here but made by the formula of the RFC:
//!
//! ```text
//! p = 2^b - 2^(b-64) + (floor(2^(b-130) * e) + x) * 2^64 - 1
//! ```
//!
//! Holds: they are the primes of OpenSSL (`primes_are_those_of_openssl`); both ends get the same secret, padded to the
//!        length of the prime; 0, 1, p - 1, p and what has another length are refused (`a_public_value_that_gives_the_secret_away_is_refused`).
//! RFC 7919, section 5.2 (exponents) and appendix A (primes); NVM Express Base Specification: "DH group identifiers".

use crate::key::Secret;
use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd, Resize};
use std::sync::OnceLock;
use zeroize::Zeroize;

/// A finite field with the generator 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// ffdhe2048.
    Ffdhe2048,
    /// ffdhe3072.
    Ffdhe3072,
    /// ffdhe4096.
    Ffdhe4096,
    /// ffdhe6144.
    Ffdhe6144,
    /// ffdhe8192.
    Ffdhe8192,
}

/// A public value of the other end that no honest end sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the public value is not between 2 and p - 2, or has another length than p")]
pub struct InvalidPublicValue;

impl Group {
    /// All groups.
    pub const ALL: [Group; 5] =
        [Group::Ffdhe2048, Group::Ffdhe3072, Group::Ffdhe4096, Group::Ffdhe6144, Group::Ffdhe8192];

    /// The identifier in DH-HMAC-CHAP; 0 is the exchange without a group.
    pub const fn id(self) -> u8 {
        match self {
            Group::Ffdhe2048 => 1,
            Group::Ffdhe3072 => 2,
            Group::Ffdhe4096 => 3,
            Group::Ffdhe6144 => 4,
            Group::Ffdhe8192 => 5,
        }
    }

    /// The group with this identifier.
    pub fn from_id(id: u8) -> Option<Group> {
        Group::ALL.into_iter().find(|group| group.id() == id)
    }

    /// The name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Group::Ffdhe2048 => "ffdhe2048",
            Group::Ffdhe3072 => "ffdhe3072",
            Group::Ffdhe4096 => "ffdhe4096",
            Group::Ffdhe6144 => "ffdhe6144",
            Group::Ffdhe8192 => "ffdhe8192",
        }
    }

    /// Bits of the prime, the number x of its formula, and bits of an exponent: twice the strength of the group.
    const fn constants(self) -> (u32, u64, u32) {
        match self {
            Group::Ffdhe2048 => (2048, 560_316, 225),
            Group::Ffdhe3072 => (3072, 2_625_351, 275),
            Group::Ffdhe4096 => (4096, 5_736_041, 325),
            Group::Ffdhe6144 => (6144, 15_705_020, 375),
            Group::Ffdhe8192 => (8192, 10_965_728, 400),
        }
    }

    /// Length of the prime, a public value and a shared secret, in bytes.
    pub const fn length(self) -> usize {
        self.constants().0 as usize / 8
    }

    /// Length of an exponent, in bytes.
    pub const fn exponent_length(self) -> usize {
        self.constants().2.div_ceil(8) as usize
    }

    /// The public value of a secret exponent: 2^exponent mod p, big-endian.
    ///
    /// # Panics
    /// If the exponent has another length than `exponent_length`.
    pub fn public_value(self, exponent: &Secret) -> Vec<u8> {
        self.power(&BoxedUint::from(2u64), exponent)
    }

    /// The secret that both ends share: peer^exponent mod p, big-endian.
    ///
    /// # Errors
    /// The value of the peer is none.
    ///
    /// # Panics
    /// If the exponent has another length than `exponent_length`.
    pub fn shared_secret(self, exponent: &Secret, peer: &[u8]) -> Result<Secret, InvalidPublicValue> {
        let prime = self.prime();
        let bits = self.constants().0;
        if peer.len() != self.length() {
            return Err(InvalidPublicValue);
        }
        let value = BoxedUint::from_be_slice(peer, bits).map_err(|_| InvalidPublicValue)?;
        let least = BoxedUint::from(2u64).resize(bits);
        let most = prime.as_ref().wrapping_sub(&least);
        if value < least || value > most {
            return Err(InvalidPublicValue);
        }
        Ok(Secret::new(self.power(&value, exponent)))
    }

    fn power(self, base: &BoxedUint, exponent: &Secret) -> Vec<u8> {
        let (bits, _, exponent_bits) = self.constants();
        assert_eq!(exponent.expose().len(), self.exponent_length(), "the exponent of {}", self.name());
        let whole = exponent_bits.next_multiple_of(8);
        let mut exponent = BoxedUint::from_be_slice(exponent.expose(), whole.next_multiple_of(64))
            .expect("an exponent fits its length");
        let params = BoxedMontyParams::new(self.prime().clone());
        let power = BoxedMontyForm::new(base.resize(bits), &params).pow_bounded_exp(&exponent, whole);
        let mut number = power.retrieve();
        let bytes = number.to_be_bytes().into_vec();
        number.zeroize();
        exponent.zeroize();
        bytes
    }

    /// The prime; made when it is first asked for.
    fn prime(self) -> &'static Odd<BoxedUint> {
        static PRIMES: [OnceLock<Odd<BoxedUint>>; 5] = [const { OnceLock::new() }; 5];
        PRIMES[usize::from(self.id()) - 1].get_or_init(|| {
            let (bits, x, _) = self.constants();
            let middle = floor_of_e(bits - 130).wrapping_add(BoxedUint::from(x).resize(bits));
            // 2^b - 2^(b-64): the highest 64 bits are ones.
            let top = BoxedUint::from(u64::MAX).resize(bits).shl(bits - 64);
            let one = BoxedUint::one_with_precision(bits);
            let prime = top.wrapping_add(middle.shl(64)).wrapping_sub(&one);
            Odd::new(prime).expect("its last bits are ones")
        })
    }
}

/// The integer part of 2^bits * e, with room for 130 bits more: the sum of 2^bits / k! until nothing is added. Each term loses less than one
/// unit, so 64 more bits are computed and cut off.
fn floor_of_e(bits: u32) -> BoxedUint {
    const GUARD: u32 = 64;
    let precision = bits + 130;
    let room = precision + GUARD;
    let mut term = BoxedUint::one_with_precision(room).shl(bits + GUARD);
    let mut sum = term.clone();
    for k in 1u64.. {
        let divisor = BoxedUint::from(k).resize(room).to_nz().expect("k is not zero");
        term = term.wrapping_div_vartime(&divisor);
        if bool::from(term.is_zero()) {
            break;
        }
        sum = sum.wrapping_add(&term);
    }
    sum.shr(GUARD).resize(precision)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use std::process::Command;

    fn exponent(group: Group, seed: u8) -> Secret {
        Secret::new((0..group.exponent_length()).map(|at| seed.wrapping_mul(at as u8 + 1) ^ 0x5a).collect())
    }

    /// The parameters of a group as `openssl` writes them: a sequence of the prime and the generator.
    fn parameters_of_openssl(group: Group) -> Vec<u8> {
        let option = format!("group:{}", group.name());
        let arguments = ["genpkey", "-genparam", "-algorithm", "DH", "-pkeyopt", &option];
        let output = Command::new("openssl").args(arguments).output().expect("the package openssl is there");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let pem = String::from_utf8(output.stdout).expect("PEM");
        STANDARD.decode(pem.lines().filter(|line| !line.starts_with('-')).collect::<String>()).expect("PEM")
    }

    #[test]
    fn both_ends_share_a_secret_as_long_as_the_prime() {
        for group in Group::ALL {
            let (ours, theirs) = (exponent(group, 3), exponent(group, 7));
            let (public, peer) = (group.public_value(&ours), group.public_value(&theirs));
            assert_eq!((public.len(), Group::from_id(group.id())), (group.length(), Some(group)));
            let secret = group.shared_secret(&ours, &peer).expect("a public value");
            assert_eq!(group.shared_secret(&theirs, &public), Ok(secret.clone()));
            assert_eq!(secret.expose().len(), group.length());
        }
    }

    #[test]
    fn a_public_value_that_gives_the_secret_away_is_refused() {
        let group = Group::Ffdhe2048;
        let prime = group.prime().as_ref().clone();
        let bytes = |number: &BoxedUint| number.to_be_bytes().into_vec();
        let less = |by: u64| bytes(&prime.wrapping_sub(BoxedUint::from(by).resize(2048)));
        let small = |number: u64| bytes(&BoxedUint::from(number).resize(2048));
        let secret = exponent(group, 5);
        for bad in [small(0), small(1), less(1), less(0), vec![0xff; 256], vec![2; 255], vec![2; 257], vec![]]
        {
            assert_eq!(group.shared_secret(&secret, &bad), Err(InvalidPublicValue), "{} bytes", bad.len());
        }
        for good in [small(2), less(2)] {
            assert!(group.shared_secret(&secret, &good).is_ok());
        }
    }

    #[test]
    fn primes_are_those_of_openssl() {
        for group in Group::ALL {
            let prime = group.prime().as_ref().to_be_bytes();
            // INTEGER: a zero, as the first bit is set, then the prime.
            let number = [&[0][..], &prime].concat();
            let theirs = parameters_of_openssl(group);
            let found = theirs.windows(number.len()).any(|window| window == number);
            assert!(found, "{}", group.name());
        }
    }
}
