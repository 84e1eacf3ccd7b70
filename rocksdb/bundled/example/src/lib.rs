//! A database on a volume, for a program whose RocksDB is linked statically: the template for your own.

use rust_rocksdb::{DB, IteratorMode, Options, ReadOptions, WriteOptions};
use std::error::Error;
use std::io::Write;

/// The database on the volume.
pub const PATH: &str = "/example";

/// Options for a database on a volume.
///
/// # Errors
/// The volume cannot be mounted.
pub fn options(uri: &str) -> Result<Options, Box<dyn Error>> {
    gimbal_rocksdb::register();
    let mut options = Options::default().get_options_from_string(format!("env={{id={uri}}}"))?;
    options.create_if_missing(true);
    // Small, so that there are tables and compactions.
    options.set_write_buffer_size(1 << 16);
    Ok(options)
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn value(number: u64) -> Vec<u8> {
    let length = 100 + (number * 7919 % 900) as usize;
    number.to_le_bytes().into_iter().cycle().take(length).collect()
}

/// Puts keys, each with a sync, and says which are safe, until the process is ended.
///
/// # Errors
/// A key was not put.
pub fn fill(db: &DB) -> Result<(), Box<dyn Error>> {
    let mut sync = WriteOptions::default();
    sync.set_sync(true);
    for number in 0.. {
        db.put_opt(key(number), value(number), &sync)?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{number}")?;
        out.flush()?;
    }
    Ok(())
}

/// Reads the keys below `count`, alone and in groups, and scans all.
///
/// # Errors
/// One is wrong or missing.
pub fn check(db: &DB, count: u64) -> Result<(), Box<dyn Error>> {
    for number in 0..count {
        if db.get(key(number))? != Some(value(number)) {
            return Err(format!("key {number} is wrong or missing").into());
        }
    }
    let keys: Vec<_> = (0..count).map(key).collect();
    for (number, found) in (0..).zip(db.multi_get(&keys)) {
        if found? != Some(value(number)) {
            return Err(format!("key {number} is wrong or missing in a group").into());
        }
    }
    let mut ahead = ReadOptions::default();
    ahead.set_async_io(true);
    ahead.set_readahead_size(256 << 10);
    let mut found = 0;
    for entry in db.iterator_opt(IteratorMode::Start, ahead) {
        let (scanned, content) = entry?;
        if *scanned != key(found) || *content != value(found) {
            return Err(format!("the scan differs at key {found}").into());
        }
        found += 1;
    }
    if found < count {
        return Err(format!("the scan found {found} keys of at least {count}").into());
    }
    println!("{found} keys are right");
    Ok(())
}
