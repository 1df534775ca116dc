// The driver library, as far as libtorch, device.cpp and kernels/gpu/card.cpp use it.
#include <cstdio>

#include "null_cuda.h"

extern "C" {

int cuDevicePrimaryCtxGetState(int, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return 0;
}
int cuGetErrorString(int, const char** text) {
  *text = "an error of null-cuda";
  return 0;
}
int cuInit(unsigned) { return 0; }
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}
int cuDeviceGetName(char* name, int size, int) {
  std::snprintf(name, static_cast<size_t>(size), "null RTX A6000");
  return 0;
}

// Modules of kernels. Every thread has a context.
int cuCtxGetCurrent(void** context) {
  static int mark;
  *context = &mark;
  return 0;
}
int cuModuleLoadData(void** module, const void* image) {
  static int mark;
  *module = &mark;
  const char* elf = static_cast<const char*>(image);
  return elf[0] == '\x7f' && elf[1] == 'E' ? 0 : 200;  // CUDA_ERROR_INVALID_IMAGE
}
int cuModuleGetFunction(void** function, void*, const char* name) {
  *function = nullCudaKernel(name);
  return 0;
}
int cuModuleUnload(void*) { return 0; }
int cuLaunchKernel(void* function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,
                   unsigned blockY, unsigned blockZ, unsigned, void* stream, void**, void**) {
  const unsigned grid[] = {gridX, gridY, gridZ}, block[] = {blockX, blockY, blockZ};
  return nullCudaLaunch(function, grid, block, stream);
}

}  // extern "C"
