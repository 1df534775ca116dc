// LoRA adapters in products: merged into the matrices of a small model, beside the matrices in
// decoding, and beside them in training (projection.h).
//
// The last two round differently in bf16: decoding, whose adapters do not change, rounds the scaled
// B once; training scales the product, so that the gradients of A and B are those of the masters.
#pragma once

#include "model/policy.h"

namespace acoer {

// Whether a model multiplies by merged matrices instead of its own and an adapter's. In fp32 and
// fp64 that is as exact as two products, and for a small model the sums cost less than the products
// of one step. In bf16 most of an update would be lost.
bool mergesAdapters(const Model& model);

// The weights of a LoRA policy, W + scale B A where there is a pair. Matrices without one are the
// model's own.
Weights mergedWeights(const Policy& policy);

// The adapters of a fused matrix side by side, where they are not merged: t = x a^T holds the
// low-rank products of all of them, and t b^T, with the scales in b, is added to y.
struct AdapterGroup {
  // One adapter: t[:, its ranks] b^T is added to its columns of y.
  struct Block {
    int64_t firstRank = 0, ranks = 0;
    int64_t firstColumn = 0, columns = 0;
    Matrix b;  // in panels, which are multiplied one by one
  };
  int64_t ranks = 0;
  Matrix a;
  std::vector<Block> blocks;
  at::Tensor bT_RO;  // not in panels: all b in one plain matrix, zero elsewhere
  bool defined() const { return ranks > 0; }
};

// An adapter in the form that decoding multiplies by.
struct DecodeAdapter {
  struct Layer {
    AdapterGroup qkv, o, gateUp, down;
  };
  std::vector<Layer> layers;
  int64_t maxRanks = 0;
};
// `policy` must be LoRA; `form`: plain or panels.
DecodeAdapter makeDecodeAdapter(const Policy& policy, Matrix::Form form);

}  // namespace acoer
