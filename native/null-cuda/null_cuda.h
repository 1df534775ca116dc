// What the stand-ins for NVIDIA's libraries count, and what a program can tell them. They are
// preloaded, so a program finds these functions with dlsym.
#pragma once

#include <cstdint>

namespace acoer::null_cuda {

enum Counter {
  kKernels,       // launches
  kGemms,         // cuBLAS and cuBLASLt products
  kUploads,       // copies from the host
  kDownloads,     // copies to the host
  kDeviceCopies,  // copies within the device
  kWaits,         // synchronisations of a stream, an event or the device
  kAllocations,   // cudaMalloc
  kSwitches,      // changes of the thread's current device
  kCounters,
};

}  // namespace acoer::null_cuda

extern "C" {
// Writes kCounters numbers, counted since the process began.
void nullCudaCounts(int64_t* out);
// With `on`, a copy to the host delivers float64 ones instead of the device's bytes, which no
// kernel has written. The sampler then reads "finite" and token 1.
void nullCudaAnswerOnes(int on);
}
