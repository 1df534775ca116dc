// The self-check of a card, whose numbers mean nothing here: every kernel that a model uses starts,
// steps are recorded, and nothing goes to the default stream.
#include <cstdio>

#include "base/device.h"
#include "check_support.h"
#include "kernels/gpu/kernels.h"
#include "selfcheck/selfcheck.h"

namespace acoer::null_cuda {
namespace {

ACOER_TEST(bare_self_check_starts_every_kernel) {
  const c10::Device device = resolveDevice("cuda");
  computeOn(device);
  const CheckedKernels checked{.kernels = *gpuKernelsFor(device),
                               .spec = check::qwen3Spec1p7B(28),
                               .device = device,
                               .dtype = at::kBFloat16};
  const AnsweringOnes ones(DecodePath::kAuto);
  const Counts before = counts();
  size_t figures = 0;
  for (const KernelFamily family : kKernelFamilies) {
    const auto found = checkFamily(checked, family);
    ACOER_CHECK(!found.empty());
    figures += found.size();
    for (const KernelFigure& figure : found) {
      if (figure.fault.rfind("failed: ", 0) != 0) continue;
      fail(ErrorCode::kInternal, figure.kernel + " " + figure.fault);
    }
  }
  const Counts after = counts();
  std::printf("    %zu comparisons, %lld launches, %lld graphs, %lld allocations\n", figures,
              static_cast<long long>(after[kKernels] - before[kKernels]),
              static_cast<long long>(after[kGraphs] - before[kGraphs]),
              static_cast<long long>(after[kAllocations] - before[kAllocations]));
  ACOER_CHECK(after[kGraphs] > before[kGraphs]);
  ACOER_CHECK(after[kDefaultStream] == before[kDefaultStream]);
  ACOER_CHECK(pendingError() == 0);
}

}  // namespace
}  // namespace acoer::null_cuda
