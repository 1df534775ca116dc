// Decoding with our CUDA kernels: layouts, strides, state on the device, steps between two looks.
// On a CPU the kernels are emulated, with real numbers. Nothing here has run on a GPU.
#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "device_memory.h"
#include "emulated_gpu.h"
#include "generate/gpu_steps.h"
#include "generate_support.h"
#include "ops/gpu_lora.h"
#include "test_hooks.h"

namespace acoer::check {
namespace {

// With kernels that are emulated, memory shows wrong accesses.
const AroundTests inDeviceMemory([](const std::string& name, void (*body)()) {
  if (!checkDevice().is_cpu() || name.rfind("gpu_kernels_", 0) != 0) return body();
  const DeviceMemory memory;
  body();
  memory.checkGuards();
});

std::shared_ptr<Model> modelWithKernels(const ModelSpec& spec, at::ScalarType dtype,
                                        uint64_t seed) {
  auto model = randomModel(spec, checkDevice(), dtype, seed);
  model->kernels = kernelsToCheck();
  return model;
}

// Every sampling option, prompts on both sides of a block of attention, and answers that end at
// every place between two looks.
std::vector<GenerateRequest> variedRequests(const ModelSpec& spec, const Policy* policy) {
  std::vector<GenerateRequest> requests;
  for (int64_t length : {1, 2, 17, 250}) {
    requests.push_back(
        makeRequest(randomIds(spec, length, static_cast<uint64_t>(length)), 2, 21, policy));
    requests.back().stopIds = {5, 9, 40, 77, 123, 200, 311, 400};
    requests.back().seed = static_cast<uint64_t>(length);
  }
  requests[0].maxNewTokens = 8;
  requests[1].sampling.temperature = 0.7;
  requests[2].sampling = {.temperature = 0.9, .topK = 20, .topP = 0.9, .repetitionPenalty = 1.2};
  requests[3].sampling.temperature = 0;
  requests[3].sampling.repetitionPenalty = 1.5;
  requests[3].maxNewTokens = 19;
  return requests;
}

// The random number may lie so close to the border of two tokens that rounding decides.
void checkMostlyEqual(const Generated& got, const Generated& want, size_t atMostDifferent) {
  size_t different = 0;
  for (const auto& [key, sequence] : want.sequences) {
    const GeneratedSequence& other = got.sequences.at(key);
    if (other.ids != sequence.ids || other.finish != sequence.finish) ++different;
  }
  ACOER_CHECK(different <= atMostDifferent);
}

void checkDecodesLikeTensorOps(const ModelSpec& spec) {
  const auto model = modelWithKernels(spec, at::kFloat, 3);
  const auto adapter = strongAdapter(model, 5), other = strongAdapter(model, 7);
  const auto full = changedCopy(model, 6);
  std::vector<GenerateRequest> requests;
  for (const Policy* policy :
       {static_cast<const Policy*>(nullptr), static_cast<const Policy*>(adapter.get()),
        static_cast<const Policy*>(full.get()), static_cast<const Policy*>(other.get())}) {
    const auto varied = variedRequests(model->spec, policy);
    requests.insert(requests.end(), varied.begin(), varied.end());
  }
  GenerateOptions options;
  options.maxSlots = 7;  // sequences enter, leave and move while others go on
  const GraphCounts before = graphCounts();
  const Generated got = collect(*model, requests, options);
  ACOER_CHECK(got.stats.peakSlots == 7);
  ACOER_CHECK(got.stats.fallback.empty());
  if (checkDevice().is_cpu()) ACOER_CHECK(graphCounts().replayed > before.replayed);
  const ScoreGap gap = gapToScore(*model, requests, got);
  ACOER_CHECK_LE(gap.logprob, 1e-4);
  ACOER_CHECK_LE(gap.entropy, 1e-4);
  const Generated want = collect(*model, requests, options, DecodePath::kTensorOps);
  ACOER_CHECK(got.stats.newTokens == want.stats.newTokens);
  checkMostlyEqual(got, want, 1);
}

ACOER_TEST(gpu_kernels_decode_like_tensor_ops) {
  for (const ModelSpec& spec : {smallSpec(), qwen2Spec(), yarnSpec()}) {
    checkDecodesLikeTensorOps(spec);
  }
}

// A test of the tests: wrong kernels show.
ACOER_TEST(gpu_kernels_decode_shows_bugs) {
  if (!checkDevice().is_cpu()) return;
  const auto model = modelWithKernels(smallSpec(), at::kFloat, 3);
  const std::vector<GenerateRequest> requests{makeRequest({1, 2, 3}, 2, 9)};
  for (int bug : {21, 32}) {  // swiglu.cuh, rotate.cuh
    const PlantedBug planted(bug);
    const Generated got = collect(*model, requests);
    auto exact = *model;
    exact.kernels = nullptr;
    ACOER_CHECK_LE(1e-2, gapToScore(exact, requests, got).logprob);
  }
  const auto adapter = strongAdapter(model, 5);
  const std::vector<GenerateRequest> adapted{makeRequest({1, 2, 3}, 2, 9, adapter.get())};
  const PlantedBug planted(55);  // lora.cuh, which scoring does not use
  ACOER_CHECK_LE(1e-2, gapToScore(*model, adapted, collect(*model, adapted)).logprob);
}

// Untied weights, a group of three query heads and heads of 96; then heads of 128 in a group of 8,
// and in a group of 6 with biases, as DeepSeek-R1-Distill-Qwen-1.5B has them.
ACOER_TEST(gpu_kernels_decode_other_shapes) {
  ModelSpec spec = smallSpec();
  spec.tieWordEmbeddings = false;
  spec.headDim = 96;
  ModelSpec wide = smallSpec();
  wide.headDim = 128;
  wide.numHeads = 8;
  wide.numKvHeads = 1;
  ModelSpec six = qwen2Spec();
  six.headDim = 128;
  six.numHeads = 12;
  six.numKvHeads = 2;
  for (const ModelSpec& shape : {spec, wide, six}) {
    const auto model = modelWithKernels(shape, at::kFloat, 13);
    const auto adapter = strongAdapter(model, 15);
    const auto requests = variedRequests(shape, adapter.get());
    const ScoreGap gap = gapToScore(*model, requests, collect(*model, requests));
    ACOER_CHECK_LE(gap.logprob, 1e-4);
    ACOER_CHECK_LE(gap.entropy, 1e-4);
  }
}

// The prompt's rows are too many for the kernels of so wide an adapter, those of a step are not.
ACOER_TEST(gpu_kernels_decode_wide_adapter) {
  const auto model = modelWithKernels(smallSpec(), at::kFloat, 3);
  PolicyOptions options;
  options.matrices = {{0, kV, 5, 8}, {0, kGate, 256, 8}, {0, kUp, 256, 8}, {1, kDown, 256, 8}};
  const auto adapter = createPolicy(model, options);
  makeStrong(*adapter, 5);
  const auto groups = makeDecodeAdapter(*adapter, Matrix::Form::kPlain).layers;
  ACOER_CHECK(fitsLoraKernels(groups[0].gateUp, 2) && !fitsLoraKernels(groups[0].gateUp, 80));
  ACOER_CHECK(fitsLoraKernels(groups[1].down, 2) && !fitsLoraKernels(groups[1].down, 80));
  const std::vector<GenerateRequest> requests{
      makeRequest(randomIds(model->spec, 80, 1), 2, 9, adapter.get())};
  ACOER_CHECK_LE(gapToScore(*model, requests, collect(*model, requests)).logprob, 1e-4);
}

// The longest row ends at a border of attention's blocks in the middle of a look, while another row
// goes on: the scratch for the blocks must hold every step of that look.
ACOER_TEST(gpu_kernels_decode_ends_at_a_block) {
  const auto model = modelWithKernels(smallSpec(), at::kFloat, 3);
  struct Lengths {
    int64_t prompt, newTokens;
  };
  for (const auto& [longest, other] : {std::pair<Lengths, Lengths>{{500, 13}, {300, 40}},
                                       {{250, 7}, {17, 30}},
                                       {{250, 20}, {17, 30}},
                                       {{1020, 5}, {250, 20}}}) {
    std::vector<GenerateRequest> requests;
    for (const auto& [prompt, newTokens] : {longest, other}) {
      requests.push_back(
          makeRequest(randomIds(model->spec, prompt, static_cast<uint64_t>(prompt)), 1, newTokens));
    }
    const ScoreGap gap = gapToScore(*model, requests, collect(*model, requests));
    ACOER_CHECK_LE(gap.logprob, 1e-4);
  }
}

// The tests of generate() that do not ask for the CPU's own order of steps, bits and bytes;
// log-probs against score() have tests of their own here.
ACOER_TEST(gpu_kernels_pass_the_tests_of_generate) {
  if (!checkDevice().is_cpu()) return;
  struct OnCpu {
    OnCpu() { kernelsOnCpu() = &emulatedKernels(); }
    ~OnCpu() { kernelsOnCpu() = nullptr; }
  } const onCpu;
  const GraphCounts before = graphCounts();
  for (const char* name : {"generate_greedy_is_argmax_of_forward", "generate_stop_and_length",
                           "generate_bad_arguments", "generate_refuses_non_finite_logits",
                           "generate_places_non_finite_logits", "generate_leaves_grad_mode"}) {
    try {
      runTestNamed(name);
    } catch (const std::exception& error) {
      fail(ErrorCode::kInternal, std::string(name) + ": " + error.what());
    }
  }
  ACOER_CHECK(graphCounts().replayed > before.replayed);
}

// Steps as graphs, and started piece by piece, give the same bits; so a graph holds nothing that
// changes from step to step.
ACOER_TEST(gpu_kernels_graphs_equal_steps) {
  const auto model = modelWithKernels(smallSpec(), at::kFloat, 3);
  const auto adapter = strongAdapter(model, 5), other = strongAdapter(model, 7);
  const auto full = changedCopy(model, 6);
  std::vector<GenerateRequest> requests = variedRequests(model->spec, adapter.get());
  for (const Policy* policy : {full.get(), other.get()}) {
    requests.push_back(variedRequests(model->spec, policy)[2]);
  }
  GenerateOptions options;
  options.maxSlots = 5;
  const GraphCounts before = graphCounts();
  const Generated graphs = collect(*model, requests, options);
  const GraphCounts after = graphCounts();
  if (checkDevice().is_cpu()) {
    ACOER_CHECK(after.replayed - before.replayed > 2 * (after.recorded - before.recorded));
    ACOER_CHECK(after.live == before.live);
    model->kernels = &emulatedKernels(Graphs::kNone);
  }
  const Generated steps = collect(*model, requests, options);
  ACOER_CHECK(graphs.stats.fallback.empty());
  ACOER_CHECK(steps.stats.fallback.empty() == !checkDevice().is_cpu());
  for (const auto& [key, sequence] : steps.sequences) {
    checkSame(graphs.sequences.at(key), sequence, 0);
  }
  ACOER_CHECK_LE(gapToScore(*model, requests, graphs).logprob, 1e-4);
}

// Prompts that come later are longer than all before them.
ACOER_TEST(gpu_kernels_graphs_survive_longer_prompts) {
  const auto model = modelWithKernels(smallSpec(), at::kFloat, 3);
  std::vector<GenerateRequest> requests;
  for (const int64_t length : {20, 50, 80, 110}) {
    requests.push_back(
        makeRequest(randomIds(model->spec, length, static_cast<uint64_t>(length)), 4, 20));
  }
  GenerateOptions options;
  options.maxSlots = 4;
  const GraphCounts before = graphCounts();
  const Generated got = collect(*model, requests, options);
  if (checkDevice().is_cpu()) {
    // The layouts of the first prompt's samples are those of all others.
    ACOER_CHECK(graphCounts().recorded - before.recorded <= 2);
  }
  ACOER_CHECK_LE(gapToScore(*model, requests, got).logprob, 1e-4);
}

// In every look a row of the first policy ends, so that no layout comes twice.
ACOER_TEST(gpu_kernels_graphs_are_bounded) {
  if (!checkDevice().is_cpu()) return;
  ModelSpec spec = smallSpec();
  spec.numLayers = 1;
  spec.numHeads = spec.numKvHeads = 1;
  const auto model = modelWithKernels(spec, at::kFloat, 3);
  const auto adapter = strongAdapter(model, 5);
  const int64_t rows = static_cast<int64_t>(kMostGraphs) + 2;
  std::vector<GenerateRequest> requests;
  for (int64_t looks = 1; looks <= rows; ++looks) {
    requests.push_back(makeRequest({1, 2}, 1, looks * kStepsPerLook));
  }
  requests.push_back(makeRequest({1, 2}, 1, rows * kStepsPerLook, adapter.get()));
  const GraphCounts before = graphCounts();
  const Generated got = collect(*model, requests);
  ACOER_CHECK(got.stats.fallback.empty());
  ACOER_CHECK(graphCounts().recorded - before.recorded > static_cast<int64_t>(kMostGraphs));
  ACOER_CHECK(graphCounts().most <= static_cast<int64_t>(kMostGraphs));
}

// A cancelled call leaves nothing to the next one: its slots, counters and graphs begin anew.
ACOER_TEST(gpu_kernels_start_anew_after_a_cancel) {
  const auto model = modelWithKernels(smallSpec(), at::kFloat, 3);
  const auto requests = variedRequests(model->spec, nullptr);
  const Generated fresh = collect(*model, requests);
  Cancel cancel;
  generate(
      *model, {makeRequest({1, 2, 3}, 3, 200), makeRequest({4}, 1, 3)}, {},
      [&](GeneratedSequence&&) { cancel.request(); }, cancel);
  const Generated again = collect(*model, requests);
  for (const auto& [key, sequence] : fresh.sequences) {
    checkSame(again.sequences.at(key), sequence, 0);
  }
}

// As generate_logprob_near_score_bf16 for the other paths.
ACOER_TEST(gpu_kernels_decode_bf16) {
  const auto model = modelWithKernels(smallSpec(), at::kBFloat16, 3);
  const auto adapter = strongAdapter(model, 5);
  const auto requests = variedRequests(model->spec, adapter.get());
  const ScoreGap gap = gapToScore(*model, requests, collect(*model, requests));
  ACOER_CHECK_LE(gap.meanLogprob, 0.02);
  ACOER_CHECK_LE(gap.logprob, 0.3);
}

ACOER_TEST(gpu_kernels_batch_does_not_show) {
  const auto model = modelWithKernels(smallSpec(), at::kFloat, 3);
  const auto requests = variedRequests(model->spec, nullptr);
  GenerateOptions one;
  one.maxSlots = 1;
  checkMostlyEqual(collect(*model, requests), collect(*model, requests, one), 1);
}

ACOER_TEST(gpu_kernels_cancel_between_looks) {
  const auto model = modelWithKernels(smallSpec(), at::kFloat, 3);
  std::vector<GenerateRequest> requests{makeRequest({1, 2, 3}, 2, 200), makeRequest({4}, 1, 3)};
  GenerateOptions options;
  Cancel cancel;
  int64_t longest = 0, cancelled = 0;
  const auto stats = generate(
      *model, requests, options,
      [&](GeneratedSequence&& sequence) {
        cancel.request();  // when the short one ends
        longest = std::max(longest, static_cast<int64_t>(sequence.ids.size()));
        cancelled += sequence.finish == FinishReason::kCancelled;
      },
      cancel);
  ACOER_CHECK(cancelled == 2);
  ACOER_CHECK(longest == kStepsPerLook && stats.decodeSteps == kStepsPerLook);
}

// The host knows nothing between two looks.
ACOER_TEST(gpu_kernels_progress_in_looks) {
  const auto model = modelWithKernels(smallSpec(), at::kFloat, 3);
  std::vector<int32_t> tokens;
  GenerateOptions options{.progressEveryMs = 0};
  options.onProgress = [&](GenerateProgress&& progress) {
    if (progress.inFlight.size() == 3) tokens.push_back(progress.inFlight[2]);
  };
  collect(*model, {makeRequest({1, 2, 3}, 1, 3 * kStepsPerLook + 2)}, options);
  ACOER_CHECK(
      (tokens == std::vector<int32_t>{kStepsPerLook, 2 * kStepsPerLook, 3 * kStepsPerLook}));
}

ACOER_TEST(gpu_kernels_place_non_finite_logits) {
  const auto model = modelWithKernels(smallSpec(), at::kFloat, 3);
  const auto broken = changedCopy(model, 4);
  broken->parameters.back().value.fill_(std::numeric_limits<double>::infinity());
  const auto run = [&] { collect(*model, {makeRequest({1, 2}, 1, 9, broken.get())}); };
  ACOER_CHECK_THROWS(run(), ErrorCode::kNotFinite,
                     "request 0, sample 0 are not finite at new token 0");
}

ACOER_TEST(gpu_kernels_leave_what_they_do_not_fit) {
  const auto tiny = modelWithKernels(tinySpec(), at::kFloat, 3);
  ACOER_CHECK(collect(*tiny, {makeRequest({1}, 1, 4)}).stats.fallback ==
              "acoer's CUDA kernels are for heads of 64, 96 or 128, not 32");
  const auto model = modelWithKernels(smallSpec(), at::kFloat, 3);
  auto cold = makeRequest({1}, 1, 4);
  cold.sampling.temperature = 1e-7;
  ACOER_CHECK(collect(*model, {cold}).stats.fallback.find("at least 1e-6") != std::string::npos);
}

// Rows that begin, end and go on in several pages, in a cache that is too small for all of them at
// their most: some end early, so that others get what they leave.
ACOER_TEST(gpu_kernels_decode_in_pages) {
  const auto model = modelWithKernels(smallSpec(), at::kFloat, 3);
  std::vector<GenerateRequest> requests;
  for (const int64_t length : {250, 10, 500, 255, 520, 30}) {
    requests.push_back(
        makeRequest(randomIds(model->spec, length, static_cast<uint64_t>(length)), 2, 300));
    for (int32_t id = 0; id < model->spec.vocabSize / 16; ++id) {
      requests.back().stopIds.push_back(id);
    }
  }
  GenerateOptions options;
  options.kvBytes = 12 * 256 * KvCache::bytesPerPosition(model->spec, model->dtype);
  const Generated got = collect(*model, requests, options);
  ACOER_CHECK(got.stats.fallback.empty());
  ACOER_CHECK(got.stats.peakSlots > 2);  // of 820 positions each
  ACOER_CHECK_LE(gapToScore(*model, requests, got).logprob, 1e-4);
}

// All room at once: what does not fit is refused before anything is decoded.
ACOER_TEST(gpu_kernels_fixed_kv_room) {
  const auto model = modelWithKernels(smallSpec(), at::kFloat, 3);
  const std::vector<GenerateRequest> requests{makeRequest(randomIds(model->spec, 40, 1), 6, 9)};
  const int64_t position = KvCache::bytesPerPosition(model->spec, model->dtype);
  GenerateOptions options;
  options.kvBytes = position * (3 * 48 + 48);  // three sequences of 48 positions and the prompt
  const Generated got = collect(*model, requests, options);
  ACOER_CHECK(got.stats.peakSlots == 3);
  ACOER_CHECK(collect(*model, {}).stats.newTokens == 0);
  options.kvBytes = position * 95;
  ACOER_CHECK_THROWS(collect(*model, requests, options), ErrorCode::kBadArgument, "request 0");
}

}  // namespace
}  // namespace acoer::check
