// Names, directories, links and locks of a volume; opens its files.

#include "file_system.h"

#include <unistd.h>

#include <cstdlib>

#include "files.h"
#include "status.h"
#include "versions.h"

namespace gimbal {
namespace {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

struct Release {
  void operator()(GimbalVolume* volume) const { gimbal_release(volume); }
};

class Lock : public rocksdb::FileLock {
 public:
  explicit Lock(uint64_t lock) : lock(lock) {}
  const uint64_t lock;
};

class FileSystem : public rocksdb::FileSystem {
 public:
  FileSystem(GimbalVolume* volume, std::string uri) : owned_(volume), uri_(std::move(uri)) {}

  const char* Name() const override { return "gimbal"; }
  std::string GetId() const override { return uri_; }

  IOStatus NewSequentialFile(const std::string& path, const FileOptions&,
                             std::unique_ptr<rocksdb::FSSequentialFile>* result, IODebugContext*) override {
    const GimbalOpenedReader opened = gimbal_open_reader(volume(), ToText(path));
    *result = opened.reader == nullptr ? nullptr : gimbal::NewSequentialFile(opened.reader, path);
    return ToStatus(opened.status, path);
  }

  IOStatus NewRandomAccessFile(const std::string& path, const FileOptions& options,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>* result, IODebugContext*) override {
    const GimbalOpenedReader opened = gimbal_open_reader(volume(), ToText(path));
    *result = opened.reader == nullptr ? nullptr : gimbal::NewRandomAccessFile(opened.reader, path, options);
    return ToStatus(opened.status, path);
  }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext*) override {
    return Writable(gimbal_create(volume(), ToText(path)), path, options, result);
  }

  IOStatus ReopenWritableFile(const std::string& path, const FileOptions& options,
                              std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext*) override {
    return Writable(gimbal_reopen(volume(), ToText(path)), path, options, result);
  }

  IOStatus NewDirectory(const std::string& path, const IOOptions&, std::unique_ptr<rocksdb::FSDirectory>* result,
                        IODebugContext*) override {
    const GimbalShape shape = gimbal_stat(volume(), ToText(path));
    if (shape.status.kind == kOk && !shape.is_dir) {
      return IOStatus::IOError(path, "not a directory");
    }
    *result = shape.status.kind == kOk ? std::make_unique<Directory>(volume(), path) : nullptr;
    return ToStatus(shape.status, path);
  }

  IOStatus FileExists(const std::string& path, const IOOptions&, IODebugContext*) override {
    return ToPresence(gimbal_stat(volume(), ToText(path)).status, path);
  }

  IOStatus GetChildren(const std::string& path, const IOOptions&, std::vector<std::string>* result,
                       IODebugContext*) override {
    result->clear();
    const auto take = [](void* into, GimbalText name) {
      static_cast<std::vector<std::string>*>(into)->emplace_back(name.start, name.length);
    };
    return ToPresence(gimbal_list(volume(), ToText(path), {take, result}), path);
  }

  IOStatus DeleteFile(const std::string& path, const IOOptions&, IODebugContext*) override {
    return ToStatus(gimbal_unlink(volume(), ToText(path)), path);
  }

  IOStatus Truncate(const std::string& path, size_t size, const IOOptions&, IODebugContext*) override {
    return ToStatus(gimbal_truncate(volume(), ToText(path), size), path);
  }

  IOStatus CreateDir(const std::string& path, const IOOptions&, IODebugContext*) override {
    return ToStatus(gimbal_make_dir(volume(), ToText(path)), path);
  }

  IOStatus CreateDirIfMissing(const std::string& path, const IOOptions&, IODebugContext*) override {
    return ToStatus(gimbal_make_dirs(volume(), ToText(path)), path);
  }

  IOStatus DeleteDir(const std::string& path, const IOOptions&, IODebugContext*) override {
    return ToStatus(gimbal_remove_dir(volume(), ToText(path)), path);
  }

  IOStatus GetFileSize(const std::string& path, const IOOptions&, uint64_t* size, IODebugContext*) override {
    const GimbalShape shape = gimbal_stat(volume(), ToText(path));
    *size = shape.size;
    return ToStatus(shape.status, path);
  }

  IOStatus GetFileModificationTime(const std::string& path, const IOOptions&, uint64_t* time,
                                   IODebugContext*) override {
    const GimbalShape shape = gimbal_stat(volume(), ToText(path));
    *time = shape.time;
    return ToStatus(shape.status, path);
  }

  IOStatus IsDirectory(const std::string& path, const IOOptions&, bool* is_dir, IODebugContext*) override {
    const GimbalShape shape = gimbal_stat(volume(), ToText(path));
    *is_dir = shape.is_dir;
    return ToStatus(shape.status, path);
  }

  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions&, IODebugContext*) override {
    return ToStatus(gimbal_rename(volume(), ToText(from), ToText(to)), from + " to " + to);
  }

