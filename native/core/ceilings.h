// What this machine does at best, measured and never looked up: the denominators of `acoer bench`.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "cancel.h"

namespace acoer {

struct Ceilings {
  double readBytesPerSecond = 0;
  double matmulFlopsPerSecond = 0;
};

// One measurement of both, about a second. Reading: every thread of the engine sums its part of a
// buffer far larger than the caches. Products: of square matrices in `dtype`, or in fp32 where a
// CPU without bf16 units is faster in that.
Ceilings measureCeilings(c10::Device device, c10::ScalarType dtype, const Cancel& cancel);

}  // namespace acoer
