// Files that are read: one after the other, at random, many at once, or in the background.

#include <deque>
#include <mutex>

#include "files.h"
#include "status.h"

namespace gimbal {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

struct Release {
  void operator()(GimbalReader* reader) const { gimbal_reader_release(reader); }
};
using ReaderPointer = std::unique_ptr<GimbalReader, Release>;

// Waits for a read, and says where its bytes are.
IOStatus End(GimbalRead* read, size_t length, char* scratch, const std::string& path, Slice* result) {
  const GimbalNumber got = gimbal_read_end(read, {scratch, length});
  *result = Slice(scratch, got.value);
  return ToStatus(got.status, path);
}

class SequentialFile : public rocksdb::FSSequentialFile {
 public:
  SequentialFile(GimbalReader* reader, std::string path) : reader_(reader), path_(std::move(path)) {}

  IOStatus Read(size_t n, const IOOptions&, Slice* result, char* scratch, IODebugContext*) override {
    const IOStatus status = ReadAt(position_, n, result, scratch);
    position_ += result->size();
    return status;
  }

  IOStatus PositionedRead(uint64_t offset, size_t n, const IOOptions&, Slice* result, char* scratch,
                          IODebugContext*) override {
    return ReadAt(offset, n, result, scratch);
  }

  IOStatus Skip(uint64_t n) override {
    const GimbalNumber size = gimbal_reader_size(reader_.get());
    const uint64_t left = size.value > position_ ? size.value - position_ : 0;
    position_ += std::min(n, left);
    return ToStatus(size.status, path_);
  }

  // Nothing is cached here.
  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }

 private:
  IOStatus ReadAt(uint64_t offset, size_t n, Slice* result, char* scratch) {
    return End(gimbal_read_begin(reader_.get(), offset, n, false), n, scratch, path_, result);
  }

  const ReaderPointer reader_;
  const std::string path_;
  uint64_t position_ = 0;
};

// A read in the background. RocksDB owns it, and frees it after its callback.
struct AsyncRead {
  GimbalRead* read;
  rocksdb::FSReadRequest request;
  std::function<void(const rocksdb::FSReadRequest&, void*)> callback;
  void* argument;
  std::string path;

  ~AsyncRead() { gimbal_read_release(read); }

  // Waits if need be. Only the first of these two calls back.
  void Complete() {
    if (GimbalRead* ended = std::exchange(read, nullptr)) {
      request.status = End(ended, request.len, request.scratch, path, &request.result);
      callback(request, argument);
    }
  }

  void Abort() {
    if (GimbalRead* aborted = std::exchange(read, nullptr)) {
      gimbal_read_release(aborted);
      request.result = Slice(request.scratch, 0);
      request.status = IOStatus::Aborted(path, "the read was aborted");
      callback(request, argument);
    }
  }
};

class RandomAccessFile : public rocksdb::FSRandomAccessFile {
 public:
  RandomAccessFile(GimbalReader* reader, std::string path) : reader_(reader), path_(std::move(path)) {}

  IOStatus Read(uint64_t offset, size_t n, const IOOptions& options, Slice* result, char* scratch,
                IODebugContext*) const override {
    if (scratch == nullptr) {
      return ReadMapped(offset, n, result);
    }
    return End(Begin(offset, n, options), n, scratch, path_, result);
  }

  // All reads are on their way before the first is waited for.
  IOStatus MultiRead(rocksdb::FSReadRequest* requests, size_t count, const IOOptions& options,
                     IODebugContext*) override {
    std::vector<GimbalRead*> reads(count, nullptr);
    for (size_t i = 0; i < count; i++) {
      if (requests[i].scratch != nullptr) {
        reads[i] = Begin(requests[i].offset, requests[i].len, options);
      }
    }
    for (size_t i = 0; i < count; i++) {
      rocksdb::FSReadRequest& request = requests[i];
      request.status = reads[i] == nullptr
                           ? ReadMapped(request.offset, request.len, &request.result)
                           : End(reads[i], request.len, request.scratch, path_, &request.result);
    }
    return IOStatus::OK();
  }

  // The callback comes in Poll or AbortIO, on the thread that calls them.
  IOStatus ReadAsync(rocksdb::FSReadRequest& request, const IOOptions& options,
                     std::function<void(const rocksdb::FSReadRequest&, void*)> callback, void* argument, void** handle,
                     rocksdb::IOHandleDeleter* deleter, IODebugContext*) override {
    GimbalRead* read = Begin(request.offset, request.len, options);
    *handle = new AsyncRead{read, request, std::move(callback), argument, path_};
    *deleter = [](void* read) { delete static_cast<AsyncRead*>(read); };
    return IOStatus::OK();
  }

  // RocksDB reads ahead by itself then.
  IOStatus Prefetch(uint64_t, size_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::NotSupported("Prefetch");
  }

  // Nothing is cached here.
  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }

 private:
  // RocksDB says so of what it reads for compactions.
  GimbalRead* Begin(uint64_t offset, size_t n, const IOOptions& options) const {
    const bool is_background = options.rate_limiter_priority == rocksdb::Env::IO_LOW;
    return gimbal_read_begin(reader_.get(), offset, n, is_background);
  }

  // The caller has no memory: it reads as if the file were mapped, and what it gets must live as long as the file. So the whole
  // file is fetched once; once more only if it has become longer meanwhile.
  IOStatus ReadMapped(uint64_t offset, size_t n, Slice* result) const {
    std::lock_guard<std::mutex> guard(mutex_);
    if (images_.empty() || offset + n > images_.back().size()) {
      const GimbalNumber size = gimbal_reader_size(reader_.get());
      if (size.status.kind != kOk) {
        return ToStatus(size.status, path_);
      }
      if (images_.empty() || size.value > images_.back().size()) {
        std::string image(size.value, '\0');
        Slice got;
        const IOStatus status = End(Begin(0, image.size(), IOOptions()), image.size(), &image[0], path_, &got);
        if (!status.ok()) {
          return status;
        }
        image.resize(got.size());
        images_.push_back(std::move(image));
      }
    }
    const std::string& image = images_.back();
    const uint64_t from = std::min<uint64_t>(offset, image.size());
    *result = Slice(image.data() + from, std::min<uint64_t>(n, image.size() - from));
    return IOStatus::OK();
  }

  const ReaderPointer reader_;
  const std::string path_;
  mutable std::mutex mutex_;
  mutable std::deque<std::string> images_;
};

}  // namespace

std::unique_ptr<rocksdb::FSSequentialFile> NewSequentialFile(GimbalReader* reader, const std::string& path) {
  return std::make_unique<SequentialFile>(reader, path);
}

std::unique_ptr<rocksdb::FSRandomAccessFile> NewRandomAccessFile(GimbalReader* reader, const std::string& path) {
  return std::make_unique<RandomAccessFile>(reader, path);
}

rocksdb::IOStatus Poll(const std::vector<void*>& handles, size_t min_completions) {
  size_t complete = 0;
  for (void* handle : handles) {
    AsyncRead* read = static_cast<AsyncRead*>(handle);
    if (read->read == nullptr || complete < min_completions || gimbal_read_is_done(read->read)) {
      read->Complete();
      complete++;
    }
  }
  return IOStatus::OK();
}

rocksdb::IOStatus AbortIO(const std::vector<void*>& handles) {
  for (void* handle : handles) {
    static_cast<AsyncRead*>(handle)->Abort();
  }
  return IOStatus::OK();
}

}  // namespace gimbal
