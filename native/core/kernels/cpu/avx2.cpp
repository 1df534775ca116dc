// The kernels with 256-bit vectors.
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/sets.h"

#ifdef ACOER_X86_64
#pragma GCC target("avx2,fma")
#pragma GCC optimize("O3")
namespace acoer::kernels::avx2 {
namespace {
constexpr int kVectorBytes = 32;
constexpr int kRowBlock = 4;
#include "kernels/cpu/body.h"
}  // namespace
constinit const KernelSet kSet = makeSet("avx2");
}  // namespace acoer::kernels::avx2
#endif
