// Weights in the form that decoding multiplies by, prepared once per generate() call.
#pragma once

#include "model/policy.h"

namespace acoer {

// How decoding computes.
enum class DecodePath {
  kAuto,       // our CUDA kernels where the model has some that fit, else CPU kernels on a CPU
  kTensorOps,  // libtorch's operations, on any device
};

// How decoding multiplies by a matrix.
enum class LinearForm {
  kPlain,   // as it is: by a library call, or in the panels that the model holds
  kSmall,   // in fp32 or fp64, packed for our own product: faster at these sizes, and its rows do
            // not depend on the batch
  kPanels,  // in bf16, brought into panels (linear.h)
};

// y = x W^T + bias.
struct Linear {
  at::Tensor w;       // plain or in panels
  at::Tensor packed;  // kSmall only
  at::Tensor bias_O;  // undefined: none
};
// `w` in panels stays as it is under kPlain.
Linear makeLinear(const at::Tensor& w, LinearForm form);
// y_NO (+)= x_NI W^T, or x_NI W^T + bias; the rows of x and y may be parts of longer rows.
void applyLinear(const Linear& linear, const at::Tensor& x_NI, const at::Tensor& y_NO, bool add);

struct DecodeLayer {
  at::Tensor inputNorm_D, postNorm_D;
  at::Tensor qNorm_K, kNorm_K;  // undefined without qkNorm
  Linear qkv, o, gateUp, down;
};

struct DecodeWeights {
  at::Tensor embed_VD;
  at::Tensor finalNorm_D;
  Linear head;
  std::vector<DecodeLayer> layers;
};
// `form`: of the adapters, and of the matrices of small models.
DecodeWeights makeDecodeWeights(const Weights& weights, LinearForm form);

// The adapters of the linears that share an input, side by side, where they are not merged: t = x
// a^T holds the low-rank products of all of them, and block i then adds t[:, its ranks] b_i^T to
// its columns of y. b includes the scale.
struct AdapterGroup {
  struct Block {
    Linear b;
    int64_t firstRank = 0, ranks = 0;
    int64_t firstColumn = 0, columns = 0;
  };
  LinearForm form = LinearForm::kPlain;
  int64_t ranks = 0;
  Linear a;
  std::vector<Block> blocks;
  at::Tensor bT_RO;  // kPlain only: all blocks in one matrix, zero elsewhere
  bool defined() const { return ranks > 0; }
};

struct DecodeAdapter {
  struct Layer {
    AdapterGroup qkv, o, gateUp, down;
  };
  std::vector<Layer> layers;
  int64_t maxRanks = 0;
};
// y_NO += scale (x a^T) b^T. `ranks_NR` is contiguous scratch space for at least as many rows and
// group.ranks columns.
void addAdapter(const AdapterGroup& group, const at::Tensor& x_NI, const at::Tensor& y_NO,
                const at::Tensor& ranks_NR);

// `policy` must be LoRA.
DecodeAdapter makeDecodeAdapter(const Policy& policy, LinearForm form);

}  // namespace acoer
