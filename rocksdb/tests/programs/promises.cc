// The database that is killed: promises URI ACKNOWLEDGED [verify].
//
// Every operation, one batch, changes one key and says in another key how many operations there have been. After each the program
// prints its number: from then on it must survive. When it starts, it asserts that it finds what the first N operations have made,
// all of it and nothing else, for an N that is not below ACKNOWLEDGED; prints "verified N"; and goes on, unless it is told not to.

#include <map>

#include "check.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/options.h"
#include "rocksdb/write_batch.h"
#include "versions.h"

using namespace rocksdb;

namespace {

constexpr uint64_t kKeys = 3000;
const char kCount[] = "count";

std::string KeyOf(uint64_t operation) {
  char key[16];
  std::snprintf(key, sizeof key, "key%06llu", static_cast<unsigned long long>(operation * 7919 % kKeys));
  return key;
}

bool IsDelete(uint64_t operation) { return operation % 11 == 0; }

std::string ValueOf(uint64_t operation) { return Content(operation, 0, 20 + operation % 400); }

uint64_t Verify(DB* db, uint64_t acknowledged) {
  std::string text;
  const Status status = db->Get(ReadOptions(), kCount, &text);
  CHECK(status.ok() || (status.IsNotFound() && acknowledged == 0));
  const uint64_t count = status.ok() ? std::stoull(text) : 0;
  if (count < acknowledged) {
    std::fprintf(stderr, "%llu operations were acknowledged, and %llu are there\n",
                 static_cast<unsigned long long>(acknowledged), static_cast<unsigned long long>(count));
    std::_Exit(1);
  }
  std::map<std::string, std::string> wanted;
  // Older operations have all been overwritten: 7919 and kKeys have no common factor.
  for (uint64_t operation = count > kKeys ? count - kKeys + 1 : 1; operation <= count; operation++) {
    if (IsDelete(operation)) {
      wanted.erase(KeyOf(operation));
    } else {
      wanted[KeyOf(operation)] = ValueOf(operation);
    }
  }
  if (count > 0) {
    wanted[kCount] = std::to_string(count);
  }
  const std::unique_ptr<Iterator> found(db->NewIterator(ReadOptions()));
  auto next = wanted.begin();
  for (found->SeekToFirst(); found->Valid(); found->Next(), ++next) {
    CHECK(next != wanted.end());
    CHECK(found->key() == next->first);
    CHECK(found->value() == next->second);
  }
  CHECK_OK(found->status());
  CHECK(next == wanted.end());
  return count;
}

}  // namespace

int main(int arguments, char** argument) {
  CHECK(arguments >= 3);
  Options options;
  std::shared_ptr<Env> guard;
  CHECK_OK(Env::CreateFromUri(ConfigOptions(), "", argument[1], &options.env, &guard));
  options.create_if_missing = true;
  options.paranoid_checks = true;
  // Small, so that there are flushes, compactions and new logs all the time.
  options.write_buffer_size = 64 << 10;
  options.target_file_size_base = 64 << 10;
  options.max_bytes_for_level_base = 256 << 10;
  options.max_manifest_file_size = 16 << 10;
  std::unique_ptr<DB> db;
  CHECK_OK(gimbal::OpenDb(options, "/promises", &db));
  uint64_t count = Verify(db.get(), std::stoull(argument[2]));
  std::printf("verified %llu\n", static_cast<unsigned long long>(count));
  std::fflush(stdout);
  if (arguments > 3) {
    CHECK_OK(db->Close());
    return 0;
  }
  while (true) {
    count++;
    WriteBatch batch;
    if (IsDelete(count)) {
      CHECK_OK(batch.Delete(KeyOf(count)));
    } else {
      CHECK_OK(batch.Put(KeyOf(count), ValueOf(count)));
    }
    CHECK_OK(batch.Put(kCount, std::to_string(count)));
    WriteOptions write;
    write.sync = count % 5 == 0;
    CHECK_OK(db->Write(write, &batch));
    std::printf("%llu\n", static_cast<unsigned long long>(count));
    std::fflush(stdout);
  }
}
