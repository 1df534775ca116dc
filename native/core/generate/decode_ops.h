// What a decoder computes around and in its matrix products, once per kind of kernels.
#pragma once

#include <memory>
#include <span>

#include "generate/kv_cache.h"
#include "ops/adapters.h"
#include "ops/attention.h"
#include "ops/ops.h"
#include "ops/rope.h"

namespace acoer {

// How decoding computes.
enum class DecodePath {
  kAuto,       // our CUDA kernels where the model has some that fit, else CPU kernels on a CPU
  kTensorOps,  // libtorch's operations, on any device
};

// N tokens; token n has position positions[n] of a sequence that lies in T pages of a cache, its
// slots, one after the other. Rows are sorted by policy.
struct DecodeRows {
  struct Span {
    int64_t policy = 0;  // index into the decoder's policies
    int64_t begin = 0, end = 0;
    auto operator<=>(const Span& other) const = default;
  };
  int64_t pagesPerRow = 1;  // T
  std::vector<int32_t> ids, positions, pages_NT;
  // Where the first positions of a row's sequence are if they are shared: all that the first slot
  // of this cache has room for. The row's pages begin with the position after them. Null: none.
  std::vector<const KvCache*> shared;
  std::vector<Span> spans;  // every row is in exactly one

  int64_t count() const { return std::ssize(ids); }
  void clear(int64_t pages = 1);
  // Policies must come in ascending order. At most pagesPerRow pages.
  void add(int64_t policy, int32_t id, std::span<const int32_t> pages, int64_t position,
           const KvCache* sharedPositions = nullptr);
};

// The same on the device, where a step of our CUDA kernels reads it, as int32. A row with a
// negative position is idle: nothing of its is written.
struct DeviceRows {
  at::Tensor ids_N, pages_NT, positions_N;
  // CUDA kernels only: where each bundle of rows begins, and the last ends. Those of a bundle have
  // positions of one sequence that follow each other, and read its keys and values once. Undefined:
  // each row on its own.
  at::Tensor bundles_B1 = {};
};

// The rows of one prompt, relative to their part's first. It lies in one slot.
struct PromptSpan {
  int64_t slot, begin, end;
};

// What the rows of a decode step see of the cache, the same in every layer. Each has one page.
struct CacheView {
  int64_t firstSlot = 0;  // row n has slot firstSlot + n
  at::Tensor slots_N;     // unless this is defined: then its slots are gathered, which takes a copy
  int64_t length = 0;     // of the longest row, rounded up
  at::Tensor mask_N11L;   // 0 or -infinity
};

// What rows are computed in, a row each.
struct DecodeBuffers {
  at::Tensor x_ND, normed_ND, qkv_NE, heads_NHK, gateUp_N2F, act_NF, ranks_NR;
};

// The state of a pass over rows [begin, end), which all use the same weights.
struct DecodePart : DecodeBuffers {
  const std::vector<DecodeRows::Span>* spans = nullptr;
  const KvCache* cache = nullptr;
  const Weights* weights = nullptr;
  int64_t begin = 0, end = 0;
  bool prefill = false;
  at::Tensor logits_NV;
  // CPU kernels: the rows in host memory.
  const int32_t *ids_N = nullptr, *pages_NT = nullptr, *positions_N = nullptr;
  int64_t pagesPerRow = 1;
  const KvCache* const* shared_N = nullptr;
  DeviceRows device;   // elsewhere: the rows on the device; int64 for tensor operations
  int64_t splits = 1;  // CUDA kernels only: blocks of attention for each row
  // Tensor operations only: the rows' angles, and in a decode step which keys each row sees.
  at::Tensor cos_NK, sin_NK;
  CacheView view;
  std::vector<PromptSpan> prompts;  // when prefilling
  int64_t count() const { return end - begin; }
};

// What is const may run for several parts at a time.
class DecodeOps {
 public:
  virtual ~DecodeOps() = default;

