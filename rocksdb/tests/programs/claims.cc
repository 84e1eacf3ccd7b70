// What RocksDB relies on, asked of the file system directly: claims URI. The program is linked with the plug-in.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "check.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "rocksdb/listener.h"
#include "versions.h"

using namespace rocksdb;

namespace {

std::shared_ptr<FileSystem> fs;
const IOOptions io;
const FileOptions plain;

std::unique_ptr<FSWritableFile> Create(const std::string& path, const FileOptions& options = plain) {
  std::unique_ptr<FSWritableFile> file;
  CHECK_OK(fs->NewWritableFile(path, options, &file, nullptr));
  return file;
}

std::unique_ptr<FSRandomAccessFile> Open(const std::string& path) {
  std::unique_ptr<FSRandomAccessFile> file;
  CHECK_OK(fs->NewRandomAccessFile(path, plain, &file, nullptr));
  return file;
}

std::string Read(const FSRandomAccessFile& file, uint64_t offset, size_t length) {
  std::string scratch(length, '\0');
  Slice result;
  CHECK_OK(file.Read(offset, length, io, &result, &scratch[0], nullptr));
  return result.ToString();
}

std::string ReadAll(const std::string& path) { return Read(*Open(path), 0, 10 << 20); }

void Write(const std::string& path, const std::string& content) {
  const auto file = Create(path);
  CHECK_OK(file->Append(content, io, nullptr));
  CHECK_OK(file->Close(io, nullptr));
}

uint64_t SizeOf(const std::string& path) {
  uint64_t size = 0;
  CHECK_OK(fs->GetFileSize(path, io, &size, nullptr));
  return size;
}

void ANewFileTakesTheNameAndOpenReadersKeepTheOldOne() {
  Write("/d/file", "old");
  const auto old = Open("/d/file");
  Write("/d/file", "newer");
  CHECK(Read(*old, 0, 100) == "old");
  CHECK(ReadAll("/d/file") == "newer");
}

void AFileIsReadWhileItIsWritten() {
  const auto file = Create("/d/log");
  std::unique_ptr<FSSequentialFile> sequential;
  CHECK_OK(fs->NewSequentialFile("/d/log", plain, &sequential, nullptr));
  const auto random = Open("/d/log");
  size_t size = 0;
  std::string scratch(3 << 20, '\0');
  for (const size_t length : {1, 99, 4048, 4096, 4097, 131072, 2 << 20, 7, 300000}) {
    CHECK_OK(file->Append(Content(1, size, length), io, nullptr));
    CHECK(file->GetFileSize(io, nullptr) == size + length);
    CHECK(SizeOf("/d/log") == size + length);
    Slice result;
    CHECK_OK(sequential->Read(length, io, &result, &scratch[0], nullptr));
    CHECK(result == Content(1, size, length));
    size += length;
    // Short only at the end.
    CHECK(Read(*random, size - 1, 100) == Content(1, size - 1, 1));
    CHECK(Read(*random, size, 100).empty());
    CHECK(Read(*random, size + 5, 100).empty());
    if (length % 2 == 1) {
      CHECK_OK(file->Flush(io, nullptr));
    } else {
      CHECK_OK(file->Sync(io, nullptr));
    }
  }
  CHECK_OK(file->Close(io, nullptr));
  CHECK_OK(file->Close(io, nullptr));
  CHECK(Read(*Open("/d/log"), 0, size) == Content(1, 0, size));
}

void SkipStopsAtTheEnd() {
  Write("/d/skip", Content(2, 0, 1000));
  std::unique_ptr<FSSequentialFile> file;
  CHECK_OK(fs->NewSequentialFile("/d/skip", plain, &file, nullptr));
  CHECK_OK(file->Skip(990));
  char scratch[100];
  Slice result;
  CHECK_OK(file->Read(4, io, &result, scratch, nullptr));
  CHECK(result == Content(2, 990, 4));
  CHECK_OK(file->Skip(1000000));
  CHECK_OK(file->Read(100, io, &result, scratch, nullptr));
  CHECK(result.empty());
  CHECK_OK(file->PositionedRead(10, 20, io, &result, scratch, nullptr));
  CHECK(result == Content(2, 10, 20));
}

void DirectWritesRewriteTheLastSectorAndAreTrimmed() {
  FileOptions direct;
  direct.use_direct_writes = true;
  const auto file = Create("/d/direct", direct);
  CHECK(file->use_direct_io());
  CHECK_OK(file->PositionedAppend(Content(3, 0, 100) + std::string(3996, '\0'), 0, io, nullptr));
  CHECK_OK(file->Sync(io, nullptr));
  CHECK_OK(file->PositionedAppend(Content(3, 0, 5000) + std::string(3192, '\0'), 0, io, nullptr));
  CHECK_OK(file->PositionedAppend(Content(3, 4096, 9000) + std::string(3288, '\0'), 4096, io, DataVerificationInfo(),
                                  nullptr));
  CHECK(SizeOf("/d/direct") == 16384);
  CHECK_OK(file->Truncate(13096, io, nullptr));
  CHECK_OK(file->Close(io, nullptr));
  CHECK(SizeOf("/d/direct") == 13096);
  CHECK(ReadAll("/d/direct") == Content(3, 0, 13096));
}

void HintsDoNotChangeTheSize() {
  const auto file = Create("/d/hints");
  file->SetPreallocationBlockSize(1 << 20);
  file->PrepareWrite(0, 100, io, nullptr);
  CHECK_OK(file->Allocate(0, 1 << 20, io, nullptr));
  CHECK_OK(file->Append("abc", io, nullptr));
  CHECK_OK(file->RangeSync(0, 1 << 20, io, nullptr));
  CHECK(file->GetFileSize(io, nullptr) == 3);
  CHECK_OK(file->Close(io, nullptr));
  CHECK(SizeOf("/d/hints") == 3);
}

void WhatIsAbsentIsSaidToBe() {
  std::unique_ptr<FSSequentialFile> sequential;
  std::unique_ptr<FSRandomAccessFile> random;
  std::unique_ptr<FSWritableFile> writable;
  std::unique_ptr<FSDirectory> directory;
  std::vector<std::string> names = {"left from before"};
  uint64_t number;
  CHECK(fs->NewSequentialFile("/d/none", plain, &sequential, nullptr).IsPathNotFound());
  CHECK(fs->NewRandomAccessFile("/d/none", plain, &random, nullptr).IsPathNotFound());
  CHECK(fs->NewWritableFile("/none/file", plain, &writable, nullptr).IsPathNotFound());
  CHECK(fs->NewDirectory("/none", io, &directory, nullptr).IsPathNotFound());
  CHECK(sequential == nullptr && random == nullptr && writable == nullptr && directory == nullptr);
  CHECK(fs->FileExists("/d/none", io, nullptr).IsNotFound());
  CHECK(fs->GetChildren("/none", io, &names, nullptr).IsNotFound() && names.empty());
  CHECK(fs->GetFileSize("/d/none", io, &number, nullptr).IsPathNotFound());
  CHECK(fs->NumFileLinks("/d/none", io, &number, nullptr).IsPathNotFound());
  CHECK(fs->DeleteFile("/d/none", io, nullptr).IsPathNotFound());
  CHECK(fs->RenameFile("/d/none", "/d/other", io, nullptr).IsPathNotFound());
  CHECK(fs->Truncate("/d/none", 0, io, nullptr).IsPathNotFound());
  CHECK(fs->FileExists("/d/none", io, nullptr).IsNotFound());
}

void ManyThreadsReadOneFile() {
  Write("/d/shared", Content(4, 0, 500000));
  const auto file = Open("/d/shared");
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < 4; thread++) {
    threads.emplace_back([&file, thread] {
      for (unsigned i = 0; i < 200; i++) {
        const size_t offset = (thread * 7919 + i * 104729) % 490000;
        CHECK(Read(*file, offset, 10000) == Content(4, offset, 10000));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

void WithoutMemoryOfTheCallerTheFileLendsItsOwn() {
  Write("/d/mapped", Content(5, 0, 300000));
  const auto file = Open("/d/mapped");
  std::vector<Slice> slices(100);
  for (size_t i = 0; i < slices.size(); i++) {
    CHECK_OK(file->Read(i * 3000, 3000, io, &slices[i], nullptr, nullptr));
  }
  for (size_t i = 0; i < slices.size(); i++) {
    CHECK(slices[i] == Content(5, i * 3000, 3000));
  }
  Slice rest;
  CHECK_OK(file->Read(299999, 3000, io, &rest, nullptr, nullptr));
  CHECK(rest.size() == 1);
}

void MultiReadFindsWhatReadFinds() {
  Write("/d/multi", Content(6, 0, 200000));
  const auto file = Open("/d/multi");
  std::vector<std::string> scratch(50, std::string(9000, '\0'));
  std::vector<FSReadRequest> requests(50);
  for (size_t i = 0; i < requests.size(); i++) {
    requests[i].offset = i * 4100;
    requests[i].len = 9000;
    requests[i].scratch = i == 7 ? nullptr : &scratch[i][0];
  }
  CHECK_OK(file->MultiRead(requests.data(), requests.size(), io, nullptr));
  for (const FSReadRequest& request : requests) {
    CHECK_OK(request.status);
    const size_t left = request.offset < 200000 ? 200000 - request.offset : 0;
    CHECK(request.result == Content(6, request.offset, std::min<size_t>(9000, left)));
  }
}

struct Called {
  int times = 0;
  std::thread::id thread;
  std::string found;
  IOStatus status;
};

void* Begin(FSRandomAccessFile& file, uint64_t offset, std::string& scratch, Called& called, IOHandleDeleter& deleter) {
  FSReadRequest request;
  request.offset = offset;
  request.len = scratch.size();
  request.scratch = &scratch[0];
  void* handle = nullptr;
  const auto callback = [](const FSReadRequest& done, void* argument) {
    Called& called = *static_cast<Called*>(argument);
    called.times++;
    called.thread = std::this_thread::get_id();
    called.found = done.result.ToString();
    called.status = done.status;
  };
  CHECK_OK(file.ReadAsync(request, io, callback, &called, &handle, &deleter, nullptr));
  CHECK(called.times == 0);
  return handle;
}

void AsynchronousReadsCallBackOnceInPollOrAbort() {
  Write("/d/async", Content(7, 0, 100000));
  const auto file = Open("/d/async");
  std::vector<std::string> scratch(6, std::string(5000, '\0'));
  std::vector<Called> called(6);
  std::vector<void*> handles;
  IOHandleDeleter deleter;
  for (size_t i = 0; i < 6; i++) {
    handles.push_back(Begin(*file, i * 19000, scratch[i], called[i], deleter));
  }
  std::vector<void*> aborted = {handles[4]};
  CHECK_OK(fs->AbortIO(aborted));
  CHECK(called[4].times == 1 && called[4].status.IsAborted() && called[4].found.empty());
  std::vector<void*> polled(handles.begin(), handles.begin() + 4);
  CHECK_OK(fs->Poll(polled, 4));
  CHECK_OK(fs->Poll(handles, 5));
  CHECK_OK(fs->AbortIO(handles));
  for (size_t i = 0; i < 4; i++) {
    CHECK(called[i].times == 1 && called[i].thread == std::this_thread::get_id());
    CHECK_OK(called[i].status);
    CHECK(called[i].found == Content(7, i * 19000, 5000));
  }
  CHECK(called[4].times == 1 && called[5].times == 1);
  // One that nobody has waited for.
  Called forgotten;
  handles.push_back(Begin(*file, 0, scratch[0], forgotten, deleter));
  for (void* handle : handles) {
    deleter(handle);
  }
  CHECK(forgotten.times == 0);
  CHECK(file->Prefetch(0, 1000, io, nullptr).IsNotSupported());
}

void RenameReplacesInOneStep() {
  Write("/d/from", "new");
  Write("/d/to", "old");
  const auto old = Open("/d/to");
  CHECK_OK(fs->RenameFile("/d/from", "/d/to", io, nullptr));
  CHECK(ReadAll("/d/to") == "new");
  CHECK(Read(*old, 0, 10) == "old");
  CHECK(fs->FileExists("/d/from", io, nullptr).IsNotFound());
}

void DirectoriesAreMadeListedSyncedAndRemoved() {
  CHECK_OK(fs->CreateDirIfMissing("/very/deep/folder", io, nullptr));
  CHECK_OK(fs->CreateDirIfMissing("/very/deep/folder/", io, nullptr));
  CHECK(!fs->CreateDir("/very/deep", io, nullptr).ok());
  Write("/very/deep/one", "1");
  std::vector<std::string> names;
  CHECK_OK(fs->GetChildren("/very/deep/", io, &names, nullptr));
  CHECK((names == std::vector<std::string>{"folder", "one"}));
  std::unique_ptr<FSDirectory> directory;
  CHECK_OK(fs->NewDirectory("/very/deep", io, &directory, nullptr));
  CHECK_OK(directory->Fsync(io, nullptr));
  CHECK_OK(directory->FsyncWithDirOptions(io, nullptr, DirFsyncOptions(DirFsyncOptions::kNewFileSynced)));
  CHECK_OK(directory->Close(io, nullptr));
  CHECK(!fs->NewDirectory("/very/deep/one", io, &directory, nullptr).ok());
  bool is_dir = false;
  CHECK_OK(fs->IsDirectory("/very/deep", io, &is_dir, nullptr));
  CHECK(is_dir);
  CHECK(!fs->DeleteDir("/very/deep", io, nullptr).ok());
  CHECK_OK(fs->DeleteDir("/very/deep/folder", io, nullptr));
}

void AReopenedFileIsCutAndGoesOn() {
  Write("/d/wal", Content(8, 0, 50000));
  std::unique_ptr<FSWritableFile> file;
  CHECK_OK(fs->ReopenWritableFile("/d/wal", plain, &file, nullptr));
  CHECK(file->GetFileSize(io, nullptr) == 50000);
  CHECK_OK(file->Truncate(12345, io, nullptr));
  CHECK_OK(file->Append(Content(8, 12345, 777), io, nullptr));
  CHECK_OK(file->Sync(io, nullptr));
  CHECK_OK(file->Close(io, nullptr));
  CHECK(ReadAll("/d/wal") == Content(8, 0, 13122));
  CHECK_OK(fs->ReopenWritableFile("/d/made-by-reopen", plain, &file, nullptr));
  CHECK_OK(file->Close(io, nullptr));
  CHECK(SizeOf("/d/made-by-reopen") == 0);
  CHECK_OK(fs->ReuseWritableFile("/d/reused", "/d/wal", plain, &file, nullptr));
  CHECK_OK(file->Append("again", io, nullptr));
  CHECK_OK(file->Close(io, nullptr));
  CHECK(ReadAll("/d/reused") == "again");
  CHECK_OK(fs->Truncate("/d/reused", 2, io, nullptr));
  CHECK(ReadAll("/d/reused") == "ag");
}

bool AreSame(const std::string& first, const std::string& second) {
  bool is_same = false;
  CHECK_OK(fs->AreFilesSame(first, second, io, &is_same, nullptr));
  return is_same;
}

void LinksAreCountedAndTheSameFile() {
  Write("/d/one", "linked");
  CHECK_OK(fs->LinkFile("/d/one", "/d/two", io, nullptr));
  CHECK(!fs->LinkFile("/d/one", "/d/two", io, nullptr).ok());
  uint64_t links = 0;
  CHECK_OK(fs->NumFileLinks("/d/two", io, &links, nullptr));
  CHECK(links == 2);
  CHECK(AreSame("/d/one", "/d/two"));
  CHECK_OK(fs->DeleteFile("/d/one", io, nullptr));
  CHECK(ReadAll("/d/two") == "linked");
  CHECK_OK(fs->NumFileLinks("/d/two", io, &links, nullptr));
  CHECK(links == 1);
  Write("/d/one", "linked");
  CHECK(!AreSame("/d/one", "/d/two"));
  CHECK(AreSame("/d", "/d/") && AreSame("/d", "d/.") && !AreSame("/d", "/very") && !AreSame("/d", "/d/one"));
}

void ALockIsHeldOnce() {
  FileLock* lock = nullptr;
  FileLock* second = nullptr;
  CHECK_OK(fs->LockFile("/d/LOCK", io, &lock, nullptr));
  CHECK_OK(fs->FileExists("/d/LOCK", io, nullptr));
  const IOStatus refused = fs->LockFile("/d/LOCK", io, &second, nullptr);
  CHECK(!refused.ok() && second == nullptr);
  CHECK(refused.ToString().find("lock ") != std::string::npos);
  CHECK_OK(fs->UnlockFile(lock, io, nullptr));
  CHECK_OK(fs->LockFile("/d/LOCK", io, &lock, nullptr));
  CHECK_OK(fs->UnlockFile(lock, io, nullptr));
}

void TheTestDirectoryIsTheOneAskedFor() {
  std::string path;
  for (const std::string asked : {"/deep/tests", ""}) {
    setenv("TEST_TMPDIR", asked.c_str(), 1);
    CHECK_OK(fs->GetTestDirectory(io, &path, nullptr));
    CHECK(asked.empty() ? path.rfind("/tmp/rocksdbtest-", 0) == 0 : path == asked);
    CHECK_OK(fs->FileExists(path, io, nullptr));
  }
}

void TheInfoLogIsWritten() {
  std::shared_ptr<Logger> logger;
  CHECK_OK(fs->NewLogger("/d/LOG", io, &logger, nullptr));
  const std::string word(3000, 'w');
  Log(InfoLogLevel::WARN_LEVEL, logger, "%s of %d bytes", word.c_str(), 3000);
  Log(logger, "the last line");
  CHECK(logger->GetLogFileSize() == SizeOf("/d/LOG"));
  const std::string log = ReadAll("/d/LOG");
  CHECK(log.find(word + " of 3000 bytes\n") != std::string::npos);
  CHECK(log.size() > 14 && log.substr(log.size() - 14) == "the last line\n");
}

void AProcessMountsAVolumeOnce(const std::string& uri) {
  Write("/d/mine", "mine");
  std::shared_ptr<FileSystem> again;
  CHECK_OK(FileSystem::CreateFromString(ConfigOptions(), uri, &again));
  CHECK_OK(again->FileExists("/d/mine", io, nullptr));
  std::shared_ptr<FileSystem> other;
  const Status status = FileSystem::CreateFromString(ConfigOptions(), uri + "&policy=primary", &other);
  CHECK(status.IsInvalidArgument() && status.ToString().find("with other options") != std::string::npos);
  Env* env = nullptr;
  Env* twice = nullptr;
  std::shared_ptr<Env> guard;
  const ConfigOptions config;
  CHECK_OK(Env::CreateFromUri(config, "id=" + uri, "", &env, &guard));
  CHECK_OK(Env::CreateFromUri(config, "id=" + uri, "", &twice, &guard));
  CHECK(env == twice && guard == nullptr);
  CHECK_OK(env->FileExists("/d/mine"));
  DBOptions parsed;
  CHECK_OK(GetDBOptionsFromString(ConfigOptions(), DBOptions(), "env={id=" + uri + "}", &parsed));
  CHECK(parsed.env == env);
}

// Fills the volume with a file, and answers how much went into it and what the last append said.
std::pair<uint64_t, IOStatus> Fill(const std::string& path) {
  const auto file = Create(path);
  const std::string piece = Content(9, 0, 1 << 20);
  uint64_t written = 0;
  for (size_t i = 0; i < 1000; i++) {
    IOStatus status = file->Append(piece, io, nullptr);
    if (status.ok()) {
      status = file->Flush(io, nullptr);
    }
    if (!status.ok()) {
      return {written, status};
    }
    written += piece.size();
  }
  return {written, IOStatus::OK()};
}

void AFullVolumeIsSaidToBeAndWorksAgainWhenSpaceIsFreed() {
  const auto free = [] {
    uint64_t bytes = 0;
    CHECK_OK(fs->GetFreeSpace("/d", io, &bytes, nullptr));
    return bytes;
  };
  const uint64_t before = free();
  const auto [written, status] = Fill("/d/large");
  CHECK(status.IsNoSpace() && status.GetRetryable());
  CHECK(before >= written && before <= written + (2 << 20));
  CHECK(free() < 1 << 20);
  CHECK_OK(fs->DeleteFile("/d/large", io, nullptr));
  Write("/d/small", Content(9, 0, 1 << 20));
  CHECK(ReadAll("/d/small") == Content(9, 0, 1 << 20));
}

// Waits for the end of a recovery that RocksDB began by itself.
class Recovery : public EventListener {
 public:
  void OnErrorRecoveryEnd(const BackgroundErrorRecoveryInfo& info) override {
    std::lock_guard<std::mutex> guard(mutex_);
    is_done_ = info.new_bg_error.ok();
    ended_.notify_all();
  }

  bool Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    return ended_.wait_for(lock, std::chrono::minutes(2), [this] { return is_done_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_done_ = false;
};

// RocksDB asks for the free space every five seconds, and goes on when there is some.
void ADatabaseGoesOnByItselfWhenAFullVolumeHasSpaceAgain() {
  const auto env = NewCompositeEnv(fs);
  const auto recovery = std::make_shared<Recovery>();
  Options options;
  options.env = env.get();
  options.create_if_missing = true;
  options.compression = kNoCompression;
  options.listeners.push_back(recovery);
  std::unique_ptr<DB> db;
  CHECK_OK(gimbal::OpenDb(options, "/d/db", &db));
  const auto key = [](unsigned n) { return std::to_string(n); };
  WriteOptions unlogged;
  unlogged.disableWAL = true;
  for (unsigned n = 0; n < 100; n++) {
    CHECK_OK(db->Put(unlogged, key(n), Content(n, 0, 100000)));
  }
  CHECK(Fill("/d/filler").second.IsNoSpace());
  CHECK(db->Flush(FlushOptions()).IsNoSpace());
  CHECK(db->Put(WriteOptions(), "refused", "").IsNoSpace());
  CHECK_OK(fs->DeleteFile("/d/filler", io, nullptr));
  CHECK(recovery->Wait());
  for (unsigned n = 100; n < 200; n++) {
    CHECK_OK(db->Put(WriteOptions(), key(n), Content(n, 0, 100000)));
  }
  CHECK_OK(db->Flush(FlushOptions()));
  for (unsigned n = 0; n < 200; n++) {
    std::string value;
    CHECK_OK(db->Get(ReadOptions(), key(n), &value));
    CHECK(value == Content(n, 0, 100000));
  }
}

}  // namespace

int main(int count, char** arguments) {
  CHECK(count == 2);
  const std::string uri = arguments[1];
  CHECK_OK(FileSystem::CreateFromString(ConfigOptions(), uri, &fs));
  CHECK_OK(fs->CreateDirIfMissing("/d", io, nullptr));
#define CLAIM(name, ...)        \
  do {                          \
    std::printf("%s\n", #name); \
    std::fflush(stdout);        \
    name(__VA_ARGS__);          \
  } while (false)
  CLAIM(ANewFileTakesTheNameAndOpenReadersKeepTheOldOne);
  CLAIM(AFileIsReadWhileItIsWritten);
  CLAIM(SkipStopsAtTheEnd);
  CLAIM(DirectWritesRewriteTheLastSectorAndAreTrimmed);
  CLAIM(HintsDoNotChangeTheSize);
  CLAIM(WhatIsAbsentIsSaidToBe);
  CLAIM(ManyThreadsReadOneFile);
  CLAIM(WithoutMemoryOfTheCallerTheFileLendsItsOwn);
  CLAIM(MultiReadFindsWhatReadFinds);
  CLAIM(AsynchronousReadsCallBackOnceInPollOrAbort);
  CLAIM(RenameReplacesInOneStep);
  CLAIM(DirectoriesAreMadeListedSyncedAndRemoved);
  CLAIM(AReopenedFileIsCutAndGoesOn);
  CLAIM(LinksAreCountedAndTheSameFile);
  CLAIM(ALockIsHeldOnce);
  CLAIM(TheTestDirectoryIsTheOneAskedFor);
  CLAIM(TheInfoLogIsWritten);
  CLAIM(AProcessMountsAVolumeOnce, uri);
  CLAIM(AFullVolumeIsSaidToBeAndWorksAgainWhenSpaceIsFreed);
  CLAIM(ADatabaseGoesOnByItselfWhenAFullVolumeHasSpaceAgain);
  fs.reset();
  std::printf("all claims hold\n");
  return 0;
}
