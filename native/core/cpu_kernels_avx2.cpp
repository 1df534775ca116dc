// The kernels with 256-bit vectors.
#include "cpu_kernels.h"
#include "cpu_kernels_sets.h"

#ifdef ACOER_X86_64
#pragma GCC target("avx2,fma")
#pragma GCC optimize("O3")
namespace acoer::kernels::avx2 {
namespace {
constexpr int kVectorBytes = 32;
constexpr int kRowBlock = 4;
#include "cpu_kernels_body.h"
}  // namespace
constinit const KernelSet kSet = makeSet("avx2");
}  // namespace acoer::kernels::avx2
#endif
