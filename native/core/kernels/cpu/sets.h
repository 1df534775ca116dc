// The instruction sets that the kernels are compiled for. Included only by the .cpp files here and
// by tests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/bf16_products.h"
#include "kernels/cpu/kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define ACOER_X86_64
// Clang does not follow GCC's pragmas for the target, which instructions of these two need.
#ifndef __clang__
#define ACOER_AVX512_BF16
#if __has_include(<amxbf16intrin.h>)
#define ACOER_AMX
#endif
#endif
#endif

namespace acoer::kernels {

struct KernelSet {
  const char* name;   // as in ACOER_CPU_KERNELS
  bool bf16Products;  // by instructions for them
  RowKernels<float> rowsFloat;
  RowKernels<double> rowsDouble;
  RowKernels<Bf16> rowsBf16;
  MathKernels<float> mathFloat;
  MathKernels<double> mathDouble;
  DequantiseKernels dequantise;
  ProductKernels products;
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

// With the products of AVX-512-BF16 and of AMX; the rest is avx512's.
namespace avx512_bf16 {
extern const ProductKernels kProducts;
}
namespace amx {
extern const ProductKernels kProducts;
}

// The sets that this machine can run, the best one last.
std::vector<const KernelSet*> usableSets();

}  // namespace acoer::kernels
