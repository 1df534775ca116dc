// The kernels with 512-bit vectors.
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/sets.h"

#ifdef ACOER_X86_64
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")
#pragma GCC optimize("O3")
namespace acoer::kernels::avx512 {
namespace {
constexpr int kVectorBytes = 64;
constexpr int kRowBlock = 8;
#include "kernels/cpu/body.h"
}  // namespace
constinit const KernelSet kSet = makeSet("avx512");
}  // namespace acoer::kernels::avx512
#endif
