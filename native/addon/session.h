// What one engine owns: its models and policies under integer handles. Used by the engine thread
// alone, so nothing here is locked.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "memory.h"
#include "policy.h"

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
  // Null (the base) for no handle.
  const Policy* policyOrBase(std::optional<int64_t> handle) const;

  // Both do nothing for a handle that is not alive. A model takes its policies with it.
  void disposeModel(int64_t handle);
  void disposePolicy(int64_t handle);

  // Of weights, adapters, gradients, optimiser state and tapes.
  int64_t bytes() const;

 private:
  struct OwnedPolicy {
    int64_t model;
    std::shared_ptr<Policy> policy;
  };

  EngineMemory memory_;  // outlives what it counts
  at::Device device_;
  int64_t nextHandle_ = 1;
  std::map<int64_t, std::shared_ptr<Model>> models_;
  std::map<int64_t, OwnedPolicy> policies_;
};

// Values, gradients and AdamW's two moments, and the tape (forward.h) while there is one.
int64_t policyBytes(const Policy& policy);
int64_t policyParameterCount(const Policy& policy);

}  // namespace acoer
