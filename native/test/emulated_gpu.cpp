#include "emulated_gpu.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "check.h"
#include "kernels/kernels.cu"
#include "recorded_work.h"

namespace acoer::check {
namespace {

using Run = void (*)(LaunchSize grid, LaunchSize block, const void* args);

// A kernel's handle is its entry.
struct Entry {
  const char* name;
  Run run;
  size_t argsBytes;
};

template <class Args, void (*kernel)(Args)>
void runKernel(LaunchSize grid, LaunchSize block, const void* argBytes) {
  Args args;
  std::memcpy(&args, argBytes, sizeof args);
  emu::launch(kernel, dim3(grid.x, grid.y, grid.z), dim3(block.x, block.y, block.z), 0, args);
}

using namespace acoer::cuda;  // the types that the table names
#define ACOER_ENTRY(name, threads, Args) \
  {"acoer_" #name, runKernel<Args, ::acoer_##name>, sizeof(Args)},
const Entry kEntries[] = {ACOER_KERNELS(ACOER_ENTRY)};
#undef ACOER_ENTRY

// Values of cudaError_t.
constexpr int kNoSuchStream = 400, kNotCapturing = 900, kNotFound = 500, kFreedMemory = 700;

// What the runtime knows. Like CUDA's it keeps the last error until somebody asks for it, and a
// launch fails while there is one: libtorch would throw it there.
struct Runtime {
  std::string reason;
  int lastError = 0;
  GraphCounts graphs;
};
thread_local Runtime state;

int answer(int error, const std::string& reason) {
  state.reason = reason;
  state.lastError = error;
  return error;
}

bool isStream(void* stream) { return stream == currentGpuStream(c10::kCPU); }

int launchKernel(const void* kernel, LaunchSize grid, LaunchSize block, void** args, size_t,
                 void* stream) {
  if (state.lastError != 0) return state.lastError;
  if (!isStream(stream)) return answer(kNoSuchStream, "a launch on another stream");
  const Entry& entry = *static_cast<const Entry*>(kernel);
  if (isRecording()) {
    recordLaunch(entry.name, args[0], entry.argsBytes,
                 [run = entry.run, grid, block](const void* bytes) { run(grid, block, bytes); });
  } else {
    entry.run(grid, block, args[0]);
  }
  return 0;
}

// Graphs: a graph and its executable are the same RecordedWork.
int beginCapture(void* stream, int) {
  if (!isStream(stream) || isRecording()) return answer(kNotCapturing, "no capture here");
  beginRecording();
  return 0;
}

int endCapture(void* stream, void** graph) {
  if (!isStream(stream) || !isRecording()) return answer(kNotCapturing, "nothing is captured");
  std::unique_ptr<RecordedWork> work = endRecording();
  if (!work->refusal().empty()) return answer(kNotCapturing, work->refusal());
  *graph = work.release();
  return 0;
}

int instantiate(void** executable, void* graph, unsigned long long) {
  *executable = new RecordedWork(*static_cast<RecordedWork*>(graph));
  state.graphs.recorded += 1;
  state.graphs.live += 1;
  state.graphs.most = std::max(state.graphs.most, state.graphs.live);
  return 0;
}

int launchGraph(void* executable, void* stream) {
  if (state.lastError != 0) return state.lastError;
  if (!isStream(stream)) return answer(kNoSuchStream, "a graph on another stream");
  try {
    static_cast<const RecordedWork*>(executable)->replay();
  } catch (const EngineError& error) {
    return answer(kFreedMemory, error.what());
  }
  state.graphs.replayed += 1;
  return 0;
}

CudaRuntime emulatedRuntime() {
  CudaRuntime runtime;
  runtime.libraryLoadData = [](void**, const void*, void*, void**, unsigned, void*, void**,
                               unsigned) { return 0; };
  runtime.libraryGetKernel = [](void** kernel, void*, const char* name) {
    for (const Entry& entry : kEntries) {
      if (std::strcmp(entry.name, name) != 0) continue;
      *kernel = const_cast<Entry*>(&entry);
      return 0;
    }
    return answer(kNotFound, "no such kernel");
  };
  runtime.libraryUnload = [](void*) { return 0; };
  runtime.launchKernel = launchKernel;
  runtime.getErrorString = [](int) { return state.reason.c_str(); };
  runtime.getLastError = [] { return std::exchange(state.lastError, 0); };
  runtime.streamBeginCapture = beginCapture;
  runtime.streamEndCapture = endCapture;
  runtime.graphInstantiate = instantiate;
  runtime.graphLaunch = launchGraph;
  runtime.graphDestroy = [](void* graph) {
    delete static_cast<RecordedWork*>(graph);
    return 0;
  };
  runtime.graphExecDestroy = [](void* executable) {
    delete static_cast<RecordedWork*>(executable);
    state.graphs.live -= 1;
    return 0;
  };
  return runtime;
}

std::filesystem::path fatbin() {
  Dl_info info;
  dladdr(reinterpret_cast<void*>(&emulatedKernels), &info);
  return std::filesystem::path(info.dli_fname).parent_path() / "kernels.fatbin";
}

}  // namespace

const GpuKernels* kernelsToCheck() {
  if (checkDevice().is_cpu()) return &emulatedKernels();
  const GpuKernelChoice& choice = gpuKernels(checkDevice());
  if (!choice.kernels) fail(ErrorCode::kDevice, choice.reason);
  return choice.kernels.get();
}

GraphCounts graphCounts() { return state.graphs; }

PlantedBug::PlantedBug(int number) { emu::plantedBug() = number; }
PlantedBug::~PlantedBug() { emu::plantedBug() = 0; }

const GpuKernels& emulatedKernels(Graphs graphs) {
  if (!checkDevice().is_cpu()) {
    fail(ErrorCode::kInternal, "emulated kernels read host memory, and the tensors are on " +
                                   checkDevice().str() + "; use kernelsToCheck()");
  }
  static const auto* kernels = new GpuKernels(fatbin(), emulatedRuntime());
  static const auto* withoutGraphs = [] {
    CudaRuntime runtime = emulatedRuntime();
    runtime.streamBeginCapture = nullptr;
    return new GpuKernels(fatbin(), runtime);
  }();
  return graphs == Graphs::kRecorded ? *kernels : *withoutGraphs;
}

}  // namespace acoer::check
