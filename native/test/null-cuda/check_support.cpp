#include "check_support.h"

#include <dlfcn.h>

#include "base/device.h"

namespace acoer::null_cuda {
namespace {

template <class Function>
Function* preloaded(const char* name) {
  void* found = dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) {
    fail(ErrorCode::kInternal,
         std::string(name) + " is missing; scripts/null-cuda preloads the stand-ins");
  }
  return reinterpret_cast<Function*>(found);
}

void answerOnes(size_t bytes) {
  preloaded<decltype(nullCudaAnswerOnes)>("nullCudaAnswerOnes")(static_cast<int>(bytes));
}

}  // namespace

Counts counts() {
  Counts now{};
  preloaded<decltype(nullCudaCounts)>("nullCudaCounts")(now.data());
  return now;
}

int64_t launchesOfGraph() {
  return preloaded<decltype(nullCudaGraphKernels)>("nullCudaGraphKernels")();
}

void failNext(const char* function, int error) {
  preloaded<decltype(nullCudaFailNext)>("nullCudaFailNext")(function, error);
}
int pendingError() { return preloaded<decltype(nullCudaLastError)>("nullCudaLastError")(); }

AnsweringOnes::AnsweringOnes(DecodePath path) {
  answerOnes(path == DecodePath::kTensorOps ? sizeof(double) : sizeof(int32_t));
}
AnsweringOnes::~AnsweringOnes() { answerOnes(0); }

std::shared_ptr<Model> qwen(const std::string& device) {
  const c10::Device resolved = resolveDevice(device);
  computeOn(resolved);
  return check::randomModel(check::qwen3Spec1p7B(28), resolved, at::kBFloat16, 1, 0.02);
}

std::shared_ptr<Policy> adapter(const std::shared_ptr<Model>& model) {
  PolicyOptions options;
  options.rank = 16;
  options.alpha = 32;
  options.targets.fill(true);
  return createPolicy(model, options);
}

GenerateRequest request(const Policy* policy, int64_t promptTokens, int64_t samples,
                        int64_t newTokens, bool stopsAtOnce) {
  GenerateRequest made;
  for (int32_t t = 0; t < promptTokens; ++t) made.promptIds.push_back(t + 13);
  made.numSamples = samples;
  made.maxNewTokens = newTokens;
  made.policy = policy;
  if (stopsAtOnce) made.stopIds = {1};
  return made;
}

GenerateStats run(const Model& model, const GenerateRequest& request,
                  const GenerateOptions& options,
                  const std::function<void(GeneratedSequence&&)>& onSequence) {
  const AnsweringOnes ones(options.path);
  const Cancel cancel;
  return generate(
      model, {request}, options,
      [&](GeneratedSequence&& sequence) {
        if (onSequence) onSequence(std::move(sequence));
      },
      cancel);
}

}  // namespace acoer::null_cuda
