// A CUDA runtime without a GPU. Device memory is host address space that is never touched; copies
// and kernels are counted but not carried out. The caller is the real libtorch_cuda with its
// dispatch, choice of kernels, allocator and synchronisation. Every function not defined here
// returns 0 (stand-ins.mjs).
//
// The simulated machine has two RTX A6000. NULL_CUDA_LOG=FILE writes a line for each event;
// NULL_CUDA_DRIVER=12040 makes the driver one of CUDA 12.4.
#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "null_cuda.h"

namespace {

using namespace acoer::null_cuda;

constexpr int kDevices = 2;
constexpr size_t kTotalBytes = 48'318'382'080;  // 46,080 MiB: 48 GB minus ECC
constexpr int kMajor = 8, kMinor = 6, kMultiprocessors = 84;
constexpr int kSharedBytes = 49'152, kSharedOptinBytes = 101'376,
              kSharedPerMultiprocessor = 102'400;
constexpr int kThreadsPerBlock = 1024, kThreadsPerMultiprocessor = 1536, kRegisters = 65'536;
constexpr int kMaxGridX = 2'147'483'647, kMaxGridYZ = 65'535;

std::array<std::atomic<int64_t>, kCounters> counts;
std::atomic<int> answerOnes{0};  // bytes of each one; 0: off
thread_local int currentDevice = 0;

FILE* eventLog() {
  static FILE* const file = [] {
    const char* path = std::getenv("NULL_CUDA_LOG");
    return path != nullptr ? std::fopen(path, "w") : nullptr;
  }();
  return file;
}

// The graph that this thread captures.
struct Capture {
  bool active = false;
  int64_t kernels = 0;
  cudaStream_t stream = nullptr;
  bool broken = false;  // by work on another stream
};
thread_local Capture capture;
std::atomic<int64_t> lastGraphKernels{0};

void count(Counter counter) {
  if (!capture.active) {
    ++counts[counter];
  } else if (counter == kKernels || counter == kGemms) {
    ++capture.kernels;
  }
}

// As the real runtime this one keeps a thread's last error until somebody asks for it: libtorch
// asks after each of its own launches, and throws what it finds.
thread_local cudaError_t lastError = cudaSuccess;

cudaError_t fails(cudaError_t error) {
  lastError = error;
  return error;
}

// What a program asked for (nullCudaFailNext).
struct Ordered {
  std::string function;
  cudaError_t error = cudaSuccess;
};
thread_local Ordered ordered;

cudaError_t failsIfOrdered(const char* function) {
  if (ordered.function != function) return cudaSuccess;
  ordered.function.clear();
  return fails(ordered.error);
}

cudaError_t note(Counter counter, const char* event, size_t bytes) {
  // A capture forbids what would have to wait for the device.
  if (capture.active && (counter == kAllocations || counter == kWaits)) {
    return fails(cudaErrorStreamCaptureUnsupported);
  }
  count(counter);
  if (FILE* file = eventLog()) std::fprintf(file, "%s %zu\n", event, bytes);
  return cudaSuccess;
}

// Device memory: one mapping per block.
struct Block {
  size_t bytes;
  int device;
};
struct DeviceMemory {
  std::mutex mutex;
  std::unordered_map<void*, Block> blocks;
  std::array<size_t, kDevices> used{};
};
DeviceMemory& deviceMemory() {
  static auto* memory = new DeviceMemory;  // outlives the libraries that free into it at exit
  return *memory;
}

// Kernel names by the address of their host stub.
std::unordered_map<const void*, const char*>& kernelNames() {
  static auto* names = new std::unordered_map<const void*, const char*>;
  return *names;
}

cudaError_t launch(const void* kernel, dim3 grid, dim3 block, size_t sharedBytes,
                   cudaStream_t stream) {
  if (const cudaError_t error = failsIfOrdered("cudaLaunchKernel")) return error;
  if (capture.active && stream != capture.stream) {
    capture.broken = true;
    return fails(cudaErrorStreamCaptureIsolation);
  }
  count(kKernels);
  if (stream == nullptr) count(kDefaultStream);
  if (FILE* file = eventLog()) {
    const auto found = kernelNames().find(kernel);
    std::fprintf(file, "KERNEL %s grid %u,%u,%u block %u,%u,%u shared %zu\n",
                 found == kernelNames().end() ? "?" : found->second, grid.x, grid.y, grid.z,
                 block.x, block.y, block.z, sharedBytes);
  }
  return cudaSuccess;
}

struct LaunchConfiguration {
  dim3 grid, block;
  size_t sharedBytes;
  cudaStream_t stream;
};
thread_local LaunchConfiguration pushed;

template <class Handle>
cudaError_t makeHandle(Handle* out) {
  static std::atomic<uintptr_t> next{0x1000};
  *out = reinterpret_cast<Handle>(next += 16);
  return cudaSuccess;
}

int nothing() { return 0; }

}  // namespace

