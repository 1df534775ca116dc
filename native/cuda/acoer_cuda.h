// What libacoer_cuda.so offers to the core, as plain C: the core looks these names up after dlopen,
// so that it builds and runs without CUDA's headers. Change ACOER_CUDA_ABI with every change of
// this file.
#pragma once

#include <stdint.h>

#define ACOER_CUDA_ABI 3

#ifdef __cplusplus
extern "C" {
#endif

// ACOER_CUDA_ABI of the library.
int32_t acoerCudaAbi(void);

// Lets libtorch's allocator take this share (0 to 1) of the device's memory and no more. The device
// is initialised.
void acoerCudaLimitMemory(int32_t index, double share);

#ifdef __cplusplus
}
#endif
