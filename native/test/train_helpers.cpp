#include "train_helpers.h"

#include <ATen/ATen.h>

#include "check.h"

namespace acoer::check {

TensorFile::TensorFile(const NamedTensors& tensors) : file_(std::tmpfile()) {
  ACOER_CHECK(file_ != nullptr);
  table.files.push_back({::fileno(file_), "tensors"});
  int64_t at = 0;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor flat = tensor.detach().contiguous();
    const size_t bytes = flat.nbytes();
    ACOER_CHECK(bytes == 0 || std::fwrite(flat.data_ptr(), 1, bytes, file_) == bytes);
    const char* dtype = tensor.scalar_type() == at::kDouble     ? "F64"
                        : tensor.scalar_type() == at::kBFloat16 ? "BF16"
                        : tensor.scalar_type() == at::kLong     ? "I64"
                                                                : "F32";
    const int64_t end = at + static_cast<int64_t>(bytes);
    table.tensors.push_back({name, 0, dtype, tensor.sizes().vec(), at, end});
    at = end;
  }
  ACOER_CHECK(std::fflush(file_) == 0);
}

TensorTable joined(const TensorTable& a, const TensorTable& b) {
  TensorTable both = a;
  both.files.insert(both.files.end(), b.files.begin(), b.files.end());
  for (StoredTensor tensor : b.tensors) {
    tensor.file += static_cast<int64_t>(a.files.size());
    both.tensors.push_back(std::move(tensor));
  }
  return both;
}

NamedTensors valuesOf(const Policy& policy) {
  NamedTensors named;
  for (const Parameter& p : policy.parameters) named.emplace_back(p.name, p.value);
  return named;
}

NamedTensors optimizerStateOf(const Policy& policy) {
  NamedTensors named{{"step", at::full({}, policy.stepCount, at::kLong)}};
  for (const Parameter& p : policy.parameters) {
    named.emplace_back("exp_avg." + p.name, p.expAvg);
    named.emplace_back("exp_avg_sq." + p.name, p.expAvgSq);
  }
  return named;
}

}  // namespace acoer::check
