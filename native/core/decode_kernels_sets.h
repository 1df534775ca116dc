// The instruction sets that the kernels are compiled for. Included only by decode_kernels_*.cpp and
// by tests.
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

// The sets that this machine can run.
std::vector<const KernelSet*> usableSets();

}  // namespace acoer::kernels
