// The kernels with 128-bit vectors, which every 64-bit machine has.
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/sets.h"

#pragma GCC optimize("O3")
namespace acoer::kernels::base {
namespace {
constexpr int kVectorBytes = 16;
constexpr int kRowBlock = 4;
#include "kernels/cpu/body.h"
}  // namespace
constinit const KernelSet kSet = makeSet("base");
}  // namespace acoer::kernels::base
