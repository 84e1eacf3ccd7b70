// The same calls on RocksDB's own file system and on a volume: as_posix URI DIRECTORY. What is seen must be the same. The program is
// linked with the plug-in.
//
// Each case writes down what it sees: how calls ended, sizes, contents. The local file system is the model, so nothing is said here of
// what is right.
//
// Left out, as a volume differs on purpose or RocksDB's own file system has no sense there: writing over a name that has another link
// (local: both change; volume: a new file, so that readers and checkpoints keep the old one), `..` and names below a file (other errors),
// directories opened for a sync that are files, names of more than 255 bytes (a volume allows them), reads of nothing, and cutting a file by
// its name (locally not supported).

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "check.h"
#include "rocksdb/convenience.h"
#include "rocksdb/file_system.h"

using namespace rocksdb;

namespace {

const IOOptions io;
const FileOptions plain;

// What RocksDB tells apart: that something is absent, and that something failed.
std::string Kind(const Status& status) {
  return status.ok() ? "ok" : status.IsNotFound() || status.IsPathNotFound() ? "absent" : "fails";
}

// One file system, below a directory, and what was seen there.
class Place {
 public:
  Place(std::shared_ptr<FileSystem> fs, std::string root) : fs_(std::move(fs)), root_(std::move(root)) {
    CHECK_OK(fs_->CreateDirIfMissing(root_, io, nullptr));
  }

  FileSystem& fs() { return *fs_; }
  std::string At(const std::string& name) const { return root_ + "/" + name; }

  void See(const std::string& what, const std::string& is) { seen.push_back(what + ": " + is); }
  void See(const std::string& what, const Status& status) { See(what, Kind(status)); }

  std::unique_ptr<FSWritableFile> Create(const std::string& name) {
    std::unique_ptr<FSWritableFile> file;
    See("create " + name, fs_->NewWritableFile(At(name), plain, &file, nullptr));
    return file;
  }

  std::unique_ptr<FSWritableFile> Reopen(const std::string& name) {
    std::unique_ptr<FSWritableFile> file;
    See("reopen " + name, fs_->ReopenWritableFile(At(name), plain, &file, nullptr));
    return file;
  }

  std::unique_ptr<FSRandomAccessFile> Open(const std::string& name) {
    std::unique_ptr<FSRandomAccessFile> file;
    See("open " + name, fs_->NewRandomAccessFile(At(name), plain, &file, nullptr));
    return file;
  }

  void Append(FSWritableFile& file, const std::string& bytes) {
    CHECK_OK(file.Append(bytes, io, nullptr));
    CHECK_OK(file.Flush(io, nullptr));
  }

  void Write(const std::string& name, const std::string& content) {
    if (auto file = Create(name)) {
      Append(*file, content);
      CHECK_OK(file->Close(io, nullptr));
    }
  }

  void Read(const FSRandomAccessFile& file, uint64_t offset, size_t length) {
    std::string scratch(length + 1, '\0');
    Slice got;
    const Status status = file.Read(offset, length, io, &got, &scratch[0], nullptr);
    See("read " + std::to_string(offset) + "+" + std::to_string(length), Kind(status) + " '" + got.ToString() + "'");
  }

  void ReadAll(const std::string& name) {
    if (auto file = Open(name)) {
      Read(*file, 0, 1000);
    }
  }

  void Size(const std::string& name) {
    uint64_t size = 0;
    const Status status = fs_->GetFileSize(At(name), io, &size, nullptr);
    See("size of " + name, status.ok() ? std::to_string(size) : Kind(status));
  }

  void Links(const std::string& name) {
    uint64_t count = 0;
    const Status status = fs_->NumFileLinks(At(name), io, &count, nullptr);
    See("links of " + name, status.ok() ? std::to_string(count) : Kind(status));
  }

  void List(const std::string& name) {
    std::vector<std::string> names;
    const Status status = fs_->GetChildren(At(name), io, &names, nullptr);
    std::sort(names.begin(), names.end());
    std::string text;
    for (const std::string& child : names) {
      text += " " + child;
    }
    See("children of " + name, Kind(status) + text);
  }

  void Exists(const std::string& name) { See("exists " + name, fs_->FileExists(At(name), io, nullptr)); }
  void Delete(const std::string& name) { See("delete " + name, fs_->DeleteFile(At(name), io, nullptr)); }
  void MakeDir(const std::string& name) { See("make " + name, fs_->CreateDir(At(name), io, nullptr)); }
  void DeleteDir(const std::string& name) { See("remove " + name, fs_->DeleteDir(At(name), io, nullptr)); }
  void Rename(const std::string& from, const std::string& to) {
    See("rename " + from + " " + to, fs_->RenameFile(At(from), At(to), io, nullptr));
  }
  void Link(const std::string& from, const std::string& to) {
    See("link " + from + " " + to, fs_->LinkFile(At(from), At(to), io, nullptr));
  }

  std::vector<std::string> seen;

