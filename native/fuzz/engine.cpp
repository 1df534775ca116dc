// libFuzzer's entry points for the target ACOER_FUZZ_TARGET.
#include <ATen/Parallel.h>

#include <cstdint>

#include "targets.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  at::set_num_threads(1);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  acoer::fuzz::ACOER_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}