extern "C" {

void nullCudaCounts(int64_t* out) {
  for (int i = 0; i < kCounters; ++i) out[i] = counts[static_cast<size_t>(i)];
}
void nullCudaAnswerOnes(int bytes) { answerOnes = bytes; }
int64_t nullCudaGraphKernels() { return lastGraphKernels; }
void nullCudaFailNext(const char* function, int error) {
  ordered = {function, static_cast<cudaError_t>(error)};
}
int nullCudaLastError() { return lastError; }
void nullCudaGemm(const char* event) { note(kGemms, event, 0); }

// Kernels: what the host code generated by nvcc calls.
void** __cudaRegisterFatBinary(void*) { return static_cast<void**>(std::calloc(1, 64)); }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void** handle) { std::free(handle); }
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, void*, void*,
                            void*, void*, int*) {
  kernelNames()[host] = name;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t sharedBytes,
                                     cudaStream_t stream) {
  pushed = {grid, block, sharedBytes, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* sharedBytes, void* stream) {
  *grid = pushed.grid;
  *block = pushed.block;
  *sharedBytes = pushed.sharedBytes;
  *static_cast<cudaStream_t*>(stream) = pushed.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void**,
                               size_t sharedBytes, cudaStream_t stream) {
  return launch(kernel, grid, block, sharedBytes, stream);
}
cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void**, size_t sharedBytes,
                             cudaStream_t stream) {
  return launch(kernel, grid, block, sharedBytes, stream);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void**) {
  return launch(kernel, config->gridDim, config->blockDim, config->dynamicSmemBytes,
                config->stream);
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->maxThreadsPerBlock = kThreadsPerBlock;
  attributes->numRegs = 64;
  attributes->binaryVersion = attributes->ptxVersion = 10 * kMajor + kMinor;
  attributes->maxDynamicSharedSizeBytes = kSharedOptinBytes;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int,
                                                                   size_t, unsigned) {
  *blocks = 2;
  return cudaSuccess;
}

// The device.
cudaError_t cudaGetDeviceCount(int* count) {
  *count = kDevices;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = currentDevice;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= kDevices) return fails(cudaErrorInvalidDevice);
  if (device != currentDevice) note(kSwitches, "DEVICE", static_cast<size_t>(device));
  currentDevice = device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "null RTX A6000");
  properties->major = kMajor;
  properties->minor = kMinor;
  properties->multiProcessorCount = kMultiprocessors;
  properties->totalGlobalMem = kTotalBytes;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = kThreadsPerBlock;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = kThreadsPerBlock;
  properties->maxThreadsDim[2] = 64;
  properties->maxGridSize[0] = kMaxGridX;
  properties->maxGridSize[1] = properties->maxGridSize[2] = kMaxGridYZ;
  properties->sharedMemPerBlock = kSharedBytes;
  properties->sharedMemPerBlockOptin = kSharedOptinBytes;
  properties->sharedMemPerMultiprocessor = kSharedPerMultiprocessor;
  properties->regsPerBlock = properties->regsPerMultiprocessor = kRegisters;
  properties->maxThreadsPerMultiProcessor = kThreadsPerMultiprocessor;
  properties->maxBlocksPerMultiProcessor = 16;
  properties->l2CacheSize = 6 << 20;
  properties->textureAlignment = 512;
  properties->concurrentKernels = properties->unifiedAddressing = properties->asyncEngineCount = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  static const std::unordered_map<int, int> known = {
      {cudaDevAttrComputeCapabilityMajor, kMajor},
      {cudaDevAttrComputeCapabilityMinor, kMinor},
      {cudaDevAttrMultiProcessorCount, kMultiprocessors},
      {cudaDevAttrMaxSharedMemoryPerBlock, kSharedBytes},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, kSharedOptinBytes},
      {cudaDevAttrMaxSharedMemoryPerMultiprocessor, kSharedPerMultiprocessor},
      {cudaDevAttrMaxThreadsPerBlock, kThreadsPerBlock},
      {cudaDevAttrMaxThreadsPerMultiProcessor, kThreadsPerMultiprocessor},
      {cudaDevAttrMaxRegistersPerBlock, kRegisters},
      {cudaDevAttrMaxRegistersPerMultiprocessor, kRegisters},
      {cudaDevAttrWarpSize, 32},
      {cudaDevAttrMaxGridDimX, kMaxGridX},
      {cudaDevAttrMaxGridDimY, kMaxGridYZ},
      {cudaDevAttrMaxGridDimZ, kMaxGridYZ},
  };
  const auto found = known.find(attribute);
  *value = found == known.end() ? 0 : found->second;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  const char* older = std::getenv("NULL_CUDA_DRIVER");
  *version = older != nullptr ? std::atoi(older) : CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return std::exchange(lastError, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return lastError; }
