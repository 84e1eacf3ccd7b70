//! A command on its way into the host's end of a queue pair, for every transport.

use super::cid_table::CidTable;

/// A command's data.
#[derive(Debug, PartialEq, Eq)]
pub enum Transfer<B> {
    /// None.
    None,
    /// The first bytes of the buffer go to the controller.
    ToController(B, u32),
    /// Up to this many bytes come from the controller into the buffer.
    FromController(B, u32),
}

/// Why a command was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The limit of outstanding commands is reached.
    Full,
    /// A command with the same identifier is outstanding.
    IdentifierInUse,
    /// The connection has ended.
    Over,
}

impl Refusal {
    /// The reason why a command with this identifier is not accepted beside those in `numbers`, if there is one.
    #[inline]
    pub(crate) fn of<V: Copy>(is_over: bool, numbers: &CidTable<V>, cid: u16) -> Option<Refusal> {
        match () {
            () if is_over => Some(Refusal::Over),
            () if numbers.get(cid).is_some() => Some(Refusal::IdentifierInUse),
            () if numbers.is_full() => Some(Refusal::Full),
            () => None,
        }
    }
}

/// A command that was not accepted; returns its data.
#[derive(Debug, PartialEq, Eq)]
pub struct SubmitError<B> {
    /// Why.
    pub refusal: Refusal,
    /// The data of the command.
    pub transfer: Transfer<B>,
}
