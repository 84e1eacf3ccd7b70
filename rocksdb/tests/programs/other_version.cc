// A program whose RocksDB says that it is another version than the plug-in was compiled for.

#include <cstdio>

#include "rocksdb/version.h"

namespace rocksdb {
// Taken before the library's own.
std::string GetRocksVersionAsString(bool) { return "9.9.9"; }
}  // namespace rocksdb

int main() {
  std::printf("RocksDB %s is used\n", rocksdb::GetRocksVersionAsString().c_str());
  return 0;
}
