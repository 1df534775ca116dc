// Work on a CUDA stream that is recorded once and then started as a whole: what the host would
// launch piece by piece costs it one call.
#pragma once

#include <functional>

#include "kernels/gpu/kernels.h"

namespace acoer {

class GpuGraph {
 public:
  // Records what `body` starts on `device`'s current stream, without running it. It must use
  // nothing but memory that exists already and stays where it is, and must not wait. Throws kDevice
  // with the reason if the runtime refuses, or if `body` allocated memory: the graph would go on
  // using it after it is given to others.
  static GpuGraph record(const CudaRuntime& runtime, c10::Device device,
                         const std::function<void()>& body);

  void launch() const;

 private:
  GpuGraph(const CudaRuntime& runtime, c10::Device device) : runtime_(runtime), device_(device) {}

  CudaRuntime runtime_;
  c10::Device device_;
  CudaHandle executable_;
};

}  // namespace acoer
