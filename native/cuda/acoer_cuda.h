// The C interface of libacoer_cuda.so. The core looks these names up after dlopen, so that it
// builds and runs without CUDA's headers. Change ACOER_CUDA_ABI with every change to this file.
#pragma once

#include <stdint.h>

#define ACOER_CUDA_ABI 3

#ifdef __cplusplus
extern "C" {
#endif

// The ACOER_CUDA_ABI that the library was built with.
int32_t acoerCudaAbi(void);

// Limits libtorch's allocator to this share (0 to 1) of the device's memory. The device must be
// initialised.
void acoerCudaLimitMemory(int32_t index, double share);

#ifdef __cplusplus
}
#endif
