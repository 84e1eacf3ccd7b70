//! Compiles the C++ half against the RocksDB that the crate brings along.

use gimbal_rocksdb_shim::{RocksDb, compile};

fn main() {
    compile(&RocksDb::of_crate());
}
