#include "database.h"

#include <stdexcept>
#include <utility>

#include "rocksdb/convenience.h"
#include "rocksdb/env.h"
#include "versions.h"

namespace gimbal {
namespace ycsb {
namespace {

rocksdb::Slice SliceOf(rust::Str text) { return {text.data(), text.size()}; }

void Demand(const rocksdb::Status& status, const std::string& what) {
  if (!status.ok()) {
    throw std::runtime_error(what + ": " + status.ToString());
  }
}

}  // namespace

Database::Database(std::shared_ptr<rocksdb::Env> env, std::unique_ptr<rocksdb::DB> db,
                   std::shared_ptr<rocksdb::Statistics> statistics)
    : env_(std::move(env)), db_(std::move(db)), statistics_(std::move(statistics)) {}

std::unique_ptr<Value> Database::get(rust::Str key) const {
  auto value = std::make_unique<Value>();
  const rocksdb::Status status =
      db_->Get(rocksdb::ReadOptions(), db_->DefaultColumnFamily(), SliceOf(key), value->slice());
  if (status.IsNotFound()) {
    return nullptr;
  }
  Demand(status, "reading a record");
  return value;
}

void Database::put(rust::Str key, rust::Slice<const uint8_t> value, bool is_synced) const {
  rocksdb::WriteOptions options;
  options.sync = is_synced;
  const rocksdb::Slice bytes(reinterpret_cast<const char*>(value.data()), value.size());
  Demand(db_->Put(options, SliceOf(key), bytes), "writing a record");
}

uint64_t Database::scan(rust::Str from, uint64_t count) const {
  const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(rocksdb::ReadOptions()));
  uint64_t found = 0;
  for (at->Seek(SliceOf(from)); found < count && at->Valid(); at->Next()) {
    found += at->value().empty() ? 0 : 1;
  }
  Demand(at->status(), "scanning records");
  return found;
}

void Database::flush() const { Demand(db_->Flush(rocksdb::FlushOptions()), "flushing the database"); }

uint64_t Database::counted(rust::Str name) const {
  const std::string wanted(name);
  for (const auto& ticker : rocksdb::TickersNameMap) {
    if (ticker.second == wanted) {
      return statistics_->getTickerCount(ticker.first);
    }
  }
  throw std::runtime_error("RocksDB counts nothing of the name " + wanted);
}

std::unique_ptr<Database> open_database(rust::Str uri, rust::Str path, rust::Str text, bool is_new) {
  rocksdb::ConfigOptions config;
  rocksdb::Options options;
  std::shared_ptr<rocksdb::Env> env;
  if (!uri.empty()) {
    Demand(rocksdb::Env::CreateFromUri(config, "", std::string(uri), &options.env, &env), "opening the file system");
  }
  config.env = options.env;
  rocksdb::Options given;
  Demand(rocksdb::GetOptionsFromString(config, options, std::string(text), &given), "RocksDB's options");
  given.env = options.env;
  given.create_if_missing = is_new;
  given.error_if_exists = is_new;
  given.statistics = rocksdb::CreateDBStatistics();
  given.statistics->set_stats_level(rocksdb::StatsLevel::kExceptTimers);
  std::unique_ptr<rocksdb::DB> db;
  Demand(OpenDb(given, std::string(path), &db), "opening the database " + std::string(path));
  return std::make_unique<Database>(env, std::move(db), given.statistics);
}

}  // namespace ycsb
}  // namespace gimbal
