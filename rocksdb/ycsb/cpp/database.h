// A RocksDB database with the few calls that the workloads need.

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "rocksdb/db.h"
#include "rocksdb/statistics.h"
#include "rust/cxx.h"

namespace gimbal {
namespace ycsb {

// What a key stands for. RocksDB keeps the bytes for as long as this lives.
class Value {
 public:
  rust::Slice<const uint8_t> bytes() const {
    return {reinterpret_cast<const uint8_t*>(slice_.data()), slice_.size()};
  }
  rocksdb::PinnableSlice* slice() { return &slice_; }

 private:
  rocksdb::PinnableSlice slice_;
};

// Errors are exceptions: Rust gets them as texts.
class Database {
 public:
  // `env`: what the database lies on, if that is not the local file system.
  Database(std::shared_ptr<rocksdb::Env> env, std::unique_ptr<rocksdb::DB> db,
           std::shared_ptr<rocksdb::Statistics> statistics);

  // Null if there is no such key.
  std::unique_ptr<Value> get(rust::Str key) const;
  void put(rust::Str key, rust::Slice<const uint8_t> value, bool is_synced) const;
  // Reads at most `count` keys and values. How many there were.
  uint64_t scan(rust::Str from, uint64_t count) const;
  // Writes what is in memory to tables.
  void flush() const;
  // How often, or how much, as RocksDB's statistics call it.
  uint64_t counted(rust::Str name) const;

 private:
  // Outlives the database.
  std::shared_ptr<rocksdb::Env> env_;
  std::unique_ptr<rocksdb::DB> db_;
  std::shared_ptr<rocksdb::Statistics> statistics_;
};

// `uri`: a file system that is registered; empty: the local one. `is_new`: makes a database, and fails if there is one.
std::unique_ptr<Database> open_database(rust::Str uri, rust::Str path, rust::Str options, bool is_new);

}  // namespace ycsb
}  // namespace gimbal
