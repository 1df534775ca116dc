// Facts about a CUDA device that need CUDA's own headers. No ATen headers in .cu files: they cost a
// minute each.
#include <cuda_runtime.h>

#include <cstdio>

#include "acoer_cuda.h"

extern "C" int32_t acoerCudaAbi(void) { return ACOER_CUDA_ABI; }

extern "C" const char* acoerCudaErrorText(int32_t error) {
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}

namespace {

cudaError_t readDevice(int32_t index, AcoerCudaDevice* out) {
  cudaDeviceProp properties;
  cudaError_t error = cudaGetDeviceProperties(&properties, index);
  if (error != cudaSuccess) return error;
  std::snprintf(out->name, sizeof(out->name), "%s", properties.name);
  out->computeMajor = properties.major;
  out->computeMinor = properties.minor;
  out->multiprocessors = properties.multiProcessorCount;
  int version = 0;
  error = cudaDriverGetVersion(&version);
  if (error != cudaSuccess) return error;
  out->driverVersion = version;
  error = cudaRuntimeGetVersion(&version);
  if (error != cudaSuccess) return error;
  out->runtimeVersion = version;
  size_t freeBytes = 0;
  size_t totalBytes = 0;
  error = cudaMemGetInfo(&freeBytes, &totalBytes);  // of the current device
  out->freeBytes = static_cast<int64_t>(freeBytes);
  out->totalBytes = static_cast<int64_t>(totalBytes);
  return error;
}

}  // namespace

extern "C" int32_t acoerCudaDevice(int32_t index, AcoerCudaDevice* out) {
  int previous = 0;
  cudaError_t error = cudaGetDevice(&previous);
  if (error != cudaSuccess) return error;
  error = cudaSetDevice(index);
  if (error != cudaSuccess) return error;
  error = readDevice(index, out);
  const cudaError_t restored = cudaSetDevice(previous);
  return error != cudaSuccess ? error : restored;
}
