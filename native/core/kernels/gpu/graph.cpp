#include "kernels/gpu/graph.h"

#include <c10/core/CachingDeviceAllocator.h>

#include "base/error.h"

namespace acoer {
namespace {

// cudaStreamCaptureModeThreadLocal: other threads may allocate meanwhile.
constexpr int kCaptureThreadLocal = 1;

void check(const CudaRuntime& runtime, int result, const char* what) {
  if (result == 0) return;
  fail(ErrorCode::kDevice, "a CUDA graph could not be ", what, ": ", runtime.takeError(result));
}

// Where nothing more is done with what failed.
void forget(const CudaRuntime& runtime, int result) {
  if (result != 0) runtime.takeError(result);
}

// Where kernels are emulated, the runtime itself refuses what allocates.
int64_t allocationsSoFar(c10::Device device) {
  if (device.is_cpu()) return 0;
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return c10::getDeviceAllocator(device.type())
      ->getDeviceStats(device.index())
      .allocation[kAll]
      .allocated;
}

// Ends the capture also when the body throws; the stream would stay unusable.
class Capture {
 public:
  Capture(const CudaRuntime& runtime, void* stream) : runtime_(runtime), stream_(stream) {
    check(runtime, runtime.streamBeginCapture(stream, kCaptureThreadLocal), "begun");
  }
  ~Capture() {
    if (!ended_) forget(runtime_, end());
    if (graph_ != nullptr) forget(runtime_, runtime_.graphDestroy(graph_));
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  int end() {
    ended_ = true;
    return runtime_.streamEndCapture(stream_, &graph_);
  }
  void* graph() const { return graph_; }

 private:
  const CudaRuntime& runtime_;
  void* stream_;
  void* graph_ = nullptr;
  bool ended_ = false;
};

}  // namespace

GpuGraph GpuGraph::record(const CudaRuntime& runtime, c10::Device device,
                          const std::function<void()>& body) {
  if (runtime.streamBeginCapture == nullptr || runtime.graphLaunch == nullptr) {
    fail(ErrorCode::kDevice, "the CUDA runtime of this process has no graphs");
  }
  const int64_t before = allocationsSoFar(device);
  Capture capture(runtime, currentGpuStream(device));
  body();
  check(runtime, capture.end(), "recorded");
  if (allocationsSoFar(device) != before) {
    fail(ErrorCode::kDevice, "a CUDA graph could not be recorded: its work allocates memory");
  }
  GpuGraph graph(runtime, device);
  void* executable = nullptr;
  check(runtime, runtime.graphInstantiate(&executable, capture.graph(), 0), "made ready");
  graph.executable_ = {
      executable, [runtime](void* unused) { forget(runtime, runtime.graphExecDestroy(unused)); }};
  return graph;
}

void GpuGraph::launch() const {
  check(runtime_, runtime_.graphLaunch(executable_.get(), currentGpuStream(device_)), "started");
}

}  // namespace acoer
