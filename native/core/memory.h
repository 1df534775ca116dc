// Memory of an engine's tensors: counted, limited, given back after a failure.
//
// On a CPU, Linux hands out more memory than there is and kills a process that touches too much of
// it: malloc does not fail. With a limit the failure comes first, as an error that can be acted on.
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

// Made and destroyed on the engine's thread, around everything that holds tensors: what that thread
// allocates meanwhile is the engine's, whichever thread frees it.
class EngineMemory {
 public:
  // `limitBytes` 0: none. On a CPU the limit is this engine's; on a CUDA device that of the whole
  // process, cached blocks included. Tensors of a few kB are counted but never refused, so that
  // work on what is there already cannot stop half-way.
  EngineMemory(c10::Device device, int64_t limitBytes);
  ~EngineMemory();
  EngineMemory(const EngineMemory&) = delete;
  EngineMemory& operator=(const EngineMemory&) = delete;

  // Nothing on a CPU without a limit: then nobody counts.
  std::optional<MemoryUse> use() const;

 private:
  c10::Device device_;
  std::shared_ptr<MemoryAccount> account_;
};

// Prepares `device` for a limit; throws kBadArgument or kDevice when it cannot have one. Before the
// engine's thread starts, so that its maker hears of it.
void prepareMemoryLimit(c10::Device device, int64_t limitBytes);

// What the calling engine thread can still allocate on `device`.
int64_t availableBytes(c10::Device device);

// Whether the exception being handled says that memory could not be had; call it only inside a
// catch block.
bool handlingOutOfMemory();

// Gives memory nothing uses any more back to the system or the device.
void releaseFreedMemory(c10::Device device);

}  // namespace acoer
