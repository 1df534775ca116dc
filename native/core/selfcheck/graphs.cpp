// Steps of decoding as graphs against the same steps started piece by piece, bit for bit. The model
// has the heads of the one that is checked and is small besides: what a graph may get wrong is
// where it reads and writes.
#include <ATen/ATen.h>

#include <algorithm>
#include <array>

#include "generate/gpu_steps.h"
#include "selfcheck/figures.h"

namespace acoer {
namespace {

constexpr int64_t kRows = 2, kLooks = 2;
constexpr int64_t kPositions = 32;

ModelSpec smallSpec(ModelSpec spec) {
  spec.numLayers = 2;
  spec.hiddenSize = std::min<int64_t>(spec.hiddenSize, 64);
  spec.intermediateSize = std::min<int64_t>(spec.intermediateSize, 64);
  spec.vocabSize = std::min<int64_t>(spec.vocabSize, 512);
  return spec;
}

struct Decoded {
  std::vector<Draw> draws;
  at::Tensor keys;
  std::string noGraphsBecause;
};

// The first layout's first step is started piece by piece in any case, the others are replayed.
Decoded decodeSteps(const Model& model) {
  GenerateRequest request;
  request.maxNewTokens = 2 * kLooks * kStepsPerLook;
  DecoderNeeds needs;
  needs.policies = {nullptr};
  needs.sequences = kRows;
  needs.longest = kPositions;
  Decoder decoder(model, needs.policies, kPositions, DecodePath::kAuto, model.kernels);
  KvCache cache = decoder.makeCache();
  cache.resize(kRows, kPositions, 0, 0);
  cache.keys(1).zero_();
  GpuSteps steps(model, *model.kernels, decoder, cache, needs, kRows);
  std::vector<GpuRow> rows;
  std::array<int32_t, kRows> pages{};
  for (int64_t n = 0; n < kRows; ++n) {
    int32_t& page = pages[static_cast<size_t>(n)];
    page = static_cast<int32_t>(kRows - 1 - n);
    rows.push_back({.id = static_cast<int32_t>(n),
                    .pages = &page,
                    .pageCount = 1,
                    .request = &request,
                    .sample = static_cast<uint64_t>(n)});
  }
  Decoded decoded;
  for (int64_t look = 0; look < kLooks; ++look) {
    const std::vector<Draw> draws = steps.run(rows);
    for (size_t n = 0; n < rows.size(); ++n) {
      rows[n].id = draws[draws.size() - rows.size() + n].id;
      rows[n].position += kStepsPerLook;
      rows[n].drawn += kStepsPerLook;
    }
    decoded.draws.insert(decoded.draws.end(), draws.begin(), draws.end());
  }
  decoded.keys = cache.keys(1).clone();
  decoded.noGraphsBecause = steps.noGraphsBecause();
  return decoded;
}

}  // namespace

// Where nothing can be recorded, decoding says so itself and goes on without graphs.
void checkGraphs(Figures& figures) {
  figures.begin("graph");
  Model model = checkedModel(figures, smallSpec(figures.spec()), /*matrices=*/true);
  const Decoded replayed = decodeSteps(model);
  if (!replayed.noGraphsBecause.empty()) return;
  model.kernelFaults[KernelFamily::kGraphs] = "compared with";
  const Decoded started = decodeSteps(model);
  const auto sameDraw = [](const Draw& a, const Draw& b) {
    return a.id == b.id && a.logprob == b.logprob && a.entropy == b.entropy && a.finite && b.finite;
  };
  const bool same = std::equal(replayed.draws.begin(), replayed.draws.end(), started.draws.begin(),
                               started.draws.end(), sameDraw) &&
                    at::equal(replayed.keys, started.keys);
  figures.expect(same ? 0 : 1, 0);
}

}  // namespace acoer