  IOStatus LinkFile(const std::string& from, const std::string& to, const IOOptions&, IODebugContext*) override {
    return ToStatus(gimbal_link(volume(), ToText(from), ToText(to)), from + " to " + to);
  }

  IOStatus NumFileLinks(const std::string& path, const IOOptions&, uint64_t* count, IODebugContext*) override {
    const GimbalShape shape = gimbal_stat(volume(), ToText(path));
    *count = shape.links;
    return ToStatus(shape.status, path);
  }

  IOStatus AreFilesSame(const std::string& first, const std::string& second, const IOOptions&, bool* is_same,
                        IODebugContext*) override {
    const GimbalNumber same = gimbal_is_same(volume(), ToText(first), ToText(second));
    *is_same = same.value == 1;
    return ToStatus(same.status, first + " and " + second);
  }

  IOStatus LockFile(const std::string& path, const IOOptions&, rocksdb::FileLock** lock, IODebugContext*) override {
    *lock = nullptr;
    const GimbalNumber number = gimbal_lock(volume(), ToText(path));
    if (number.status.kind == kOk && number.value == 0) {
      // RocksDB's own tests look for "lock ".
      return IOStatus::IOError("While lock file: " + path, "this process has locked it already");
    }
    if (number.status.kind == kOk) {
      *lock = new Lock(number.value);
    }
    return ToStatus(number.status, path);
  }

  IOStatus UnlockFile(rocksdb::FileLock* lock, const IOOptions&, IODebugContext*) override {
    const std::unique_ptr<Lock> owned(static_cast<Lock*>(lock));
    gimbal_unlock(volume(), owned->lock);
    return IOStatus::OK();
  }

  IOStatus NewLogger(const std::string& path, const IOOptions&, std::shared_ptr<rocksdb::Logger>* result,
                     IODebugContext*) override {
    const GimbalOpenedWriter opened = gimbal_create(volume(), ToText(path));
    *result = opened.writer == nullptr ? nullptr : gimbal::NewLogger(opened.writer, path);
    return ToStatus(opened.status, path);
  }

  IOStatus GetTestDirectory(const IOOptions& options, std::string* path, IODebugContext* debug) override {
    // As on RocksDB's own file system: some of its tests use both.
    const char* folder = std::getenv("TEST_TMPDIR");
    *path = folder != nullptr && *folder != '\0' ? folder : "/tmp/rocksdbtest-" + std::to_string(geteuid());
    return CreateDirIfMissing(*path, options, debug);
  }

  IOStatus GetAbsolutePath(const std::string& path, const IOOptions&, std::string* absolute, IODebugContext*) override {
    *absolute = !path.empty() && path[0] == '/' ? path : "/" + path;
    return IOStatus::OK();
  }

  // RocksDB goes on by itself after a volume was full only where it is told that there is space again.
  IOStatus GetFreeSpace(const std::string& path, const IOOptions&, uint64_t* bytes, IODebugContext*) override {
    const GimbalNumber free = gimbal_free(volume());
    *bytes = free.value;
    return ToStatus(free.status, path);
  }

#if GIMBAL_HAS_SUPPORTED_OPS
  void SupportedOps(int64_t& operations) override { operations = SupportedOperations(); }
#endif

  IOStatus Poll(std::vector<void*>& handles, size_t min_completions) override {
    return gimbal::Poll(handles, min_completions);
  }

  IOStatus AbortIO(std::vector<void*>& handles) override { return gimbal::AbortIO(handles); }

 private:
  class Directory : public rocksdb::FSDirectory {
   public:
    Directory(GimbalVolume* volume, std::string path) : volume_(volume), path_(std::move(path)) {}

    IOStatus Fsync(const IOOptions&, IODebugContext*) override { return ToStatus(gimbal_sync_names(volume_), path_); }

    IOStatus Close(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }

   private:
    GimbalVolume* const volume_;
    const std::string path_;
  };

  static IOStatus Writable(const GimbalOpenedWriter& opened, const std::string& path, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* result) {
    *result = opened.writer == nullptr ? nullptr : gimbal::NewWritableFile(opened.writer, path, options);
    return ToStatus(opened.status, path);
  }

  GimbalVolume* volume() const { return owned_.get(); }

  const std::unique_ptr<GimbalVolume, Release> owned_;
  const std::string uri_;
};

}  // namespace

std::unique_ptr<rocksdb::FileSystem> NewFileSystem(const std::string& uri, std::string* error) {
  const auto take = [](void* into, GimbalText text) {
    static_cast<std::string*>(into)->assign(text.start, text.length);
  };
  GimbalVolume* volume = gimbal_open(ToText(uri), {take, error});
  return volume == nullptr ? nullptr : std::make_unique<FileSystem>(volume, uri);
}

}  // namespace gimbal
