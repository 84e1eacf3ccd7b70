// RocksDB's file system on a volume.
#pragma once

#include <memory>
#include <string>

#include "gimbal.h"
#include "rocksdb/file_system.h"

namespace gimbal {

// Null after an error, whose text is put into `error`. The volume stays mounted as long as somebody has its file system.
std::unique_ptr<rocksdb::FileSystem> NewFileSystem(const std::string& uri, std::string* error);

}  // namespace gimbal
