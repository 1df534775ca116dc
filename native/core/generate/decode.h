// A forward pass over rows, one per token, that each belong to a slot of a KV cache: either a
// decode step (one row per sequence) or the prefill of prompts (all their rows, in order).
#pragma once

#include <functional>

#include "generate/decode_ops.h"

namespace acoer {

class Decoder {
 public:
  // `policies`: as orderPolicies() returns them. `positions`: an upper bound of every row's
  // position. `kernels`: our CUDA kernels, which fit the model; null: without them.
  Decoder(const Model& model, std::vector<const Policy*> policies, int64_t positions,
          DecodePath path, const GpuKernels* kernels,
          KvCacheDtype kvCacheDtype = KvCacheDtype::kAuto);
  // Without duplicates; the base and adapters first, full policies last, so that rows that share
  // weights are adjacent.
  static std::vector<const Policy*> orderPolicies(const std::vector<const Policy*>& policies);

  KvCache makeCache() const;
  // Whether rows of a decode step may share positions.
  bool readsSharedPositions() const { return ops_->usesTiledKeys(); }
  // Gets the fraction of the work done, before each layer; false ends it.
  using ShouldContinue = std::function<bool(double done)>;
  // Writes the keys and values of every row, which has one page, its prompt's slot. The rows of a
  // slot must be consecutive, from position 0 on.
  void prefill(const DecodeRows& rows, const KvCache& cache, const ShouldContinue& shouldContinue);
  // Like prefill(), for rows that continue what their slots hold: those of a slot follow its
  // positions. They are taken in pieces, since each attends over the cache as in a decode step.
  void extend(const DecodeRows& rows, const KvCache& cache, const ShouldContinue& shouldContinue);
  // Logits [N, V] in fp32 (fp64 for fp64 models), on the model's device; valid until the next call
  // for the same rows of the scratch space, in which this one takes N from `first` on.
  at::Tensor decode(const DecodeRows& rows, const KvCache& cache, int64_t first = 0);
  // Whether a row's result does not depend on the others, bit for bit, and a step of a few rows is
  // worth one thread at most. Then several threads may call decode() at a time, for rows of their
  // own, once there is room for all.
  bool rowsAreIndependent() const;
  // For decode steps of up to `rows` rows.
  void ensureRoom(int64_t rows);

  // With our CUDA kernels. Allocates, once, what decodeOnDevice needs for up to `rows` rows of up
  // to `splits` times cuda::kAttentionSplit positions.
  void reserve(int64_t rows, int64_t splits);
  // Like decode(), for rows that lie on the device in the order of `spans`. Only starts work, and
  // takes no memory, so that it can be recorded; fails with INTERNAL on more than was reserved.
  at::Tensor decodeOnDevice(const DeviceRows& rows, const std::vector<DecodeRows::Span>& spans,
                            int64_t splits, const KvCache& cache);

 private:
  // Decode steps and prompts have scratch of their own: graphs keep the addresses of the steps'.
  struct Scratch : DecodeBuffers {
    int64_t room = 0;
  };
  void makeRoom(Scratch& scratch, int64_t rows) const;
  DecodePart makePart(const std::vector<DecodeRows::Span>& spans, const KvCache& cache,
                      const Weights& weights, int64_t begin, int64_t end, const Scratch& scratch,
                      int64_t first) const;
  void placeRows(DecodePart& part, const DecodeRows& rows, bool prefill) const;
  bool runLayers(std::vector<DecodePart>& parts, int64_t begin, int64_t end, int64_t rows,
                 const ShouldContinue& shouldContinue) const;
  std::vector<std::pair<int64_t, int64_t>> promptShares(const DecodeRows& rows, int64_t begin,
                                                        int64_t end) const;
  void forEachWeights(const std::vector<DecodeRows::Span>& spans,
                      const std::function<void(const Weights&, int64_t, int64_t)>& visit);
  void runLayer(DecodePart& part, size_t layer, bool lastOfPrefill) const;
  void addAdapters(const DecodePart& part, size_t layer, AdapterGroup DecodeAdapter::Layer::* group,
                   const at::Tensor& x_NI, const at::Tensor& y_NO) const;
  // The MLP's activation, after gate's and up's adapters.
  void activate(DecodePart& part, size_t layer) const;
  // From the rows' ids to their logits, which begin at row `first` of those of all parts.
  void runStep(DecodePart& part, int64_t first) const;

  const Model& model_;
  std::vector<const Policy*> policies_;
  at::ScalarType cacheType_;
  std::unique_ptr<DecodeOps> ops_;
  std::vector<Weights> weights_;
  std::vector<size_t> weightsOf_;        // per policy
  std::vector<DecodeAdapter> adapters_;  // per policy; empty for the base and full policies
  int64_t maxRanks_ = 0;
  Scratch steps_, prompts_;
  at::Tensor logits_NV_;
};

}  // namespace acoer
