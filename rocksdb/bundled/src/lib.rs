//! Volumes for Rust programs whose crate brings RocksDB along and links it statically.
//!
//! ```text
//!   gimbal_rocksdb::register();
//!   let options = Options::default().get_options_from_string("env={id=gimbal://db?store=STORE}")?;
//! ```
//!
//! This source is that of two packages, which differ in the crate that they are for: `gimbal-for-rocksdb` and `gimbal-for-rust-rocksdb`.

#[path = "../../src/register.rs"]
mod register;

mod env;

// The C++ half calls it.
use gimbal_rocksdb_core as _;

pub use env::env;
pub use register::register;
