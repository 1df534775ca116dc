// Shared by the checks on null-cuda.
#pragma once

#include <array>

#include "check.h"
#include "device_models.h"
#include "null_cuda.h"

namespace acoer::null_cuda {

using Counts = std::array<int64_t, kCounters>;
Counts counts();
// The launches and products of the graph that was captured last.
int64_t launchesOfGraph();

// This thread's next call of that CUDA function fails with this cudaError_t.
void failNext(const char* function, int error);
// The error that libtorch would find after its next launch; 0: none.
int pendingError();

// While it exists, every token that the sampler of `path` draws is token 1.
class AnsweringOnes {
 public:
  explicit AnsweringOnes(DecodePath path);
  ~AnsweringOnes();
};

// Qwen3-1.7B in bfloat16; its memory is address space only.
std::shared_ptr<Model> qwen(const std::string& device);
// Rank 16 on all seven linears.
std::shared_ptr<Policy> adapter(const std::shared_ptr<Model>& model);

// `samples` completions of a prompt of `promptTokens`. With `stopsAtOnce` each ends at its first
// token, although room for `newTokens` was planned.
GenerateRequest request(const Policy* policy, int64_t promptTokens, int64_t samples,
                        int64_t newTokens, bool stopsAtOnce = false);
GenerateStats run(const Model& model, const GenerateRequest& request,
                  const GenerateOptions& options,
                  const std::function<void(GeneratedSequence&&)>& onSequence = {});

}  // namespace acoer::null_cuda