const char* cudaGetErrorString(cudaError_t) { return "an error of null-cuda"; }
const char* cudaGetErrorName(cudaError_t) { return "nullCudaError"; }
cudaError_t cudaGetDriverEntryPointByVersion(const char*, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  *function = reinterpret_cast<void*>(&nothing);
  if (result != nullptr) *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

// Memory.
cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  DeviceMemory& memory = deviceMemory();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  size_t& used = memory.used[static_cast<size_t>(currentDevice)];
  if (used + bytes > kTotalBytes) return fails(cudaErrorMemoryAllocation);
  *pointer = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (*pointer == MAP_FAILED) return fails(cudaErrorMemoryAllocation);
  used += bytes;
  memory.blocks[*pointer] = {bytes, currentDevice};
  return note(kAllocations, "MALLOC", bytes);
}
cudaError_t cudaFree(void* pointer) {
  DeviceMemory& memory = deviceMemory();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  const auto found = memory.blocks.find(pointer);
  if (found == memory.blocks.end()) return cudaSuccess;
  munmap(pointer, found->second.bytes);
  memory.used[static_cast<size_t>(found->second.device)] -= found->second.bytes;
  memory.blocks.erase(found);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* freeBytes, size_t* totalBytes) {
  DeviceMemory& memory = deviceMemory();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  *totalBytes = kTotalBytes;
  *freeBytes = kTotalBytes - memory.used[static_cast<size_t>(currentDevice)];
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  *pointer = std::calloc(1, bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* pointer) {
  std::free(pointer);
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void*) {
  *attributes = {};
  attributes->type = cudaMemoryTypeUnregistered;
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t) {
  if (kind == cudaMemcpyHostToDevice) return note(kUploads, "UPLOAD", bytes);
  if (kind != cudaMemcpyDeviceToHost) return note(kDeviceCopies, "COPY", bytes);
  if (answerOnes == sizeof(double) && bytes % sizeof(double) == 0) {
    std::fill_n(static_cast<double*>(to), bytes / sizeof(double), 1.0);
  } else if (answerOnes == sizeof(int32_t) && bytes % sizeof(int32_t) == 0) {
    std::fill_n(static_cast<int32_t*>(to), bytes / sizeof(int32_t), 1);
  } else {
    std::memcpy(to, from, bytes);
  }
  return note(kDownloads, "DOWNLOAD", bytes);
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}

// Streams and events.
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  return makeHandle(stream);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return makeHandle(stream); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return makeHandle(event); }
cudaError_t cudaEventCreate(cudaEvent_t* event) { return makeHandle(event); }
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) {
  *ms = 1;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return note(kWaits, "WAIT stream", 0); }
cudaError_t cudaDeviceSynchronize() { return note(kWaits, "WAIT device", 0); }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return note(kWaits, "WAIT event", 0); }
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = capture.active ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

// Graphs: what is captured is counted apart, and launching a graph counts as one event.
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (const cudaError_t error = failsIfOrdered("cudaStreamBeginCapture")) return error;
  if (stream == nullptr || capture.active) return fails(cudaErrorStreamCaptureUnsupported);
  capture = {true, 0, stream, false};
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  if (!capture.active || stream != capture.stream) return fails(cudaErrorStreamCaptureUnmatched);
  const Capture ended = std::exchange(capture, {});
  if (const cudaError_t error = failsIfOrdered("cudaStreamEndCapture")) return error;
  if (ended.broken) return fails(cudaErrorStreamCaptureInvalidated);
  lastGraphKernels = ended.kernels;
  ++counts[kCaptures];
  return makeHandle(graph);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t, unsigned long long) {
  if (const cudaError_t error = failsIfOrdered("cudaGraphInstantiate")) return error;
  return makeHandle(executable);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t stream) {
  if (const cudaError_t error = failsIfOrdered("cudaGraphLaunch")) return error;
  if (stream == nullptr) count(kDefaultStream);
  return note(kGraphs, "GRAPH", 0);
}
cudaError_t cudaGraphDestroy(cudaGraph_t) { return failsIfOrdered("cudaGraphDestroy"); }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return failsIfOrdered("cudaGraphExecDestroy"); }

// Libraries of kernels (native/core/kernels/gpu/kernels.h).
cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void*, cudaJitOption*, void**,
                                unsigned, cudaLibraryOption*, void**, unsigned) {
  if (const cudaError_t error = failsIfOrdered("cudaLibraryLoadData")) return error;
  return makeHandle(library);
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t, const char* name) {
  if (const cudaError_t error = failsIfOrdered("cudaLibraryGetKernel")) return error;
  makeHandle(kernel);
  kernelNames()[*kernel] = strdup(name);
  return cudaSuccess;
}
cudaError_t cudaLibraryUnload(cudaLibrary_t) { return failsIfOrdered("cudaLibraryUnload"); }
void* nullCudaKernel(const char* name) {
  cudaKernel_t kernel = nullptr;
  cudaLibraryGetKernel(&kernel, nullptr, name);
  return kernel;
}
int nullCudaLaunch(const void* kernel, const unsigned grid[3], const unsigned block[3],
                   void* stream) {
  ++counts[kDriver];
  // The driver library has no last error, and leaves the runtime's as it is.
  const cudaError_t before = lastError;
  const cudaError_t result =
      launch(kernel, {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, 0,
             static_cast<cudaStream_t>(stream));
  lastError = before;
  return result;
}

}  // extern "C"
