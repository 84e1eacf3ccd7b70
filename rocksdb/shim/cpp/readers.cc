// Files that are read: one after the other, at random, many at once, or in the background.

#include <deque>
#include <mutex>

#include "files.h"
#include "status.h"
#include "versions.h"

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

// Waits for the read of a request, and puts its bytes where the request has memory, or else lends them.
void Complete(GimbalRead* read, const std::string& path, rocksdb::FSReadRequest* request) {
  if (request->scratch != nullptr) {
    request->status = End(read, request->len, request->scratch, path, &request->result);
    return;
  }
  const GimbalLent lent = gimbal_read_lend(read);
  request->status = ToStatus(lent.status, path);
  request->result = Slice(lent.text.start, lent.text.length);
  Lend(BytesPointer(lent.bytes), request);
}

// A read in the background. RocksDB owns it, and frees it after its callback.
struct AsyncRead {
  GimbalRead* read;
  rocksdb::FSReadRequest request;
  ReadCallback callback;
  void* argument;
  std::string path;

  ~AsyncRead() { gimbal_read_release(read); }

  // Waits if need be. Only the first of these two calls back.
  void Complete() {
    if (GimbalRead* ended = std::exchange(read, nullptr)) {
      gimbal::Complete(ended, path, &request);
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
  RandomAccessFile(GimbalReader* reader, std::string path, bool is_mapped)
      : reader_(reader), path_(std::move(path)), is_mapped_(is_mapped) {}

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
      if (!IsMapped(requests[i])) {
        reads[i] = Begin(requests[i].offset, requests[i].len, options);
      }
    }
    for (size_t i = 0; i < count; i++) {
      rocksdb::FSReadRequest& request = requests[i];
      if (reads[i] == nullptr) {
        request.status = ReadMapped(request.offset, request.len, &request.result);
      } else {
        Complete(reads[i], path_, &request);
      }
    }
    return IOStatus::OK();
  }

  // The callback comes in Poll or AbortIO, on the thread that calls them.
  IOStatus ReadAsync(rocksdb::FSReadRequest& request, const IOOptions& options, ReadCallback callback, void* argument,
                     void** handle, rocksdb::IOHandleDeleter* deleter, IODebugContext*) override {
    auto read = std::make_unique<AsyncRead>();
    read->request.offset = request.offset;
    read->request.len = request.len;
    read->request.scratch = request.scratch;
    read->callback = std::move(callback);
    read->argument = argument;
    read->path = path_;
    read->read = Begin(request.offset, request.len, options);
    *handle = read.release();
    *deleter = [](void* read) { delete static_cast<AsyncRead*>(read); };
    return IOStatus::OK();
  }

  // RocksDB reads ahead by itself then.
  IOStatus Prefetch(uint64_t, size_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::NotSupported("Prefetch");
  }

  // Nothing is cached here.
  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }

#if GIMBAL_HAS_SIZE_OF_READER
  IOStatus GetFileSize(uint64_t* size) override {
    const GimbalNumber number = gimbal_reader_size(reader_.get());
    *size = number.value;
    return ToStatus(number.status, path_);
  }
#endif

 private:
  GimbalRead* Begin(uint64_t offset, size_t n, const IOOptions& options) const {
    return gimbal_read_begin(reader_.get(), offset, n, IsBackground(options));
  }

  // A request without memory reads from a mapped file, or borrows.
  bool IsMapped(const rocksdb::FSReadRequest& request) const {
    return request.scratch == nullptr && (is_mapped_ || !GIMBAL_LENDS_BUFFERS);
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
  const bool is_mapped_;
  mutable std::mutex mutex_;
  mutable std::deque<std::string> images_;
};

}  // namespace

std::unique_ptr<rocksdb::FSSequentialFile> NewSequentialFile(GimbalReader* reader, const std::string& path) {
  return std::make_unique<SequentialFile>(reader, path);
}

std::unique_ptr<rocksdb::FSRandomAccessFile> NewRandomAccessFile(GimbalReader* reader, const std::string& path,
                                                                  const rocksdb::FileOptions& options) {
  return std::make_unique<RandomAccessFile>(reader, path, options.use_mmap_reads);
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