  // Of the adapters' matrices and, if it is packed, of all: then a model is small, its adapters are
  // merged and rows do not depend on each other.
  Matrix::Form form() const { return form_; }
  // Whether the cache holds keys in the layout of the CPU kernels (kernels/cpu/kernels.h). Rows of
  // a decode step may then share positions.
  virtual bool usesTiledKeys() const { return false; }

  // Adds the rows in host memory to a part, on the device where that is needed.
  virtual void placeRows(DecodePart& part, const DecodeRows& rows) const = 0;
  virtual void embed(DecodePart& part) const;
  virtual void norm(DecodePart& part, const at::Tensor& weight_D) const = 0;
  // Rotates queries and keys, after their norms if the model has them, and writes keys and values
  // to the cache. That is all for `writeOnly`.
  virtual void attention(DecodePart& part, size_t layer, bool writeOnly) const = 0;
  virtual void activation(DecodePart& part) const = 0;
  // The same after addAdapter() to gate and up of all rows, which need not be kept.
  virtual void activateAdapted(DecodePart& part, const AdapterGroup& gateUp) const;
  // Matrix::forwardInto().
  virtual void multiply(const Matrix& w, const at::Tensor& x_NI, const at::Tensor& y_NO,
                        const Into& into) const;
  // y_NO += scale (x a^T) b^T. `ranks_NR` is contiguous scratch space for at least as many rows and
  // group.ranks columns.
  virtual void addAdapter(const AdapterGroup& group, const at::Tensor& x_NI, const at::Tensor& y_NO,
                          const at::Tensor& ranks_NR) const;

  // For steps whose rows are on the device: allocates, once, what attention needs for `rows` rows
  // of `splits` blocks each.
  virtual void reserve(int64_t /*rows*/, int64_t /*splits*/) {}
  virtual bool hasReserved(int64_t /*rows*/, int64_t /*splits*/) const { return true; }

 protected:
  // Angles for positions 0 to `positions` - 1, rounded to the model's type and then in `angles`.
  DecodeOps(const Model& model, Matrix::Form form, int64_t positions, at::ScalarType angles);
  // The part of that scratch space which a group's low-rank products of `rows` rows take.
  static at::Tensor ranksOf(const AdapterGroup& group, int64_t rows, const at::Tensor& ranks_NR);

  const Model& model_;
  Matrix::Form form_;
  RopeTable rope_;
};

// `kernels`: our CUDA kernels, which fit the model; null: without them.
std::unique_ptr<DecodeOps> makeDecodeOps(const Model& model, int64_t positions, DecodePath path,
                                         const GpuKernels* kernels);

// Whether the CPU kernels decode: rows of a step may then share positions.
bool usesCpuKernels(const Model& model, DecodePath path, const GpuKernels* kernels);

// Positions of a page of the cache that sequences of up to `longest` positions, rounded to the
// cache's unit, are decoded in. Tensor operations want each in one piece.
int64_t pagePositions(const Model& model, DecodePath path, const GpuKernels* kernels,
                      int64_t longest);

// Whether our CUDA kernels can decode this model with such a cache: empty, or one sentence why not.
std::string gpuKernelsDoNotFit(const Model& model, KvCacheDtype kvCacheDtype = KvCacheDtype::kAuto);

// decode_cpu.cpp, decode_gpu.cpp and decode_tensor_ops.cpp. The last is the reference for both
// others and runs on any device.
std::unique_ptr<DecodeOps> cpuDecodeOps(const Model& model, int64_t positions);
std::unique_ptr<DecodeOps> gpuDecodeOps(const Model& model, int64_t positions,
                                        const GpuKernels& kernels);
std::unique_ptr<DecodeOps> tensorDecodeOps(const Model& model, int64_t positions);

// Causal attention inside one prompt, by the library -> [T, H * K].
at::Tensor attendPrompt(const Heads& prompt);
// Rows [begin, end) as one copy that is not waited for.
DeviceRows uploadRows(const DecodeRows& rows, int64_t begin, int64_t end, at::ScalarType type,
                      at::Device device);

}  // namespace acoer
