// Files that are written to.

#include "files.h"
#include "status.h"

namespace gimbal {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

struct Release {
  void operator()(GimbalWriter* writer) const { gimbal_writer_release(writer); }
};

class WritableFile : public rocksdb::FSWritableFile {
 public:
  WritableFile(GimbalWriter* writer, std::string path, const rocksdb::FileOptions& options)
      : rocksdb::FSWritableFile(options),
        writer_(writer),
        path_(std::move(path)),
        is_direct_(options.use_direct_writes) {}

  // The variants with a checksum use these as well.
  using rocksdb::FSWritableFile::Append;
  using rocksdb::FSWritableFile::PositionedAppend;

  IOStatus Append(const Slice& data, const IOOptions&, IODebugContext*) override {
    return ToStatus(gimbal_append(writer_.get(), {data.data(), data.size()}), path_);
  }

  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions&, IODebugContext*) override {
    return ToStatus(gimbal_write_at(writer_.get(), offset, {data.data(), data.size()}), path_);
  }

  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions& options,
                            const rocksdb::DataVerificationInfo&, IODebugContext* debug) override {
    return PositionedAppend(data, offset, options, debug);
  }

  IOStatus Truncate(uint64_t size, const IOOptions&, IODebugContext*) override {
    // RocksDB says the size of every file that it closes.
    const GimbalNumber now = gimbal_writer_size(writer_.get());
    if (now.status.kind == kOk && now.value == size) {
      return IOStatus::OK();
    }
    return ToStatus(gimbal_writer_truncate(writer_.get(), size), path_);
  }

  IOStatus Close(const IOOptions&, IODebugContext*) override { return ToStatus(gimbal_close(writer_.get()), path_); }

  IOStatus Flush(const IOOptions&, IODebugContext*) override { return ToStatus(gimbal_flush(writer_.get()), path_); }

  IOStatus Sync(const IOOptions&, IODebugContext*) override { return ToStatus(gimbal_sync(writer_.get()), path_); }

  bool IsSyncThreadSafe() const override { return true; }

  // RocksDB then writes whole sectors, and the last one again.
  bool use_direct_io() const override { return is_direct_; }

  uint64_t GetFileSize(const IOOptions&, IODebugContext*) override { return gimbal_writer_size(writer_.get()).value; }

  // Nothing is cached here.
  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }

 private:
  const std::unique_ptr<GimbalWriter, Release> writer_;
  const std::string path_;
  const bool is_direct_;
};

}  // namespace

std::unique_ptr<rocksdb::FSWritableFile> NewWritableFile(GimbalWriter* writer, const std::string& path,
                                                         const rocksdb::FileOptions& options) {
  return std::make_unique<WritableFile>(writer, path, options);
}

}  // namespace gimbal
