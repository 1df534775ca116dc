// The peak rates of this machine, measured rather than looked up: the denominators of `acoer
// bench`.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "base/cancel.h"

namespace acoer {

struct Ceilings {
  double readBytesPerSecond = 0;
  double matmulFlopsPerSecond = 0;
};

// Measures both once, which takes about a second. Reading: every thread of the engine sums its part
// of a buffer far larger than the caches. Matmul: square matrices in `dtype`, or in fp32 on a CPU
// without bf16 units if that is faster.
Ceilings measureCeilings(c10::Device device, c10::ScalarType dtype, const Cancel& cancel);

}  // namespace acoer
