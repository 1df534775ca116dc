// The memory of an engine's tensors: counting it, limiting it, and giving it back after a failure.
//
// On a CPU, malloc does not fail: Linux promises more memory than there is and kills a process that
// touches too much of it. With a limit, the failure comes first, as an error that the caller can
// handle.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <optional>

namespace acoer {

struct MemoryUse {
  int64_t bytes = 0;
  int64_t peakBytes = 0;
};

class MemoryAccount;

// Created and destroyed on the engine's thread, around everything that holds tensors. Whatever that
// thread allocates in between belongs to the engine, whichever thread frees it.
class EngineMemory {
 public:
  // A `limitBytes` of 0 means no limit. On a CPU the limit applies to this engine; on a CUDA device
  // to the whole process, including cached blocks. Tensors of a few kB are counted but never
  // refused, so that an operation on existing tensors cannot fail half-way.
  EngineMemory(c10::Device device, int64_t limitBytes);
  ~EngineMemory();
  EngineMemory(const EngineMemory&) = delete;
  EngineMemory& operator=(const EngineMemory&) = delete;

  // Nothing on a CPU without a limit, where tensors are not counted.
  std::optional<MemoryUse> use() const;

 private:
  c10::Device device_;
  std::shared_ptr<MemoryAccount> account_;
};

// Prepares `device` for a limit; throws kBadArgument or kDevice if it cannot have one. Call it
// before the engine's thread starts, so that the caller gets the error.
void prepareMemoryLimit(c10::Device device, int64_t limitBytes);

// What the calling engine thread can still allocate on `device`.
int64_t availableBytes(c10::Device device);

// Whether the calling engine thread's tensors count towards a limit, which those of other threads
// would not.
bool memoryIsCounted();

// Whether the exception being handled means that memory ran out; call it only inside a catch block.
bool handlingOutOfMemory();

// Returns unused memory to the system or the device.
void releaseFreedMemory(c10::Device device);

}  // namespace acoer
