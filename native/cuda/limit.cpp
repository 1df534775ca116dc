// The code that needs c10's CUDA headers, which need the toolkit's.
#include <c10/cuda/CUDACachingAllocator.h>

#include "acoer_cuda.h"

extern "C" int32_t acoerCudaAbi(void) { return ACOER_CUDA_ABI; }

extern "C" void acoerCudaLimitMemory(int32_t index, double share) {
  c10::cuda::CUDACachingAllocator::setMemoryFraction(share, static_cast<c10::DeviceIndex>(index));
}
