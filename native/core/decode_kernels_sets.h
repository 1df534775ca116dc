// The instruction sets the kernels are compiled for. Besides decode_kernels_*.cpp only tests look.
#pragma once

#include <vector>

#include "decode_kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define ACOER_X86_64
#endif

namespace acoer::kernels {

struct KernelSet {
  RowKernels<float> rowsFloat;
  RowKernels<double> rowsDouble;
  RowKernels<Bf16> rowsBf16;
  MathKernels<float> mathFloat;
  MathKernels<double> mathDouble;
};

namespace base {
extern const KernelSet kSet;
}
namespace avx2 {
extern const KernelSet kSet;
}
namespace avx512 {
extern const KernelSet kSet;
}

// Those this machine can run.
std::vector<const KernelSet*> usableSets();

}  // namespace acoer::kernels
