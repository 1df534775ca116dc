// What needs c10's CUDA headers but no compiler for the GPU.
#include <c10/cuda/CUDACachingAllocator.h>

#include "acoer_cuda.h"

extern "C" void acoerCudaLimitMemory(int32_t index, double share) {
  c10::cuda::CUDACachingAllocator::setMemoryFraction(share, static_cast<c10::DeviceIndex>(index));
}
