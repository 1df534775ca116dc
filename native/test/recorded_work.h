// CUDA graphs on a CPU. While a thread records, neither emulated kernels nor libtorch's operations
// run; they are written down as a graph holds them: kernels with the bytes of their arguments,
// operations with the addresses, sizes and strides of their tensors. A replay runs all of it again
// on those addresses, whatever lies there by then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace acoer::check {

class RecordedWork {
 public:
  // Fails with DEVICE, naming the step, if memory that it uses has been freed since it was recorded
  // (DeviceMemory).
  void replay() const;
  // Why no graph can hold what was recorded; empty if one can.
  const std::string& refusal() const { return refusal_; }

  struct Step {
    std::string name;
    std::function<void()> run;
    std::vector<uint64_t> blocks;  // of memory
  };
  void add(Step step) { steps_.push_back(std::move(step)); }
  void refuse(const std::string& why);

 private:
  std::vector<Step> steps_;
  std::string refusal_;
};

// Each thread records on its own, one recording at a time.
bool isRecording();
void beginRecording();
std::unique_ptr<RecordedWork> endRecording();
// A kernel's launch; `run` gets a copy of the argument's bytes.
void recordLaunch(const char* name, const void* args, size_t bytes,
                  std::function<void(const void* args)> run);

}  // namespace acoer::check
