// RocksDB's info log (LOG) on a volume.
//
// RocksDB's own logger for foreign file systems treats the log like a table: after one write that failed, the next line is an error of the
// program (an assertion, in Debian's build). But lines are written most of all when something has failed. So here a log that cannot be
// written loses its lines, says so once on stderr, and disturbs nobody.

#include <sys/time.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <ctime>

#include "files.h"
#include "rocksdb/env.h"

namespace gimbal {
namespace {

class Logger : public rocksdb::Logger {
 public:
  Logger(GimbalWriter* writer, std::string path) : writer_(writer), path_(std::move(path)) {}

  ~Logger() override { gimbal_writer_release(writer_); }

  using rocksdb::Logger::Logv;

  void Logv(const char* format, va_list values) override {
    const std::string line = Head() + Body(format, values) + "\n";
    size_ += line.size();
    Tell(gimbal_append(writer_, ToText(line)));
  }

  void Flush() override { Tell(gimbal_flush(writer_)); }

  size_t GetLogFileSize() const override { return size_; }

 private:
  // Date, time with microseconds, thread.
  static std::string Head() {
    timeval now;
    gettimeofday(&now, nullptr);
    tm parts;
    localtime_r(&now.tv_sec, &parts);
    char head[80];
    const int length =
        std::snprintf(head, sizeof head, "%04d/%02d/%02d-%02d:%02d:%02d.%06d %llu ", parts.tm_year + 1900,
                      parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                      static_cast<int>(now.tv_usec),
                      static_cast<unsigned long long>(rocksdb::Env::Default()->GetThreadID()));
    return std::string(head, length);
  }

  static std::string Body(const char* format, va_list values) {
    va_list again;
    va_copy(again, values);
    std::string body(std::max(std::vsnprintf(nullptr, 0, format, again), 0), '\0');
    va_end(again);
    std::vsnprintf(&body[0], body.size() + 1, format, values);
    return body;
  }

  void Tell(const GimbalStatus& status) {
    if (status.kind != kOk && !has_failed_.exchange(true)) {
      std::fprintf(stderr, "gimbal-rocksdb: %s cannot be written, and will lack lines from now on: %.*s\n", path_.c_str(),
                   static_cast<int>(status.text.length), status.text.start);
    }
  }

  GimbalWriter* const writer_;
  const std::string path_;
  std::atomic<size_t> size_{0};
  std::atomic<bool> has_failed_{false};
};

}  // namespace

std::shared_ptr<rocksdb::Logger> NewLogger(GimbalWriter* writer, const std::string& path) {
  return std::make_shared<Logger>(writer, path);
}

}  // namespace gimbal
