//! NVMe/TCP PDUs: parses bytes into headers and payload, and writes headers as bytes.
//!
//! Every PDU has the same shape. PLEN counts all of it, PDO says where the data starts:
//!
//!   | common header 8 | specific part | HDGST 4 | padding | data | DDGST 4 |
//!   |<----------- HLEN -------------->|                   ^ PDO
//!
//! | type        | HLEN | to         | data          | file       |
//! |-------------|------|------------|---------------|------------|
//! | ICReq       | 128  | controller | no            | `ic`       |
//! | ICResp      | 128  | host       | no            | `ic`       |
//! | H2CTermReq  | 24   | controller | header copy   | `term`     |
//! | C2HTermReq  | 24   | host       | header copy   | `term`     |
//! | CapsuleCmd  | 72   | controller | in-capsule    | `capsule`  |
//! | CapsuleResp | 24   | host       | no            | `capsule`  |
//! | H2CData     | 24   | controller | yes           | `transfer` |
//! | C2HData     | 24   | host       | yes           | `transfer` |
//! | R2T         | 24   | host       | no            | `transfer` |
//!
//! Each layout is one zerocopy struct that is used to parse, to emit and in the round-trip tests. `rules`
//! says which headers a receiver accepts and where the parts of a PDU are, `reader` splits a byte stream into
//! them, `emit` writes PDUs, `digest` computes CRC32C.
//!
//! NVM Express NVMe/TCP Transport Specification, "NVMe/TCP PDU definitions".

pub mod capsule;
pub mod common;
pub mod digest;
pub mod emit;
pub mod ic;
pub mod reader;
pub mod rules;
pub mod term;
pub mod transfer;

pub use capsule::{CapsuleCmd, CapsuleResp};
pub use common::{CommonHeader, End, Header, PduType};
pub use digest::{Crc32c, Digests, crc32c};
pub use emit::Framing;
pub use ic::{IcReq, IcResp};
pub use reader::{PduReader, Step};
pub use rules::{Layout, Rules};
pub use term::{FatalStatus, TermReq, Violation};
pub use transfer::{C2hData, H2cData, R2t};

#[cfg(test)]
mod tests;
