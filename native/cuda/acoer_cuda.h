// What libacoer_cuda.so offers to the core, as plain C: the core looks these names up after dlopen,
// so that it builds and runs without CUDA's headers. Change ACOER_CUDA_ABI with every change of
// this file.
#pragma once

#include <stdint.h>

#define ACOER_CUDA_ABI 2

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  char name[256];
  int64_t totalBytes;
  int64_t freeBytes;
  int32_t computeMajor;
  int32_t computeMinor;
  int32_t multiprocessors;
  int32_t driverVersion;  // as CUDA counts: 13000 = 13.0
  int32_t runtimeVersion;
} AcoerCudaDevice;

// ACOER_CUDA_ABI of the library.
int32_t acoerCudaAbi(void);

// 0, or a CUDA error code whose text acoerCudaErrorText gives. Leaves the current device as it was.
int32_t acoerCudaDevice(int32_t index, AcoerCudaDevice* out);

// Lets libtorch's allocator take this share (0 to 1) of the device's memory and no more. The device
// is initialised.
void acoerCudaLimitMemory(int32_t index, double share);

// Static text; never null.
const char* acoerCudaErrorText(int32_t error);

#ifdef __cplusplus
}
#endif
