// From the kinds of failures of a volume to RocksDB's statuses.
#pragma once

#include <string>

#include "gimbal.h"
#include "rocksdb/io_status.h"

namespace gimbal {

// `path`: what the operation was about.
inline rocksdb::IOStatus ToStatus(const GimbalStatus& status, const std::string& path) {
  using rocksdb::IOStatus;
  const std::string text(status.text.start, status.text.length);
  IOStatus result;
  switch (status.kind) {
    case kOk:
      return result;
    case kPathNotFound:
      return IOStatus::PathNotFound(path, text);
    case kNoSpace:
      result = IOStatus::NoSpace(path, text);
      result.SetRetryable(true);
      return result;
    case kRetryable:
      result = IOStatus::IOError(path, text);
      result.SetRetryable(true);
      return result;
    case kIoError:
      return IOStatus::IOError(path, text);
    case kCorruption:
      return IOStatus::Corruption(path, text);
    case kDataLoss:
      result = IOStatus::IOError(path, text);
      result.SetDataLoss(true);
      return result;
    case kFenced:
      return IOStatus::IOFenced(path, text);
    case kInvalidArgument:
      return IOStatus::InvalidArgument(path, text);
  }
  return IOStatus::IOError(path, "a status of an unknown kind");
}

// As ToStatus, for calls that ask whether something is there: its absence is NotFound.
inline rocksdb::IOStatus ToPresence(const GimbalStatus& status, const std::string& path) {
  if (status.kind == kPathNotFound) {
    return rocksdb::IOStatus::NotFound(path, std::string(status.text.start, status.text.length));
  }
  return ToStatus(status, path);
}

}  // namespace gimbal
