// y = x W^T + bias with the LoRA pairs of W's row blocks, and its backward.
#pragma once

#include <unordered_map>

#include "model/lora.h"
#include "ops/dropout.h"

namespace acoer {

// The gradients of one pass, kept apart from the policy's until the whole call has succeeded.
class GradientSink {
 public:
  // Adds `gradient` (any floating type) to the gradient held for `leaf`.
  void add(const at::Tensor& leaf, const at::Tensor& gradient);
  // A zeroed buffer of `leaf`'s shape and type that kernels may add to.
  at::Tensor buffer(const at::Tensor& leaf);
  // What is held for `leaf`; undefined if nothing was added.
  at::Tensor held(const at::Tensor& leaf) const;

 private:
  struct Held {
    at::Tensor leaf, gradient;
  };
  std::unordered_map<c10::TensorImpl*, Held> held_;
};

// One fused linear.
struct Projection {
  Matrix weight;
  at::Tensor bias_O;         // undefined: none
  bool trainWeight = false;  // and the bias
  std::vector<AdaptedRows> adapted;
  bool merged = false;  // the weight holds the pairs: they add nothing to y and dL/dx
  int64_t layer = 0;
  const DropoutPlan* dropout = nullptr;  // null: none
  const GpuKernels* kernels = nullptr;   // for a quantised weight (Into)
};

// The adapters, grouped by the input they read: all of a projection together, or each alone under
// dropout.
struct LoraTape {
  struct Group {
    // x, times its dropout mask if there is one; both undefined where the mask is made again.
    at::Tensor input_TI;
    at::Tensor mask_TI;    // undefined without dropout
    Matrix a{};            // the A matrices side by side, [G, I], in x's type
    at::Tensor down_TG{};  // input a^T
    std::vector<AdaptedRows> members{};
  };
  std::vector<Group> groups;
};

// The tape that projectForward fills, without computing y, for recomputation.
LoraTape loraTape(const Projection& projection, const at::Tensor& x_TI);

at::Tensor projectForward(const Projection& projection, const at::Tensor& x_TI, LoraTape* tape);

// dL/dx from dL/dy, undefined unless `needsInput`; the gradients of W and bias (if trained) and of
// the pairs go to `sink`.
at::Tensor projectBackward(const Projection& projection, const at::Tensor& dy_TO,
                           const at::Tensor& x_TI, const LoraTape& tape, GradientSink& sink,
                           bool needsInput = true);

}  // namespace acoer
