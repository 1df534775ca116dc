// Which device an engine runs on. The only place that loads CUDA's libraries, once per process:
// libtorch_cuda.so if it lies next to libtorch_cpu.so, then libacoer_cuda.so if it lies next to
// this binary. This must happen before anything asks libtorch about CUDA, because libtorch keeps
// its first answer.
#pragma once

#include <c10/core/Device.h>

#include <filesystem>
#include <string>

namespace acoer {

// "cpu", "cuda", "cuda:<n>", or "auto" (cuda if there is one). Throws kDevice if the device is not
// available and kBadArgument for any other name.
c10::Device resolveDevice(const std::string& name);

// The folder of the program or addon that holds this code; empty if it is not known.
std::filesystem::path ownFolder();

// The CUDA version that libtorch was built with, such as "13.0"; empty without CUDA.
std::string cudaVersion();

// Makes the calling thread compute on `device` with settings that hold for all of acoer: on a CUDA
// device, on a stream of the thread's own, since graphs (kernels/gpu/graph.h) cannot be recorded on
// the default one, and with sums of bf16 products in fp32. Call it before the thread's first tensor
// there, since work of two streams is not ordered; later calls change nothing. Throws kDevice if
// CUDA does not start.
void computeOn(c10::Device device);

struct DeviceFacts {
  std::string device;  // "cpu", "cuda:0"
  std::string name;    // of the processor or the card
  int64_t totalBytes = 0;
  int64_t freeBytes = 0;
};

DeviceFacts deviceFacts(c10::Device device);

// What tells a CUDA card from others of its kind, in hexadecimal; empty if its driver does not say.
std::string cardId(c10::Device device);

// Limits how much of a CUDA device's memory libtorch's allocator may take in this process. Throws
// kDevice without the optional library libacoer_cuda.so, which does it.
void limitDeviceMemory(c10::Device device, int64_t bytes);

}  // namespace acoer
