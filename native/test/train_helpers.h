// Tensors in files, for the checks of what reads them.
#pragma once

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "policy.h"

namespace acoer::check {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// A temporary file of tensors end to end, without a header, and the table that says where they lie.
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

// The tensors of both, each in its own file.
TensorTable joined(const TensorTable& a, const TensorTable& b);

// The values of `policy`, or its optimiser's state, as they are saved.
NamedTensors valuesOf(const Policy& policy);
NamedTensors optimizerStateOf(const Policy& policy);

}  // namespace acoer::check
