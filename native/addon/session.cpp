#include "session.h"

#include <malloc.h>

#include "train/forward.h"
#include "train/gradients.h"

namespace acoer {
namespace {

// The size of the values, the moments that AdamW keeps, the sums of gradients, and the tape if
// there is one.
int64_t policyBytes(const Policy& policy) {
  int64_t total = tapeBytes(policy);
  const auto sumBytes = static_cast<int64_t>(c10::elementSize(gradientSumType(policy)));
  for (const Parameter& parameter : policy.parameters) {
    total += static_cast<int64_t>(parameter.value.nbytes() + parameter.expAvg.nbytes() +
                                  parameter.expAvgSq.nbytes());
    total += parameter.value.numel() * sumBytes;
  }
  return total;
}

}  // namespace

int64_t Session::add(std::shared_ptr<Model> model) {
  models_.emplace(nextHandle_, std::move(model));
  return nextHandle_++;
}

int64_t Session::add(int64_t model, std::shared_ptr<Policy> policy) {
  policies_.emplace(nextHandle_, OwnedPolicy{model, std::move(policy)});
  return nextHandle_++;
}

const std::shared_ptr<Model>& Session::model(int64_t handle) const {
  const auto found = models_.find(handle);
  if (found == models_.end()) fail(ErrorCode::kDisposed, "the model was disposed");
  return found->second;
}

Policy& Session::policy(int64_t handle) const {
  const auto found = policies_.find(handle);
  if (found == policies_.end()) fail(ErrorCode::kDisposed, "the policy or its model was disposed");
  return *found->second.policy;
}

const Policy* Session::policyOrBase(std::optional<int64_t> handle) const {
  return handle ? &policy(*handle) : nullptr;
}

void Session::disposeModel(int64_t handle) {
  std::erase_if(policies_, [handle](const auto& entry) { return entry.second.model == handle; });
  // Freed blocks below malloc's mmap threshold would otherwise stay resident.
  if (models_.erase(handle) > 0) malloc_trim(0);
}

void Session::disposePolicy(int64_t handle) {
  if (policies_.erase(handle) > 0) malloc_trim(0);
}

int64_t Session::bytes() const {
  int64_t total = 0;
  for (const auto& [handle, model] : models_) total += model->bytes;
  for (const auto& [handle, entry] : policies_) total += policyBytes(*entry.policy);
  return total;
}

}  // namespace acoer
