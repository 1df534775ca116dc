// Which device an engine runs on. The only place that loads CUDA's libraries: libtorch_cuda.so if
// it lies beside libtorch_cpu.so, then libacoer_cuda.so if it lies beside this binary, once per
// process. That must happen before anything asks libtorch about CUDA, because libtorch keeps its
// first answer.
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace acoer {

// "cpu", "cuda", "cuda:<n>", or "auto" (cuda when there is one). Throws kDevice when the device is
// not there and kBadArgument for any other name.
c10::Device resolveDevice(const std::string& name);

// The CUDA version libtorch was built with, such as "13.0"; empty without CUDA.
std::string cudaVersion();

struct DeviceFacts {
  std::string device;  // "cpu", "cuda:0"
  std::string name;    // of the processor or the card
  int64_t totalBytes = 0;
  int64_t freeBytes = 0;
};

DeviceFacts deviceFacts(c10::Device device);

// Bounds what libtorch's allocator takes of a CUDA device in this process. Throws kDevice when the
// optional CUDA object, which does it, is not there.
void limitDeviceMemory(c10::Device device, int64_t bytes);

}  // namespace acoer
