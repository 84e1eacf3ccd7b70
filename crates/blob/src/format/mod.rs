//! The format of the bytes on the SSDs: blocks, the records of the journal, superblocks. docs/blob-store.md has the offsets in tables.

pub mod block;
mod codec;
pub mod record;
pub mod stream;
pub mod superblock;

pub use codec::Malformed;
