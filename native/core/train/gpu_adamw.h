// The optimiser's step over all parameters of a policy as two launches of the project's CUDA
// kernels (four where some parameters do not decay), with one upload and one copy back.
#pragma once

#include <optional>

#include "train/adamw.h"

namespace acoer {

namespace cuda {
struct AdamWTensor;
}

// Holds all memory that a step needs and the addresses of its tensors: it lives during one step.
class GpuAdamW {
 public:
  // Nothing without kernels, or when a tensor is not fp32 and contiguous. `gradients`:
  // roundedGradients().
  static std::optional<GpuAdamW> of(const Policy& policy, const at::Tensor& gradients);

  // The norm of all gradients: fp32 sums of blocks of fixed size, added in fp64 in the order of the
  // groups' parameters.
  double gradientNorm() const;
  // torch.optim.AdamW's update number `time` with the gradients times `clip`.
  void update(const PolicyOptions& betas, const StepOptions& options, double clip,
              double time) const;

 private:
  const GpuKernels* kernels_ = nullptr;
  // Parameters that decay alike: `count` entries of the table from `first` on, whose blocks are
  // numbered from 0.
  struct Group {
    bool decays = true;
    int64_t first = 0, count = 0, blocks = 0;
  };
  struct Table {
    std::vector<Group> groups;
    at::Tensor entries;  // AdamWTensor of each parameter, by group, as bytes
    int64_t blocks = 0;
    const cuda::AdamWTensor* of(const Group& group) const;
  };
  // Of all parameters, or of what the policy's shard has of them.
  static std::optional<Table> tableOf(const Policy& policy, const at::Tensor& gradients, bool own);

  Table all_, own_;
  at::Tensor sums_B;  // of squares
};

}  // namespace acoer