 private:
  const std::shared_ptr<FileSystem> fs_;
  const std::string root_;
};

void AnOpenFileOutlivesItsName(Place& place) {
  place.Write("read", "still here");
  const auto reader = place.Open("read");
  place.Delete("read");
  place.Read(*reader, 0, 100);
  place.Exists("read");
  const auto writer = place.Create("written");
  place.Append(*writer, "before");
  place.Delete("written");
  place.Append(*writer, " and after");
  place.See("its size", std::to_string(writer->GetFileSize(io, nullptr)));
  place.See("its sync", writer->Sync(io, nullptr));
  place.See("its close", writer->Close(io, nullptr));
  place.Exists("written");
}

void AWriterFollowsItsFileToAnotherName(Place& place) {
  const auto writer = place.Create("from");
  place.Append(*writer, "one");
  place.Rename("from", "to");
  place.Append(*writer, " two");
  CHECK_OK(writer->Close(io, nullptr));
  place.ReadAll("to");
  place.Exists("from");
}

void AnOldWriterDoesNotTouchTheNewFileOfItsName(Place& place) {
  const auto old = place.Create("name");
  place.Append(*old, "old");
  const auto reader = place.Open("name");
  place.Rename("name", "aside");
  place.Write("name", "new");
  place.Append(*old, " and more");
  CHECK_OK(old->Close(io, nullptr));
  place.Read(*reader, 0, 100);
  place.ReadAll("name");
  place.ReadAll("aside");
}

void RenamesThatCannotBe(Place& place) {
  place.Write("file", "content");
  place.MakeDir("empty");
  place.MakeDir("full");
  place.Write("full/inside", "x");
  place.Rename("absent", "else");
  place.Rename("file", "file");
  place.Rename("file", "absent/file");
  place.Rename("file", "empty");
  place.Rename("empty", "file");
  place.Rename("empty", "full");
  place.Rename("full", "full/deeper");
  place.ReadAll("file");
  place.List("full");
  place.Rename("full", "empty");
  place.List("empty");
  place.Exists("full");
  place.Rename("empty", "elsewhere");
  place.ReadAll("elsewhere/inside");
}

void LinksAreNamesOfOneFile(Place& place) {
  place.Write("one", "content");
  place.Link("one", "two");
  place.Links("one");
  place.Link("one", "two");
  place.Link("absent", "three");
  place.Link("one", "absent/three");
  place.Rename("one", "two");
  place.Exists("one");
  place.Links("two");
  place.Delete("one");
  place.Links("two");
  place.ReadAll("two");
  const auto writer = place.Reopen("two");
  place.Link("two", "four");
  place.Append(*writer, " more");
  CHECK_OK(writer->Close(io, nullptr));
  place.ReadAll("four");
  place.Links("absent");
}

void Directories(Place& place) {
  place.List("absent");
  place.Write("file", "x");
  place.MakeDir("directory");
  place.MakeDir("directory");
  place.MakeDir("file");
  place.MakeDir("absent/deeper");
  place.See("make if missing, there", place.fs().CreateDirIfMissing(place.At("directory"), io, nullptr));
  place.See("make if missing, a file", place.fs().CreateDirIfMissing(place.At("file"), io, nullptr));
  place.Write("directory/b", "");
  place.Write("directory/a", "");
  place.MakeDir("directory/c");
  place.Write("directory/c/d", "");
  place.List("directory");
  place.List("directory/");
  place.List("file");
  for (const char* name : {"directory", "directory/", "directory/c", "file", "file/deeper", "absent", "directory//a", "directory/./a"}) {
    place.Exists(name);
  }
  place.DeleteDir("directory");
  place.DeleteDir("file");
  place.DeleteDir("absent");
  place.Delete("directory");
  place.Delete("absent");
  place.Delete("directory/c/d");
  place.DeleteDir("directory/c");
  place.List("directory");
  for (const char* name : {"directory", "file", "absent"}) {
    bool is_dir = false;
    const Status status = place.fs().IsDirectory(place.At(name), io, &is_dir, nullptr);
    place.See(std::string("is a directory: ") + name, Kind(status) + (is_dir ? " yes" : " no"));
    if (std::string(name) == "file") {
      continue;
    }
    std::unique_ptr<FSDirectory> opened;
    place.See(std::string("open directory ") + name, place.fs().NewDirectory(place.At(name), io, &opened, nullptr));
    if (opened != nullptr) {
      place.See("fsync", opened->Fsync(io, nullptr));
      place.See("close", opened->Close(io, nullptr));
    }
  }
}

void FilesThatCannotBeOpened(Place& place) {
  place.MakeDir("directory");
  place.Write("file", "x");
  place.Create("absent/file");
  place.Create("file/deeper");
  place.Create("directory");
  place.Reopen("directory");
  place.Reopen("absent/file");
  place.Open("absent");
  std::unique_ptr<FSSequentialFile> file;
  place.See("in turn", place.fs().NewSequentialFile(place.At("absent"), plain, &file, nullptr));
  place.Size("absent");
  uint64_t time = 0;
  place.See("time", place.fs().GetFileModificationTime(place.At("absent"), io, &time, nullptr));
  bool is_same = false;
  place.See("same", place.fs().AreFilesSame(place.At("file"), place.At("absent"), io, &is_same, nullptr));
}

void ReadsAtAndBehindTheEnd(Place& place) {
  place.Write("file", "0123456789");
  const auto file = place.Open("file");
  for (const auto& [offset, length] : std::vector<std::pair<uint64_t, size_t>>{
           {5, 5}, {5, 6}, {9, 1}, {10, 1}, {11, 1}, {1 << 30, 9}}) {
    place.Read(*file, offset, length);
  }
  std::unique_ptr<FSSequentialFile> in_turn;
  CHECK_OK(place.fs().NewSequentialFile(place.At("file"), plain, &in_turn, nullptr));
  for (const size_t length : {4, 100, 1}) {
    char scratch[100];
    Slice got;
    const Status status = in_turn->Read(length, io, &got, scratch, nullptr);
    place.See("next " + std::to_string(length), Kind(status) + " '" + got.ToString() + "'");
  }
  place.Write("nothing", "");
  place.Size("nothing");
  place.ReadAll("nothing");
}

void FilesAreCutAndGoOn(Place& place) {
  place.Write("file", "0123456789");
  for (const uint64_t size : {7, 7, 4, 0}) {
    const auto writer = place.Reopen("file");
    place.See("cut to " + std::to_string(size), writer->Truncate(size, io, nullptr));
    place.Size("file");
    CHECK_OK(writer->Close(io, nullptr));
    place.ReadAll("file");
  }
  const auto writer = place.Reopen("file");
  place.Append(*writer, "abc");
  place.Size("file");
  CHECK_OK(writer->Close(io, nullptr));
  const auto again = place.Create("file");
  place.Size("file");
  CHECK_OK(again->Allocate(0, 1 << 16, io, nullptr));
  place.Append(*again, "z");
  CHECK_OK(again->RangeSync(0, 1, io, nullptr));
  place.See("cut at the end", again->Truncate(1, io, nullptr));
  CHECK_OK(again->Close(io, nullptr));
  place.Size("file");
}

void Locks(Place& place) {
  FileLock* lock = nullptr;
  FileLock* second = nullptr;
  place.See("lock", place.fs().LockFile(place.At("LOCK"), io, &lock, nullptr));
  place.See("once more", place.fs().LockFile(place.At("LOCK"), io, &second, nullptr));
  place.Exists("LOCK");
  place.See("unlock", place.fs().UnlockFile(lock, io, nullptr));
  place.See("again", place.fs().LockFile(place.At("LOCK"), io, &lock, nullptr));
  place.See("unlock", place.fs().UnlockFile(lock, io, nullptr));
  place.See("in an absent directory", place.fs().LockFile(place.At("absent/LOCK"), io, &second, nullptr));
}

void Names(Place& place) {
  for (const std::string& name : {std::string("with space"), std::string("=&?#%41"), std::string("\xc3\xa4\xe2\x82\xac"),
                                  std::string(255, 'n'), std::string("..."), std::string("-")}) {
    place.Write(name, "x");
    place.Size(name);
    place.Delete(name);
  }
  place.Write("file", "x");
  place.ReadAll("./file");
}

const std::vector<std::pair<const char*, std::function<void(Place&)>>> cases = {
    {"open", AnOpenFileOutlivesItsName},
    {"follow", AWriterFollowsItsFileToAnotherName},
    {"old", AnOldWriterDoesNotTouchTheNewFileOfItsName},
    {"rename", RenamesThatCannotBe},
    {"link", LinksAreNamesOfOneFile},
    {"directory", Directories},
    {"absent", FilesThatCannotBeOpened},
    {"end", ReadsAtAndBehindTheEnd},
    {"cut", FilesAreCutAndGoOn},
    {"lock", Locks},
    {"name", Names},
};

// How many differences there are.
size_t Compare(const char* name, const std::vector<std::string>& local, const std::vector<std::string>& volume) {
  size_t differences = 0;
  for (size_t at = 0; at < std::max(local.size(), volume.size()); at++) {
    const std::string one = at < local.size() ? local[at] : "nothing", other = at < volume.size() ? volume[at] : "nothing";
    if (one != other) {
      std::fprintf(stderr, "%s: local '%s', volume '%s'\n", name, one.c_str(), other.c_str());
      differences++;
    }
  }
  return differences;
}

}  // namespace

int main(int count, char** arguments) {
  CHECK(count == 3);
  std::shared_ptr<FileSystem> volume;
  CHECK_OK(FileSystem::CreateFromString(ConfigOptions(), arguments[1], &volume));
  size_t differences = 0, seen = 0;
  for (const auto& [name, run] : cases) {
    Place here(FileSystem::Default(), std::string(arguments[2]) + "/" + name), there(volume, std::string("/") + name);
    run(here);
    run(there);
    differences += Compare(name, here.seen, there.seen);
    seen += here.seen.size();
  }
  std::printf("%zu observations, %zu differ\n", seen, differences);
  return differences == 0 ? 0 : 1;
}
