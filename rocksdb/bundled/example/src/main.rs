//! A Rust program whose RocksDB is linked statically, on a volume.
//!
//! ```text
//!   gimbal-example 'gimbal://db?store=STORE' fill     puts keys, each with a sync, and says which are safe, until it is ended
//!   gimbal-example 'gimbal://db?store=STORE' repair   repairs the database
//!   gimbal-example 'gimbal://db?store=STORE' check N  reads the keys below N, alone and in groups, and scans all
//! ```

use gimbal_example::{PATH, check, fill, options};
use rust_rocksdb::DB;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [uri, "fill"] => fill(&DB::open(&options(uri)?, PATH)?),
        [uri, "repair"] => Ok(DB::repair(&options(uri)?, PATH)?),
        [uri, "check", count] => check(&DB::open(&options(uri)?, PATH)?, count.parse()?),
        _ => Err("usage: gimbal-example URI fill|repair|check N".into()),
    }
}
