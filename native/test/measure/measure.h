// What acoer-measure times, one call each. Every function waits for the device before it returns.
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "model/policy.h"

namespace acoer::measure {

// Qwen3-1.7B in bfloat16 and a LoRA adapter of rank 16 on all seven linears, or the same with sizes
// that a CPU manages in seconds, which checks the program and measures nothing.
struct Subject {
  bool tiny = false;
  c10::Device device = c10::kCPU;
  std::shared_ptr<Model> model;
  std::shared_ptr<Policy> policy;
};
Subject makeSubject(c10::Device device, bool tiny);

// In nanoseconds of the wall clock.
class Stopwatch {
 public:
  explicit Stopwatch(c10::Device device);
  double seconds() const;  // since it was made; waits for the device

 private:
  c10::Device device_;
  int64_t start_;
};

struct Ceilings {
  double copyBytesPerSecond = 0;  // bytes read and written
  double matmulFlopsPerSecond = 0;
};
// A copy far larger than the caches, and a square bfloat16 product of random numbers: constants
// switch fewer transistors and let a GPU clock higher.
Ceilings ceilings(const Subject& subject);

// Steps around one length of context: those of a long run less those of a short one, each with the
// context in the middle. What a generate() does once, above all recording and making ready the
// graphs of the layouts on either side of the context, is in both and so in neither.
struct Decode {
  int64_t rows = 0;
  int64_t context = 0;  // mean over the steps
  int64_t steps = 0;
  double seconds = 0;   // of these steps
  std::string skipped;  // why there is no time
};
Decode decode(const Subject& subject, int64_t rows, int64_t context);

struct Training {
  int64_t sequences = 0, promptTokens = 0, completionTokens = 0;  // of each sequence
  double seconds = 0;
};
// Forward and backward of a packed micro-batch.
Training train(const Subject& subject);

struct Step {
  int64_t sequences = 0, promptTokens = 0, completionTokens = 0;
  double rolloutSeconds = 0, trainSeconds = 0, optimizerSeconds = 0;
};
// A group of samples, its gradients in two micro-batches, and AdamW.
Step step(const Subject& subject);

struct KernelTime {
  std::string name;
  double bytes = 0;  // that it must read and write
  double seconds = 0;
};
// The project's own decode kernels at 16 rows, launched one after the other over memory that does
// not fit into the L2 cache; empty where they are not in use.
std::vector<KernelTime> kernelTimes(const Subject& subject);

}  // namespace acoer::measure
