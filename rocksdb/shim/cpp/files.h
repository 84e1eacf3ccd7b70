// Open files of a volume, as RocksDB's classes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gimbal.h"
#include "rocksdb/file_system.h"

namespace gimbal {

// Each takes over the reader or writer.
std::unique_ptr<rocksdb::FSSequentialFile> NewSequentialFile(GimbalReader* reader, const std::string& path);
std::unique_ptr<rocksdb::FSRandomAccessFile> NewRandomAccessFile(GimbalReader* reader, const std::string& path,
                                                                  const rocksdb::FileOptions& options);
std::unique_ptr<rocksdb::FSWritableFile> NewWritableFile(GimbalWriter* writer, const std::string& path,
                                                         const rocksdb::FileOptions& options);
std::shared_ptr<rocksdb::Logger> NewLogger(GimbalWriter* writer, const std::string& path);

// The other half of ReadAsync.
rocksdb::IOStatus Poll(const std::vector<void*>& handles, size_t min_completions);
rocksdb::IOStatus AbortIO(const std::vector<void*>& handles);

}  // namespace gimbal
