// A forward pass over rows, one per token, that each belong to a slot of a KV cache: either a
// decode step (one row per sequence) or the prefill of prompts (all their rows, in order).
#pragma once

#include <functional>

#include "generate/decode_attention.h"
#include "generate/decode_weights.h"
#include "generate/kv_cache.h"
#include "kernels/gpu/kernels.h"
#include "ops/rope.h"

namespace acoer {

// N tokens; token n has position positions[n] in slot slots[n]. Rows are sorted by policy.
struct DecodeRows {
  struct Span {
    int64_t policy = 0;  // index into the decoder's policies
    int64_t begin = 0, end = 0;
    auto operator<=>(const Span& other) const = default;
  };
  std::vector<int32_t> ids, slots, positions;
  // Where the first positions of a row's sequence are if they are shared: all that the first slot
  // of this cache has room for. The row's slot begins with the position after them. Null: none.
  std::vector<const KvCache*> shared;
  std::vector<Span> spans;  // every row is in exactly one

  int64_t count() const { return static_cast<int64_t>(ids.size()); }
  void clear();
  // Policies must come in ascending order.
  void add(int64_t policy, int32_t id, int64_t slot, int64_t position,
           const KvCache* sharedPositions = nullptr);
};

// The same on the device, where a step of our CUDA kernels reads it: int32, [N]. A row with a
// negative position is idle: nothing of its is written.
struct DeviceRows {
  at::Tensor ids_N, slots_N, positions_N;
};

class Decoder {
 public:
  // `policies`: as orderPolicies() returns them. `positions`: an upper bound of every row's
  // position. `kernels`: our CUDA kernels, which fit the model; null: without them.
  Decoder(const Model& model, std::vector<const Policy*> policies, int64_t positions,
          DecodePath path, const GpuKernels* kernels);
  // Whether our CUDA kernels can decode this model, or one sentence why not.
  static std::string kernelsDoNotFit(const Model& model);

  // Without duplicates; the base and adapters first, full policies last, so that rows that share
  // weights are adjacent.
  static std::vector<const Policy*> orderPolicies(const std::vector<const Policy*>& policies);

  KvCache makeCache() const;
  // Whether rows of a decode step may share positions.
  bool readsSharedPositions() const { return ops_ == Ops::kCpuKernels; }
  // Writes the keys and values of every row. The rows of a slot must be consecutive, from position
  // 0 on. Before each layer `shouldContinue` gets the fraction of the work done; false ends it.
  void prefill(const DecodeRows& rows, const KvCache& cache,
               const std::function<bool(double done)>& shouldContinue);
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
  enum class Ops { kCpuKernels, kGpuKernels, kTensorOps };
  struct PromptSpan {
    int64_t slot, begin, end;  // rows, relative to the part's first
  };
  // The state of a pass over rows [begin, end), which all use the same weights.
  struct Part {
    const std::vector<DecodeRows::Span>* spans = nullptr;
    const KvCache* cache = nullptr;
    const DecodeWeights* weights = nullptr;
    int64_t begin = 0, end = 0;
    bool prefill = false;
    at::Tensor x_ND, normed_ND, qkv_NE, heads_NHK, gateUp_N2F, act_NF, ranks_NR, logits_NV;
    // CPU kernels: the rows in host memory.
    const int32_t *ids_N = nullptr, *slots_N = nullptr, *positions_N = nullptr;
    const KvCache* const* shared_N = nullptr;
    DeviceRows device;   // elsewhere: the rows on the device; int64 for tensor operations
    int64_t splits = 1;  // CUDA kernels only
    // Tensor operations only: the rows' angles, and in a decode step which keys each row sees.
    at::Tensor cos_NK, sin_NK;
    CacheView view;
    std::vector<PromptSpan> prompts;  // when prefilling
    int64_t count() const { return end - begin; }
  };

  // What rows are computed in. Decode steps and prompts have scratch of their own: graphs keep the
  // addresses of the steps'.
  struct Scratch {
    int64_t room = 0;
    at::Tensor x_ND, normed_ND, qkv_NE, heads_NHK, gateUp_N2F, act_NF, ranks_NR;
  };
  void makeRoom(Scratch& scratch, int64_t rows) const;
  Part makePart(const std::vector<DecodeRows::Span>& spans, const KvCache& cache,
                const DecodeWeights& weights, int64_t begin, int64_t end, const Scratch& scratch,
                int64_t first) const;
  // Adds the rows in host memory to a part, on the device where that is needed.
  void placeRows(Part& part, const DecodeRows& rows, bool prefill) const;
  std::vector<std::pair<int64_t, int64_t>> promptShares(const DecodeRows& rows, int64_t begin,
                                                        int64_t end) const;
  void forEachWeights(const std::vector<DecodeRows::Span>& spans,
                      const std::function<void(const DecodeWeights&, int64_t, int64_t)>& visit);
  void embed(Part& part) const;
  void runLayer(Part& part, size_t layer, bool lastOfPrefill) const;
  void multiply(const Linear& linear, const at::Tensor& x_NI, const at::Tensor& y_NO,
                bool add) const;
  void addAdapters(const Part& part, size_t layer, AdapterGroup DecodeAdapter::Layer::* group,
                   const at::Tensor& x_NI, const at::Tensor& y_NO) const;
  void norm(Part& part, const at::Tensor& weight_D) const;
  void attention(Part& part, size_t layer, bool writeOnly) const;
  void activation(Part& part) const;
  void writeLogits(Part& part) const;
  // decode_cpu.cpp, decode_gpu.cpp, decode_tensor_ops.cpp
  void normOnCpu(Part& part, const at::Tensor& weight_D) const;
  void normOnGpu(Part& part, const at::Tensor& weight_D) const;
  void attentionOnCpu(Part& part, size_t layer, bool writeOnly) const;
  void attentionOnGpu(Part& part, size_t layer, bool writeOnly) const;
  void attentionByTensorOps(Part& part, size_t layer, bool writeOnly) const;
  void activationOnCpu(Part& part) const;
  void activationOnGpu(Part& part) const;
  void linearOnGpu(const Linear& linear, const at::Tensor& x_NI, const at::Tensor& y_NO,
                   bool add) const;
  void adapterOnGpu(const AdapterGroup& group, const at::Tensor& x_NI, const at::Tensor& y_NO,
                    const at::Tensor& ranks_NR) const;

  const Model& model_;
  std::vector<const Policy*> policies_;
  const GpuKernels* kernels_;
  Ops ops_;
  LinearForm form_;
  RopeTable rope_;  // rounded to the model's type; the CPU kernels read it as fp32 (fp64)
  std::vector<DecodeWeights> weights_;
  std::vector<size_t> weightsOf_;        // per policy
  std::vector<DecodeAdapter> adapters_;  // per policy; empty for the base and full policies
  int64_t maxRanks_ = 0;
  Scratch steps_, prompts_;
  at::Tensor logits_NV_;
  at::Tensor splitSums_, splitStats_;  // scratch of the CUDA kernels' attention
};

}  // namespace acoer
