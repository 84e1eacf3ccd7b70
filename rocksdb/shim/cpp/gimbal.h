// The functions that the Rust half offers (core/src/ffi.rs), as C++ sees them.
//
// A volume, writer, reader, read or bytes are owned by whoever got them, and are given back by their release function (a read also by
// gimbal_read_end and gimbal_read_lend). Pointers that are passed are not null, except to a release function. Every function may be called by any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

// The kind of a status. Rust: Kind.
enum GimbalKind : uint32_t {
  kOk = 0,
  kPathNotFound = 1,
  kNoSpace = 2,
  kRetryable = 3,
  kIoError = 4,
  kCorruption = 5,
  kDataLoss = 6,
  kFenced = 7,
  kInvalidArgument = 8,
};

struct GimbalText {
  const char* start;
  size_t length;
};

struct GimbalSpace {
  char* start;
  size_t length;
};

struct GimbalSink {
  void (*take)(void* into, GimbalText text);
  void* into;
};

struct GimbalStatus {
  GimbalKind kind;
  // Lives as long as the process.
  GimbalText text;
};

struct GimbalNumber {
  GimbalStatus status;
  uint64_t value;
};

struct GimbalShape {
  GimbalStatus status;
  uint64_t size;
  // Seconds since 1970.
  uint64_t time;
  uint64_t links;
  bool is_dir;
};

struct GimbalVolume;
struct GimbalWriter;
struct GimbalReader;
struct GimbalRead;
struct GimbalBytes;

struct GimbalLent {
  GimbalStatus status;
  // Null after an error. They live until the bytes are released.
  GimbalText text;
  GimbalBytes* bytes;
};

struct GimbalOpenedWriter {
  GimbalStatus status;
  GimbalWriter* writer;
};

struct GimbalOpenedReader {
  GimbalStatus status;
  GimbalReader* reader;
};

extern "C" {
GimbalVolume* gimbal_open(GimbalText uri, GimbalSink error);
void gimbal_release(GimbalVolume* volume);
void gimbal_unmount_all();

GimbalShape gimbal_stat(GimbalVolume* volume, GimbalText path);
GimbalStatus gimbal_list(GimbalVolume* volume, GimbalText path, GimbalSink names);
GimbalStatus gimbal_rename(GimbalVolume* volume, GimbalText from, GimbalText to);
GimbalStatus gimbal_link(GimbalVolume* volume, GimbalText from, GimbalText to);
GimbalNumber gimbal_is_same(GimbalVolume* volume, GimbalText first, GimbalText second);
GimbalStatus gimbal_unlink(GimbalVolume* volume, GimbalText path);
GimbalStatus gimbal_make_dir(GimbalVolume* volume, GimbalText path);
GimbalStatus gimbal_make_dirs(GimbalVolume* volume, GimbalText path);
GimbalStatus gimbal_remove_dir(GimbalVolume* volume, GimbalText path);
GimbalStatus gimbal_truncate(GimbalVolume* volume, GimbalText path, uint64_t size);
GimbalNumber gimbal_free(GimbalVolume* volume);
GimbalStatus gimbal_sync_names(GimbalVolume* volume);
// 0 if this process has locked it already.
GimbalNumber gimbal_lock(GimbalVolume* volume, GimbalText path);
void gimbal_unlock(GimbalVolume* volume, uint64_t lock);

GimbalOpenedWriter gimbal_create(GimbalVolume* volume, GimbalText path);
GimbalOpenedWriter gimbal_reopen(GimbalVolume* volume, GimbalText path);
void gimbal_writer_release(GimbalWriter* writer);
GimbalStatus gimbal_append(GimbalWriter* writer, GimbalText bytes);
GimbalStatus gimbal_write_at(GimbalWriter* writer, uint64_t offset, GimbalText bytes);
GimbalStatus gimbal_flush(GimbalWriter* writer);
GimbalStatus gimbal_sync(GimbalWriter* writer);
GimbalStatus gimbal_writer_truncate(GimbalWriter* writer, uint64_t size);
GimbalNumber gimbal_writer_size(GimbalWriter* writer);
// Once more does nothing.
GimbalStatus gimbal_close(GimbalWriter* writer);

GimbalOpenedReader gimbal_open_reader(GimbalVolume* volume, GimbalText path);
void gimbal_reader_release(GimbalReader* reader);
GimbalNumber gimbal_reader_size(GimbalReader* reader);
// A background read goes after the other reads of the volume.
GimbalRead* gimbal_read_begin(GimbalReader* reader, uint64_t offset, size_t length, bool is_background);
bool gimbal_read_is_done(GimbalRead* read);
// Waits. The value is how many bytes were put into the space.
GimbalNumber gimbal_read_end(GimbalRead* read, GimbalSpace space);
// Waits. The bytes belong to the caller.
GimbalLent gimbal_read_lend(GimbalRead* read);
void gimbal_bytes_release(GimbalBytes* bytes);
// Forgets a read that was not ended.
void gimbal_read_release(GimbalRead* read);
}

inline GimbalText ToText(const std::string& text) { return {text.data(), text.size()}; }
