// The version of RocksDB's headers, for the build: only preprocessed.
#include "rocksdb/version.h"
rocksdb_version ROCKSDB_MAJOR ROCKSDB_MINOR ROCKSDB_PATCH
