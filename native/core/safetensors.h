// The safetensors format: eight bytes of header length, a JSON header, the tensors end to end.
// https://github.com/huggingface/safetensors#format
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cancel.h"

namespace acoer {

struct SafetensorsEntry {
  std::string dtypeName;  // as in the file: "BF16", "F32", ...
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // bytes from the start of the file
};

// An open file whose header has been checked: every tensor lies inside the file, its bytes equal
// its shape times its type, and the tensors neither overlap nor leave holes (so a torn file is
// found at once). Read with pread: a file that shrinks later is an error, not a signal.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);  // throws kBadFile
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::string& path() const { return path_; }
  const std::map<std::string, SafetensorsEntry>& entries() const { return entries_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // The tensor `name`, which fills one of `shape` and type `wanted`. Throws kBadFile when it is
  // missing or not of a floating type (or, for int64, not I64), kBadShape when shapes differ.
  const SafetensorsEntry& check(const std::string& name, c10::ArrayRef<int64_t> shape,
                                at::ScalarType wanted) const;
  // Fills `out`, a CPU tensor (any strides), converting the type. Throws what check() throws.
  void read(const std::string& name, const at::Tensor& out, const Cancel& cancel) const;

 private:
  void parseHeader(const std::string& header, uint64_t dataStart, uint64_t fileSize);
  void checkLayout(uint64_t dataStart, uint64_t fileSize) const;
  void readBytes(uint64_t from, uint64_t count, void* out, const Cancel& cancel) const;

  std::string path_;
  int file_ = -1;
  std::map<std::string, SafetensorsEntry> entries_;
  std::map<std::string, std::string> metadata_;
};

// Writes the tensors (copied to the CPU one at a time) with metadata {"format": "pt"}, wider types
// first and then by name, as the reference writer orders them. Throws kBadFile.
void writeSafetensors(const std::string& path,
                      const std::vector<std::pair<std::string, at::Tensor>>& tensors);

std::string shapeText(c10::ArrayRef<int64_t> shape);  // "[2, 3]"

}  // namespace acoer
