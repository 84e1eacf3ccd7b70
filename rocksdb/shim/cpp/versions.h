// The differences between versions of RocksDB's interface, from 7.8 to 11.12: the only file that asks for the version.
//
// Each difference has the version from which on it is used. RocksDB may have had it in one that lies between that and the last one that was tried
// without; there it is not used, and nothing is lost but what it brings.
#pragma once

#include <memory>
#include <string>

#include "gimbal.h"
#include "rocksdb/db.h"
#include "rocksdb/file_system.h"
#include "rocksdb/version.h"

#define GIMBAL_ROCKSDB_SINCE(major, minor) \
  (ROCKSDB_MAJOR > (major) || (ROCKSDB_MAJOR == (major) && ROCKSDB_MINOR >= (minor)))

namespace gimbal {

// 9.1: the callback of ReadAsync takes a request that it may change. As the versions just before were not tried, it is taken from the class.
template <class Callback>
Callback CallbackOf(rocksdb::IOStatus (rocksdb::FSRandomAccessFile::*)(rocksdb::FSReadRequest&, const rocksdb::IOOptions&,
                                                                      Callback, void*, void**, rocksdb::IOHandleDeleter*,
                                                                      rocksdb::IODebugContext*));
using ReadCallback = decltype(CallbackOf(&rocksdb::FSRandomAccessFile::ReadAsync));

// 9.1: a request may come without memory, and take that of the file system.
#define GIMBAL_LENDS_BUFFERS GIMBAL_ROCKSDB_SINCE(9, 1)

struct ReleaseBytes {
  void operator()(void* bytes) const { gimbal_bytes_release(static_cast<GimbalBytes*>(bytes)); }
};
using BytesPointer = std::unique_ptr<GimbalBytes, ReleaseBytes>;

// Gives the bytes of a read to whoever asked for it.
inline void Lend(BytesPointer bytes, rocksdb::FSReadRequest* request) {
#if GIMBAL_LENDS_BUFFERS
  request->fs_scratch = {bytes.release(), ReleaseBytes()};
#endif
}

// 8.10: a file system says what it supports. Prefetch (10.10) is not: nothing is cached here, and RocksDB reads ahead by itself.
#define GIMBAL_HAS_SUPPORTED_OPS GIMBAL_ROCKSDB_SINCE(8, 10)

inline int64_t SupportedOperations() {
  int64_t operations = 0;
#if GIMBAL_HAS_SUPPORTED_OPS
  operations |= int64_t{1} << rocksdb::FSSupportedOps::kAsyncIO;
#endif
#if GIMBAL_LENDS_BUFFERS
  operations |= int64_t{1} << rocksdb::FSSupportedOps::kFSBuffer;
#endif
  return operations;
}

// 10.7: the size of a file is asked of the open file.
#define GIMBAL_HAS_SIZE_OF_READER GIMBAL_ROCKSDB_SINCE(10, 7)

// Whether nobody waits for a read. RocksDB says so of what it reads for compactions, unless writers wait for these, by the priority for its
// limit of rates. 8.10: it also names the activity; checks of whole databases have no priority.
inline bool IsBackground(const rocksdb::IOOptions& options) {
  if (options.rate_limiter_priority != rocksdb::Env::IO_TOTAL) {
    return options.rate_limiter_priority == rocksdb::Env::IO_LOW;
  }
#if GIMBAL_ROCKSDB_SINCE(8, 10)
  using Activity = rocksdb::Env::IOActivity;
  return options.io_activity == Activity::kCompaction || options.io_activity == Activity::kVerifyDBChecksum ||
         options.io_activity == Activity::kVerifyFileChecksums;
#else
  return false;
#endif
}

// 9.11: a database is given to its owner, before as a plain pointer.
inline rocksdb::Status OpenDb(const rocksdb::Options& options, const std::string& path, std::unique_ptr<rocksdb::DB>* db) {
#if GIMBAL_ROCKSDB_SINCE(9, 11)
  return rocksdb::DB::Open(options, path, db);
#else
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(options, path, &opened);
  db->reset(opened);
  return status;
#endif
}

}  // namespace gimbal
