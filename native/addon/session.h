// The models and policies of one engine, under integer handles. Used only on the engine thread, so
// nothing is locked.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "base/memory.h"
#include "model/policy.h"

namespace acoer {

class Session {
 public:
  Session(at::Device device, int64_t memoryLimitBytes)
      : memory_(device, memoryLimitBytes), device_(device) {}
  at::Device device() const { return device_; }
  std::optional<MemoryUse> tensorMemory() const { return memory_.use(); }

  int64_t add(std::shared_ptr<Model> model);
  int64_t add(int64_t model, std::shared_ptr<Policy> policy);
  // Throw kDisposed for a handle that is not alive.
  const std::shared_ptr<Model>& model(int64_t handle) const;
  Policy& policy(int64_t handle) const;
  // Null, which means the base model, if there is no handle.
  const Policy* policyOrBase(std::optional<int64_t> handle) const;

  // Both ignore a handle that is not alive. Disposing of a model also disposes of its policies.
  void disposeModel(int64_t handle);
  void disposePolicy(int64_t handle);

  // The size of all weights, adapters, gradients, optimiser state and tapes.
  int64_t bytes() const;

 private:
  struct OwnedPolicy {
    int64_t model;
    std::shared_ptr<Policy> policy;
  };

  EngineMemory memory_;  // first, because it must outlive the tensors it counts
  at::Device device_;
  int64_t nextHandle_ = 1;
  std::map<int64_t, std::shared_ptr<Model>> models_;
  std::map<int64_t, OwnedPolicy> policies_;
};

}  // namespace acoer
