//! NVMe Qualified Names: the names of hosts and subsystems.
//!
//! On the wire a name is a 256-byte field that ends with a zero byte: up to 223 bytes of UTF-8. The prefix is
//! not checked, because some hosts use names without one. Control characters (newline, escape) are refused:
//! no real name has one, and with them an attacker could forge lines in a log or control a terminal.
//!
//! Holds: a name survives its field, and a field without an end is refused (`a_name_survives_its_field`).
//! NVM Express Base Specification: "NVMe Qualified Names".

use alloc::boxed::Box;
use alloc::format;
use core::fmt;

/// Bytes of a name's field on the wire.
pub const NQN_FIELD_SIZE: usize = 256;
/// Longest name, in bytes.
pub const NQN_LENGTH_MAX: usize = 223;

/// Prefix of an NQN that is made from a UUID; the UUID follows.
const UUID_PREFIX: &str = "nqn.2014-08.org.nvmexpress:uuid:";

/// Why an NQN is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NqnError {
    /// No characters.
    #[error("the NQN is empty")]
    Empty,
    /// Longer than 223 bytes, or a field without its ending zero byte.
    #[error("the NQN is longer than 223 bytes")]
    TooLong,
    /// Not UTF-8, or a control character inside.
    #[error("the NQN is not UTF-8 text, or has control characters")]
    NotText,
}

/// An NVMe Qualified Name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nqn(Box<str>);

impl Nqn {
    /// The well-known name of every discovery subsystem.
    pub const DISCOVERY: &'static str = "nqn.2014-08.org.nvmexpress.discovery";

    /// The well-known name of every discovery subsystem.
    pub fn discovery() -> Nqn {
        Nqn(Nqn::DISCOVERY.into())
    }

    /// The name of a host that sends an identifier but no name.
    pub fn of_uuid(uuid: [u8; 16]) -> Nqn {
        let text = format!("{:032x}", u128::from_be_bytes(uuid));
        let [a, b, c, d, e] = [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]];
        Nqn(format!("{UUID_PREFIX}{a}-{b}-{c}-{d}-{e}").into())
    }

    /// From text.
    pub fn new(name: &str) -> Result<Nqn, NqnError> {
        match name.len() {
            0 => Err(NqnError::Empty),
            1..=NQN_LENGTH_MAX if name.contains(char::is_control) => Err(NqnError::NotText),
            1..=NQN_LENGTH_MAX => Ok(Nqn(name.into())),
            _ => Err(NqnError::TooLong),
        }
    }

    /// From its field on the wire.
    pub fn from_field(field: &[u8; NQN_FIELD_SIZE]) -> Result<Nqn, NqnError> {
        let end = field.iter().position(|&byte| byte == 0).ok_or(NqnError::TooLong)?;
        Nqn::new(core::str::from_utf8(&field[..end]).map_err(|_| NqnError::NotText)?)
    }

    /// As its field on the wire.
    pub fn to_field(&self) -> [u8; NQN_FIELD_SIZE] {
        let mut field = [0; NQN_FIELD_SIZE];
        field[..self.0.len()].copy_from_slice(self.0.as_bytes());
        field
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Nqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Nqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_survives_its_field() {
        let name = Nqn::new("nqn.2014-08.org.example:a").expect("a good name");
        assert_eq!(Nqn::from_field(&name.to_field()), Ok(name));
        assert_eq!(Nqn::from_field(&[b'a'; 256]), Err(NqnError::TooLong));
        assert_eq!(Nqn::from_field(&[0; 256]), Err(NqnError::Empty));
        let mut not_text = [0; 256];
        not_text[0] = 0xff;
        assert_eq!(Nqn::from_field(&not_text), Err(NqnError::NotText));
    }

    #[test]
    fn control_characters_are_refused() {
        for name in ["nqn.a\n", "nqn.\u{1b}[2J", "nqn.\u{9b}31m", "\t", "a\0b", "\u{7f}"] {
            assert_eq!(Nqn::new(name), Err(NqnError::NotText), "{name:?}");
        }
        assert!(Nqn::new("nqn.2025-01.io.example:größe").is_ok());
    }

    #[test]
    fn a_uuid_is_a_name() {
        let uuid = core::array::from_fn(|byte| byte as u8 * 0x11);
        let name = "nqn.2014-08.org.nvmexpress:uuid:00112233-4455-6677-8899-aabbccddeeff";
        assert_eq!(Nqn::of_uuid(uuid).as_str(), name);
    }

    #[test]
    fn the_longest_name_has_223_bytes() {
        let longest = alloc::string::String::from_utf8(alloc::vec![b'a'; 224]).expect("text");
        assert!(Nqn::new(&longest[..223]).is_ok());
        assert_eq!(Nqn::new(&longest), Err(NqnError::TooLong));
    }
}
