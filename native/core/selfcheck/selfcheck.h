// Our CUDA kernels against libtorch's operations on the card itself, for the sizes and the type of
// one model: what a machine does before it trusts them. No weights are needed.
//
// Inputs are the same on every machine. What a kernel writes to holds NaN before and lies between
// guards. The reference is computed by tensor operations in fp32 (fp64 where that is at hand) from
// the same, already rounded inputs.
#pragma once

#include <string>
#include <vector>

#include "model/model.h"

namespace acoer {

// One comparison.
struct KernelFigure {
  std::string kernel;  // such as "attention_bf16_128_g2"; "graph" for replayed steps
  KernelFamily family;
  double error = 0;  // norm of the difference over norm of the reference, unless it is said else
  double allowed = 0;
  std::string fault;  // what is wrong, to follow the kernel's name; empty: nothing
};

// What is checked. The kernels and libtorch's operations both run on `device`.
struct CheckedKernels {
  const GpuKernels& kernels;
  ModelSpec spec;
  at::Device device = at::kCPU;
  at::ScalarType dtype = at::kFloat;
  Quantization quantization = Quantization::kNone;
};

// Those of the family that the model uses. What a kernel or libtorch throws is a fault, unless
// memory ran out. After an illegal access CUDA does nothing more in this process, so the first
// check of a machine belongs into a process of its own.
std::vector<KernelFigure> checkFamily(const CheckedKernels& checked, KernelFamily family);
// All families; graphs only if the kernels that they start are right.
std::vector<KernelFigure> checkKernels(const CheckedKernels& checked);

// "acoer's CUDA kernel NAME FAULT" of each family's first fault.
KernelFaults faultsIn(const std::vector<KernelFigure>& figures);

}  // namespace acoer
