// Decoding with our CUDA kernels: sequences live on the device and take several steps before the
// host looks at what was drawn.
#pragma once

#include <map>
#include <optional>
#include <unordered_set>

#include "generate/decode.h"
#include "generate/plan.h"
#include "generate/sampler.h"
#include "kernels/gpu/graph.h"

namespace acoer {

// Tokens that every sequence makes before the host sees them: a sequence that ends, and a
// cancellation, wait for at most so many steps.
constexpr int64_t kStepsPerLook = 8;

// Graphs that are kept, those used last. One policy has some 20 layouts in a run; with several
// every sequence that ends makes another one, and a graph takes memory on the device.
constexpr size_t kMostGraphs = 24;

// A token of a sequence as its next step finds it: the last that was drawn, or one that is proposed
// after that.
struct GpuRow {
  int64_t policy = 0;
  int32_t id = 0;
  int64_t position = 0;  // of `id`
  // As KvPages gives them: they stay where they are until there are more.
  const int32_t* pages = nullptr;
  int64_t pageCount = 0;
  const GenerateRequest* request = nullptr;
  int64_t requestIndex = 0;
  uint64_t sample = 0;                                // firstSample + s
  int64_t drawn = 0;                                  // tokens so far
  const std::unordered_set<int32_t>* seen = nullptr;  // only with a repetition penalty
  bool operator==(const GpuRow& other) const = default;
  bool follows(const GpuRow& other) const {
    return requestIndex == other.requestIndex && sample == other.sample &&
           position == other.position + 1;
  }
};

class GpuSteps {
 public:
  // Allocates for up to `rows` rows in pages of `cache`, which is not resized afterwards.
  GpuSteps(const Model& model, const GpuKernels& kernels, Decoder& decoder, const KvCache& cache,
           const DecoderNeeds& needs, int64_t rows);

  // One to `most` tokens, at most kStepsPerLook, for each row: draws[step * rows.size() + n]. What
  // follows the token that ends a row (a stop id, the last of maxNewTokens, logits that are not
  // finite) is to be ignored. Rows are in the order of the decoder's policies, those of a sequence
  // in that of their positions. With several of one sequence `most` is 1.
  std::vector<Draw> run(const std::vector<GpuRow>& rows, int64_t most = kStepsPerLook);

  // Why steps are started piece by piece and not as a graph; empty if they are graphs.
  const std::string& noGraphsBecause() const { return noGraphsBecause_; }

 private:
  // What a graph depends on, besides memory that does not move.
  struct Layout {
    std::vector<DecodeRows::Span> spans;  // over the rows with the idle ones behind them
    int64_t splits = 1;
    int64_t bundles = 0;  // of rows that attend together; 0: each row on its own
    int64_t rows() const { return spans.back().end; }
    auto operator<=>(const Layout& other) const = default;
  };
  // The state of all sequences as one buffer, so that a change is one copy.
  struct Part {
    int64_t offset = 0;
    template <class T>
    T* in(const at::Tensor& bytes) const {
      return reinterpret_cast<T*>(static_cast<char*>(bytes.data_ptr()) + offset);
    }
  };
  template <class T>
  Part addPart(int64_t count);
  at::Tensor int32sOf(const Part& part, int64_t count) const;
  // Where each bundle begins, and behind them the number of rows; empty if each has one row.
  std::vector<int32_t> bundlesOf(const std::vector<GpuRow>& rows) const;
  Layout layoutOf(const std::vector<GpuRow>& rows, const std::vector<int32_t>& bundles,
                  int64_t steps) const;
  void upload(const std::vector<GpuRow>& rows, const std::vector<int32_t>& bundles,
              const Layout& layout);
  void startStep(const Layout& layout);
  void forgetGraphs();
  void step(const Layout& layout);
  std::vector<Draw> download(size_t rows, const Layout& layout, int64_t steps);

  const Model& model_;
  const GpuKernels& kernels_;
  Decoder& decoder_;
  const KvCache& cache_;
  int64_t capacity_;  // rows
  int64_t longest_;   // positions of a sequence
  int64_t pagesPerRow_;
  bool penalties_ = false;
  int64_t stopRoom_ = 0;  // ids for each row

  Part samplers_, sequences_, ids_, pages_, positions_, bundles_, place_, stops_, seen_;
  int64_t stateBytes_ = 0;
  at::Tensor state_, stagedState_;  // bytes, on the device and pinned in host memory
  at::Tensor blocks_, tokens_, history_, seenHistory_;
  int64_t historyPlace_ = 0;  // *place on the device

  std::vector<GpuRow> expected_;  // the rows as the device has them
  Layout layout_;                 // with which they were uploaded
  struct Recorded {
    std::optional<GpuGraph> graph;  // null: seen once, not captured yet
    int64_t lastStart = 0;
  };
  std::map<Layout, Recorded> graphs_;
  int64_t starts_ = 0;  // of steps
  std::string noGraphsBecause_;
};

}  // namespace acoer
