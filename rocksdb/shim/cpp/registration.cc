// Makes `gimbal://…` known to RocksDB when the library is loaded or when the program says so, and unmounts all volumes when the process ends.
//
// A file system belongs to whoever asked for it. An Env does not: RocksDB never frees one, so there is one per URI, to the end of
// the process.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "file_system.h"
#include "gimbal_rocksdb.h"
#include "rocksdb/c.h"
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

void Register() {
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

// For the plug-in, which nobody calls.
__attribute__((constructor)) void OnLoad() { gimbal_rocksdb_register(); }

// Later than all that the program itself does at its end: RocksDB's threads have been joined.
__attribute__((destructor)) void Unmount() { gimbal_unmount_all(); }

}  // namespace
}  // namespace gimbal

extern "C" {

void gimbal_rocksdb_register() {
  static std::once_flag once;
  std::call_once(once, gimbal::Register);
}

rocksdb_env_t* gimbal_rocksdb_env(const char* uri, char** error) {
  gimbal_rocksdb_register();
  std::string text;
  rocksdb::Env* const env = gimbal::EnvOf(uri, &text);
  rocksdb_env_t* const result = env == nullptr ? nullptr : rocksdb_create_default_env();
  if (result != nullptr) {
    // RocksDB's struct for C begins with the Env, in all versions up to 11.12, and the default one is not freed with it.
    rocksdb::Env** const place = reinterpret_cast<rocksdb::Env**>(result);
    if (*place == rocksdb::Env::Default()) {
      *place = env;
      return result;
    }
    rocksdb_env_destroy(result);
    text = "this version of RocksDB keeps its Env elsewhere: use the option env={id=" + std::string(uri) + "}";
  }
  if (error != nullptr) {
    std::free(std::exchange(*error, strdup(text.c_str())));
  }
  return nullptr;
}

}  // extern "C"
