// Turns a fuzzer's bytes into tables of tensors.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/policy.h"

namespace acoer::fuzz {

// A file in memory (memfd).
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

// Separates the parts of an input: a head of lines, then the bytes of each file.
constexpr std::string_view kSeparator = "\n====\n";

// A parsed input. The lines of its head, in any order:
//   spec V D F L H J K positions tied dtype     the sizes of a model, tied 0 or 1, dtype 0 to 2
//   lora rank targets                           targets: a sum of 1 << Target
//   tensor NAME file dtype begin end SIZE...
// Whatever is missing or not a number is 0.
struct Input {
  explicit Input(std::string_view bytes);

  ModelSpec spec;
  at::ScalarType dtype = at::kFloat;
  PolicyOptions lora;
  TensorTable table;

 private:
  void readLine(const std::string& line);
  std::vector<std::unique_ptr<MemoryFile>> files_;
};

// Runs `read`; true if it accepted the input, false if it rejected it. Any other exception,
// including kInternal, is passed on.
bool accepted(const std::function<void()>& read);

// Throws kInternal, naming the broken `promise`, unless it holds.
inline void require(bool holds, const std::string& promise) {
  if (!holds) fail(ErrorCode::kInternal, "broken promise: " + promise);
}

}  // namespace acoer::fuzz
