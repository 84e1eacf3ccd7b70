//! Compiles the C++ half against the RocksDB that pkg-config finds.

use gimbal_rocksdb_shim::{RocksDb, compile};

fn main() {
    compile(&RocksDb::of_system());
}
