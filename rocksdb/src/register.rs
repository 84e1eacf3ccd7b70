//! The call that makes `gimbal://…` known to the RocksDB of this program.

#![allow(unsafe_code)]
#![deny(clippy::undocumented_unsafe_blocks)]

unsafe extern "C" {
    fn gimbal_rocksdb_register();
}

/// Makes `gimbal://…` known to RocksDB. Once more does nothing.
///
/// Ends the process if RocksDB is of another version than its headers were.
pub fn register() {
    // SAFETY: the function takes and returns nothing, and may be called by any thread at any time.
    unsafe { gimbal_rocksdb_register() }
}
