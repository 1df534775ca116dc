// The kernels with 128-bit vectors, which every 64-bit machine has, and the selection at run time.
#include "decode_kernels.h"
#include "decode_kernels_sets.h"

#pragma GCC optimize("O3")
namespace acoer::kernels {
namespace base {
namespace {
constexpr int kVectorBytes = 16;
constexpr int kRowBlock = 4;
#include "decode_kernels_body.h"
}  // namespace
constinit const KernelSet kSet = makeSet();
}  // namespace base

namespace {

const KernelSet& chooseSet() {
#ifdef ACOER_X86_64
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    return avx512::kSet;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2::kSet;
#endif
  return base::kSet;
}

const KernelSet& chosenSet() {
  static const KernelSet& set = chooseSet();
  return set;
}

}  // namespace

std::vector<const KernelSet*> usableSets() {
  std::vector<const KernelSet*> sets{&base::kSet};
#ifdef ACOER_X86_64
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) sets.push_back(&avx2::kSet);
  if (&chosenSet() == &avx512::kSet) sets.push_back(&avx512::kSet);
#endif
  return sets;
}

template <>
const RowKernels<float>& rowKernels<float>() {
  return chosenSet().rowsFloat;
}
template <>
const RowKernels<double>& rowKernels<double>() {
  return chosenSet().rowsDouble;
}
template <>
const RowKernels<Bf16>& rowKernels<Bf16>() {
  return chosenSet().rowsBf16;
}
template <>
const MathKernels<float>& mathKernels<float>() {
  return chosenSet().mathFloat;
}
template <>
const MathKernels<double>& mathKernels<double>() {
  return chosenSet().mathDouble;
}

}  // namespace acoer::kernels
