// How the bytes of a fuzzer reach readers that take paths.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "error.h"

namespace acoer::fuzz {

// A file in memory (memfd) with a path that open() accepts.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const;

 private:
  int file_ = -1;
};

// A directory of this process under TMPDIR, removed at exit. Every call with names fills it anew.
std::string folderWith(const std::vector<std::pair<std::string, std::string_view>>& files);

// An input of several files: they are separated by kSeparator.
constexpr std::string_view kSeparator = "\n====\n";
std::vector<std::string_view> sections(std::string_view input);

// Runs `read`; true when it took the input, false when it refused it as a bad file. Any other
// exception, a kInternal one too, goes through.
bool accepted(const std::function<void()>& read);

// Throws kInternal with `promise` unless it holds.
inline void require(bool holds, const std::string& promise) {
  if (!holds) fail(ErrorCode::kInternal, "not so: " + promise);
}

}  // namespace acoer::fuzz
