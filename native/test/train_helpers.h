// Tensors in files, for the tests of what reads them.
#pragma once

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "model/policy.h"

namespace acoer::check {

// Enough `keepBytes` for any test.
constexpr int64_t kKeepAll = int64_t{1} << 40;

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// A temporary file with tensors end to end and no header, and the table that says where they are.
class TensorFile {
 public:
  explicit TensorFile(const NamedTensors& tensors);
  ~TensorFile() { std::fclose(file_); }
  TensorFile(const TensorFile&) = delete;
  TensorFile& operator=(const TensorFile&) = delete;

  TensorTable table;

 private:
  std::FILE* file_;
};

// The tensors of both tables, each in its own file.
TensorTable joined(const TensorTable& a, const TensorTable& b);

// The values of `policy`, and its optimiser's state, as they are saved.
NamedTensors valuesOf(const Policy& policy);
NamedTensors optimizerStateOf(const Policy& policy);

}  // namespace acoer::check
