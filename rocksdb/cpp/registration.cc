// Makes `gimbal://…` known to RocksDB when the library is loaded, and unmounts all volumes when the process ends.
//
// A file system belongs to whoever asked for it. An Env does not: RocksDB never frees one, so there is one per URI, to the end of
// the process.

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

#include "file_system.h"
#include "rocksdb/env.h"
#include "rocksdb/utilities/object_registry.h"
#include "rocksdb/version.h"

namespace gimbal {
namespace {

using rocksdb::ObjectLibrary;

constexpr char kScheme[] = "gimbal";

rocksdb::Env* EnvOf(const std::string& uri, std::string* error) {
  static auto& envs = *new std::map<std::string, std::unique_ptr<rocksdb::Env>>;
  static auto& mutex = *new std::mutex;
  std::lock_guard<std::mutex> guard(mutex);
  std::unique_ptr<rocksdb::Env>& env = envs[uri];
  if (env == nullptr) {
    std::shared_ptr<rocksdb::FileSystem> file_system = NewFileSystem(uri, error);
    if (file_system != nullptr) {
      env = rocksdb::NewCompositeEnv(file_system);
    }
  }
  return env.get();
}

// RocksDB's classes change from version to version: with another one than we were compiled for, calls would end anywhere. So the
// program ends here. Without a factory it would not be told that there is no file system, by default, and go on with none.
void DemandOurVersion() {
  const std::string compiled = std::to_string(ROCKSDB_MAJOR) + "." + std::to_string(ROCKSDB_MINOR) + "." +
                               std::to_string(ROCKSDB_PATCH);
  const std::string found = rocksdb::GetRocksVersionAsString();
  if (found != compiled) {
    std::fprintf(stderr,
                 "gimbal-rocksdb: built for RocksDB %s, but this program uses %s; build libgimbal_rocksdb.so against that "
                 "version\n",
                 compiled.c_str(), found.c_str());
    std::_Exit(1);
  }
}

__attribute__((constructor)) void Register() {
  DemandOurVersion();
  const auto pattern = ObjectLibrary::PatternEntry(kScheme, false).AddSeparator("://", false);
  const auto library = ObjectLibrary::Default();
  library->AddFactory<rocksdb::FileSystem>(
      pattern, [](const std::string& uri, std::unique_ptr<rocksdb::FileSystem>* guard, std::string* error) {
        *guard = NewFileSystem(uri, error);
        return guard->get();
      });
  library->AddFactory<rocksdb::Env>(
      pattern, [](const std::string& uri, std::unique_ptr<rocksdb::Env>*, std::string* error) {
        return EnvOf(uri, error);
      });
}

// Later than all that the program itself does at its end: RocksDB's threads have been joined.
__attribute__((destructor)) void Unmount() { gimbal_unmount_all(); }

}  // namespace
}  // namespace gimbal
