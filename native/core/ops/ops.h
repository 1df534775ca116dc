// Small parts of the model that training, scoring and decoding share.
#pragma once

#include "model/model.h"

namespace acoer {

// What is summed in fp32 for most types: fp64 for fp64.
inline at::ScalarType wideType(at::ScalarType dtype) {
  return dtype == at::kDouble ? at::kDouble : at::kFloat;
}

// A copy on `device` of a tensor in host memory. A GPU is not waited for: the work that is started
// next on this thread finds the copy there.
at::Tensor onDevice(const at::Tensor& host, at::Device device);

// The elements of `x`, in order.
std::vector<double> toDoubles(const at::Tensor& x);

// silu(gate) * up of the fused projection [T, 2F] -> [T, F].
at::Tensor swiglu(const at::Tensor& gateUp_T2F);

}  // namespace acoer
