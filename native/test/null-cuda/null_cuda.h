// What the stand-ins for NVIDIA's libraries count, and what a program can tell them. They are
// preloaded, so a program finds these functions with dlsym.
#pragma once

#include <cstdint>

namespace acoer::null_cuda {

// What is captured into a graph is not counted; see nullCudaGraphKernels.
enum Counter {
  kKernels,        // launches
  kGemms,          // cuBLAS and cuBLASLt products
  kUploads,        // copies from the host
  kDownloads,      // copies to the host
  kDeviceCopies,   // copies within the device
  kWaits,          // synchronisations of a stream, an event or the device
  kAllocations,    // cudaMalloc
  kSwitches,       // changes of the thread's current device
  kCaptures,       // graphs captured
  kGraphs,         // launches of a graph
  kDefaultStream,  // launches of kernels and graphs on the default stream
  kDriver,         // kernels started through the driver library; part of kKernels
  kCounters,
};

}  // namespace acoer::null_cuda

extern "C" {
// Writes kCounters numbers, counted since the process began.
void nullCudaCounts(int64_t* out);
// The launches and products in the last captured graph.
int64_t nullCudaGraphKernels();
// This thread's next call of a CUDA function fails with this cudaError_t. Known: cudaLaunchKernel,
// cudaGraphLaunch and those of libraries, captures and graphs (cudart.cpp).
void nullCudaFailNext(const char* function, int error);
// What cudaGetLastError would say, which keeps it.
int nullCudaLastError();
// A copy to the host delivers ones of this size, int32 (4) or float64 (8), instead of the device's
// bytes, which no kernel has written; 0 turns that off. A sampler then reads "finite" and token 1:
// int32 for our kernels, float64 for libtorch's operations.
void nullCudaAnswerOnes(int bytes);
// For the driver's stand-in: a new kernel of that name, and its launch.
void* nullCudaKernel(const char* name);
int nullCudaLaunch(const void* kernel, const unsigned grid[3], const unsigned block[3],
                   void* stream);
}
