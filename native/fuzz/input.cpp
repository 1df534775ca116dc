#include "input.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace acoer::fuzz {

MemoryFile::MemoryFile(std::string_view bytes) : file_(::memfd_create("fuzz", MFD_CLOEXEC)) {
  require(file_ >= 0, std::string("memfd_create works: ") + std::strerror(errno));
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    require(written > 0, std::string("a memfd takes bytes: ") + std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

MemoryFile::~MemoryFile() { ::close(file_); }

std::string MemoryFile::path() const { return "/proc/self/fd/" + std::to_string(file_); }

namespace {

struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "acoer-fuzz-XXXXXX").string();
    require(::mkdtemp(pattern.data()) != nullptr, "a directory can be made at " + pattern);
    path = pattern;
  }
  ~Folder() {
    std::error_code ignored;  // a leftover temporary directory is no finding
    std::filesystem::remove_all(path, ignored);
  }
};

}  // namespace

std::string folderWith(const std::vector<std::pair<std::string, std::string_view>>& files) {
  static const Folder folder;
  for (const auto& old : std::filesystem::directory_iterator(folder.path)) {
    std::filesystem::remove(old.path());
  }
  for (const auto& [name, bytes] : files) {
    std::ofstream file(folder.path / name, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    require(file.flush().good(), "the folder of inputs takes " + name);
  }
  return folder.path.string();
}

std::vector<std::string_view> sections(std::string_view input) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = input.find(kSeparator);
    parts.push_back(input.substr(0, end));
    if (end == std::string_view::npos) return parts;
    input.remove_prefix(end + kSeparator.size());
  }
}

bool accepted(const std::function<void()>& read) {
  try {
    read();
    return true;
  } catch (const EngineError& error) {
    const ErrorCode code = error.code();
    if (code != ErrorCode::kBadFile && code != ErrorCode::kBadShape &&
        code != ErrorCode::kBadArgument) {
      throw;
    }
    require(std::strlen(error.what()) > 0, "a refusal says why");
    return false;
  }
}

}  // namespace acoer::fuzz
