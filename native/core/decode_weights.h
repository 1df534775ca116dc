// Weights in the form that decoding multiplies by, prepared once per generate() call.
#pragma once

#include "policy.h"

namespace acoer {

// How decoding computes.
enum class DecodePath {
  kAuto,       // our CUDA kernels where the model has some that fit, else CPU kernels on a CPU
  kTensorOps,  // libtorch's operations, on any device
};

// y = x W^T. On a CPU, small fp32 and fp64 models are packed for our own matrix product, which is
// faster than a library call at these sizes and whose rows do not depend on the batch.
struct Linear {
  at::Tensor w_OI;
  at::Tensor wT_IO;   // a view
  at::Tensor packed;  // undefined when not packed
  int64_t outputs() const { return w_OI.size(0); }
  int64_t inputs() const { return w_OI.size(1); }
};
Linear makeLinear(const at::Tensor& w_OI, bool packed);
// y_NO (+)= x_NI W^T; the rows of x and y may be parts of longer rows.
void applyLinear(const Linear& linear, const at::Tensor& x_NI, const at::Tensor& y_NO, bool add);

struct DecodeLayer {
  at::Tensor inputNorm_D, qNorm_K, kNorm_K, postNorm_D;
  Linear qkv, o, gateUp, down;
};

struct DecodeWeights {
  at::Tensor embed_VD;
  at::Tensor finalNorm_D;
  Linear head;
  std::vector<DecodeLayer> layers;
  bool packed = false;
};
// `packs`: small models may be packed for the CPU kernels.
DecodeWeights makeDecodeWeights(const Model& model, const Weights& weights, bool packs);

// The adapters of the linears that share an input, side by side: t = x a^T holds the low-rank
// products of all of them, and block i then adds t[:, its ranks] b_i^T to its columns of y. b
// includes the scale.
struct AdapterGroup {
  struct Block {
    Linear b;
    int64_t firstRank = 0;
    int64_t firstColumn = 0;
  };
  Linear a;
  std::vector<Block> blocks;  // packed path
  at::Tensor bT_RO;           // tensor path: all blocks in one matrix, zero elsewhere
  bool defined() const { return a.w_OI.defined(); }
  int64_t ranks() const { return a.outputs(); }
};

struct DecodeAdapter {
  struct Layer {
    AdapterGroup qkv, o, gateUp, down;
  };
  std::vector<Layer> layers;
  int64_t maxRanks = 0;
};
// y_NO += scale (x a^T) b^T on rows [begin, end). `ranks_NR` is contiguous scratch space with at
// least group.ranks() columns.
void addAdapter(const AdapterGroup& group, const at::Tensor& x_NI, const at::Tensor& y_NO,
                const at::Tensor& ranks_NR, int64_t begin, int64_t end);

// `policy` must be LoRA.
DecodeAdapter makeDecodeAdapter(const Policy& policy, bool packed);

}  // namespace acoer
