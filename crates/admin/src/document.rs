//! The text that a target runs by, and its generation.

use sha2::{Digest, Sha256};
use std::fmt::Write;

/// The text of a configuration, and the SHA-256 of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    text: String,
    generation: String,
}

impl Document {
    /// The document with this text.
    pub fn new(text: String) -> Document {
        let digest = Sha256::digest(text.as_bytes());
        let generation = digest.iter().fold(String::new(), |mut digits, byte| {
            write!(digits, "{byte:02x}").expect("a string grows");
            digits
        });
        Document { text, generation }
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its generation: 64 hexadecimal digits.
    pub fn generation(&self) -> &str {
        &self.generation
    }
}
