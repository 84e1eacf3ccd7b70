//! A command on its way into the host's end of a queue pair, for every transport.

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

/// A command that was not accepted; returns its data.
#[derive(Debug, PartialEq, Eq)]
pub struct SubmitError<B> {
    /// Why.
    pub refusal: Refusal,
    /// The data of the command.
    pub transfer: Transfer<B>,
}
