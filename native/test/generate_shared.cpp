// The samples of a prompt read one copy of its keys and values (docs/decisions/0165): that must
// show in memory, and nowhere else.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <limits>

#include "base/memory.h"
#include "generate/kv_cache.h"
#include "generate_support.h"
#include "kernels/cpu/sets.h"
#include "ops/rope.h"

namespace acoer::check {
namespace {

struct Shape {
  int64_t heads, kvHeads, headDim;
};

// A cache as the kernels see it: its numbers are NaN, or the scales of its codes, so that it shows
// if what was never written is read.
struct Pieces {
  at::Tensor keys, values, keyScales, valueScales;

  // The first `count` positions of slot 1.
  template <class C>
  kernels::SharedPositions<C> shared(int64_t count) {
    keys = keys[1].narrow(1, 0, count / 16).contiguous();
    values = values[1].narrow(1, 0, count).contiguous();
    if (keyScales.defined()) {
      keyScales = keyScales[1].narrow(1, 0, count).contiguous();
      valueScales = valueScales[1].narrow(1, 0, count).contiguous();
    }
    return {static_cast<const C*>(keys.const_data_ptr()),
            static_cast<const C*>(values.const_data_ptr()), scalesIn(keyScales),
            scalesIn(valueScales), count};
  }
  static float* scalesIn(const at::Tensor& scales) {
    return scales.defined() ? scales.data_ptr<float>() : nullptr;
  }
};

// The rows of one sequence, which writeHeads and attend take over caches of any division. C: what
// they hold.
template <class T, class C>
class OneSequence {
 public:
  using A = kernels::Acc<T>;
  OneSequence(at::ScalarType dtype, Shape shape, int64_t length)
      : dtype_(dtype), shape_(shape), length_(length) {
    ModelSpec spec = tinySpec();
    spec.headDim = shape.headDim;
    const RopeTable table = ropeTable(spec, length, at::kCPU, dtype);
    const auto wide = dtype == at::kDouble ? at::kDouble : at::kFloat;
    cos_PK_ = table.cos_PK.to(dtype).to(wide);
    sin_PK_ = table.sin_PK.to(dtype).to(wide);
    const int64_t E = (shape.heads + 2 * shape.kvHeads) * shape.headDim;
    qkv_NE_ =
        at::randn({length, E}, at::detail::createCPUGenerator(9), at::dtype(at::kDouble)).to(dtype);
  }

  // With room for `positions`.
  Pieces makeCache(int64_t slots, int64_t positions) const {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const auto [H, J, K] = shape_;
    const std::vector<int64_t> keys{slots, J, positions / 16, K, 16},
        values{slots, J, positions, K};
    if (!kernels::kIsQuantized<T, C>) {
      return {at::full(keys, nan, dtype_), at::full(values, nan, dtype_), {}, {}};
    }
    const at::Tensor scales = at::full({slots, J, positions}, nan, at::kFloat);
    return {at::full(keys, 127, at::kChar), at::full(values, 127, at::kChar), scales,
            scales.clone()};
  }

  // What rows from `first` on see, [N, H * K]. `shared`: the first positions, in no slot.
  at::Tensor attend(const kernels::CacheKernels<T, C>& kernel, int64_t first, const Pieces& cache,
                    kernels::SharedPositions<C> shared) const {
    const auto [H, J, K] = shape_;
    const int64_t rows = length_ - first;
    at::Tensor qkv_NE = qkv_NE_.narrow(0, first, rows).clone();
    at::Tensor out_NHK = at::zeros({rows, H * K}, dtype_);
    const std::vector<int32_t> slots(static_cast<size_t>(rows), 1);
    const std::vector<kernels::SharedPositions<C>> all(static_cast<size_t>(rows), shared);
    std::vector<int32_t> positions;
    for (int64_t t = first; t < length_; ++t) positions.push_back(static_cast<int32_t>(t));
    const kernels::AttentionArgs<T, C> args{.qkv_NE = static_cast<T*>(qkv_NE.data_ptr()),
                                            .keys_SJLK = static_cast<C*>(cache.keys.data_ptr()),
                                            .values_SJLK = static_cast<C*>(cache.values.data_ptr()),
                                            .keyScales_SJL = Pieces::scalesIn(cache.keyScales),
                                            .valueScales_SJL = Pieces::scalesIn(cache.valueScales),
                                            .out_NHK = static_cast<T*>(out_NHK.data_ptr()),
                                            .page_NT = slots.data(),
                                            .position_N = positions.data(),
                                            .shared_N = shared.count > 0 ? all.data() : nullptr,
                                            .rows = rows,
                                            .heads = H,
                                            .kvHeads = J,
                                            .headDim = K,
                                            .pagePositions = cache.values.size(2),
                                            .cos_PK = static_cast<A*>(cos_PK_.data_ptr()),
                                            .sin_PK = static_cast<A*>(sin_PK_.data_ptr())};
    kernel.writeHeads(args, 0, rows);
    kernel.attend(args, 0, rows * J);
    return out_NHK;
  }

 private:
  at::ScalarType dtype_;
  Shape shape_;
  int64_t length_;
  at::Tensor qkv_NE_, cos_PK_, sin_PK_;
};

template <class T, class C>
void checkCacheKernels(const kernels::CacheKernels<T, C>& kernel, at::ScalarType dtype,
                       Shape shape) {
  const int64_t length = 69, room = 80;
  const OneSequence<T, C> sequence(dtype, shape, length);
  const Pieces whole = sequence.makeCache(2, room);
  const at::Tensor expected = sequence.attend(kernel, 0, whole, {});
  ACOER_CHECK(at::isfinite(expected).all().template item<bool>());
  for (const int64_t count : {16, 32, 64}) {
    Pieces first = whole;
    const kernels::SharedPositions<C> shared = first.shared<C>(count);
    const Pieces own = sequence.makeCache(2, room - count);
    const at::Tensor out = sequence.attend(kernel, count, own, shared);
    ACOER_CHECK(at::equal(out, expected.narrow(0, count, length - count)));
  }
}

template <class T>
void checkKernels(const kernels::RowKernels<T>& kernel, at::ScalarType dtype, Shape shape) {
  checkCacheKernels(kernel.cache, dtype, shape);
  checkCacheKernels(kernel.int8Cache, dtype, shape);
}

ACOER_TEST(generate_shared_positions_in_kernels) {
  for (const kernels::KernelSet* set : kernels::usableSets()) {
    for (const Shape shape : {Shape{4, 2, 32}, {16, 8, 128}, {6, 2, 20}, {8, 1, 64}, {7, 1, 6}}) {
      checkKernels(set->rowsFloat, at::kFloat, shape);
      checkKernels(set->rowsDouble, at::kDouble, shape);
      checkKernels(set->rowsBf16, at::kBFloat16, shape);
    }
  }
}

// Prompts around the borders of tiles, and one that is prefilled by the library's attention.
std::vector<GenerateRequest> sharingRequests(const ModelSpec& spec,
                                             const std::vector<const Policy*>& policies) {
  std::vector<GenerateRequest> requests;
  for (const int64_t length : {33, 1, 100, 2, 16, 17, 180, 18}) {
    const auto i = requests.size();
    GenerateRequest request = makeRequest(randomIds(spec, length, 50 + i), 8, 20 + 9 * i % 50,
                                          policies[i % policies.size()]);
    request.stopIds = {1, static_cast<int32_t>(2 + i)};
    request.seed = 60 + i;
    if (i % 3 == 2) request.sampling = {.temperature = 0.8, .topP = 0.9, .repetitionPenalty = 1.2};
    requests.push_back(request);
  }
  return requests;
}

void checkAgainstAlone(const Model& model, const std::vector<GenerateRequest>& requests,
                       KvCacheDtype kept = KvCacheDtype::kAuto) {
  std::map<SequenceKey, GeneratedSequence> reference;
  for (size_t r = 0; r < requests.size(); ++r) {
    for (int64_t s = 0; s < requests[r].numSamples; ++s) {
      reference[{r, s}] = alone(model, requests[r], s, DecodePath::kAuto, kept);
    }
  }
  for (const int64_t maxSlots : {1, 3, 11, 64}) {
    GenerateOptions options;
    options.maxSlots = maxSlots;
    options.kvCacheDtype = kept;
    const Generated generated = collect(model, requests, options);
    ACOER_CHECK(generated.stats.peakSlots == maxSlots);
    for (const auto& [key, sequence] : generated.sequences) {
      checkSame(sequence, reference.at(key), 0);
    }
  }
}

ACOER_TEST(generate_shared_prompts_do_not_show) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const auto model = tinyModel(dtype, 41);
    const auto adapter = strongAdapter(model, 42), other = strongAdapter(model, 43);
    std::vector<const Policy*> policies{adapter.get(), nullptr, other.get()};
    std::shared_ptr<Policy> full;  // not in bf16, which trains adapters only
    if (dtype != at::kBFloat16) policies.push_back((full = changedCopy(model, 44)).get());
    checkAgainstAlone(*model, sharingRequests(model->spec, {nullptr}));
    checkAgainstAlone(*model, sharingRequests(model->spec, policies));
    checkAgainstAlone(*model, sharingRequests(model->spec, policies), KvCacheDtype::kInt8);
  }
}

// The most bytes of tensors that a call needs.
int64_t peakBytes(const Model& model, const std::vector<GenerateRequest>& requests,
                  int64_t maxSlots) {
  constexpr int64_t kLimit = int64_t{1} << 30;
  prepareMemoryLimit(at::kCPU, kLimit);
  const EngineMemory memory(at::kCPU, kLimit);
  GenerateOptions options;
  options.maxSlots = maxSlots;
  collect(model, requests, options);
  ACOER_CHECK(memory.use()->bytes == 0);
  return memory.use()->peakBytes;
}

ACOER_TEST(generate_shared_prompts_take_memory_once) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 45);
  const int64_t perPosition = KvCache::bytesPerPosition(model->spec, at::kFloat);
  const int64_t length = 1025;
  const auto prompt = [&](uint64_t seed, int64_t samples) {
    return makeRequest(randomIds(model->spec, length, seed), samples, 4);
  };
  const auto peak = [&](const std::vector<GenerateRequest>& requests, int64_t maxSlots) {
    return peakBytes(*model, requests, maxSlots) / perPosition;
  };
  // The samples have a page of 64 positions each for what they do not share.
  ACOER_CHECK_LE(peak({prompt(1, 16)}, 16) - peak({prompt(1, 1)}, 16), 16 * 64 + length / 8);
  // A prompt goes with its last sample: twelve need no more than three.
  std::vector<GenerateRequest> twelve;
  for (uint64_t i = 0; i < 12; ++i) twelve.push_back(prompt(i, 4));
  const std::vector<GenerateRequest> three(twelve.begin(), twelve.begin() + 3);
  ACOER_CHECK_LE(peak(twelve, 3) - peak(three, 3), length / 2);
}

// Sequences have pages for what they do not share, next to the prompts that they do.
ACOER_TEST(generate_shared_prompts_stay_within_the_budget) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 46);
  const std::vector<GenerateRequest> requests{makeRequest(randomIds(model->spec, 513, 1), 2, 16),
                                              makeRequest(randomIds(model->spec, 1, 2), 2, 512)};
  GenerateOptions options;
  // Room for the first prompt, a page of each of its samples, and one sequence of 512 positions.
  options.kvBytes = (512 + 2 * 64 + 512) * KvCache::bytesPerPosition(model->spec, model->dtype);
  const Generated tight = collect(*model, requests, options), free = collect(*model, requests);
  ACOER_CHECK(tight.stats.peakSlots == 3);
  ACOER_CHECK(free.stats.peakSlots == 4);
  for (const auto& [key, sequence] : tight.sequences) {
    checkSame(sequence, free.sequences.at(key), 0);
  }
}

// Cancelled while samples that share prompts are in slots and others wait.
ACOER_TEST(generate_shared_prompts_cancelled) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 47);
  const auto requests = sharingRequests(model->spec, {nullptr});
  const Generated whole = collect(*model, requests);
  GenerateOptions options;
  options.maxSlots = 5;
  Cancel cancel;
  int64_t count = 0, cancelled = 0;
  generate(
      *model, requests, options,
      [&](GeneratedSequence&& sequence) {
        if (++count == 20) cancel.request();
        cancelled += sequence.finish == FinishReason::kCancelled ? 1 : 0;
        const auto& ids = whole.sequences.at({sequence.request, sequence.sample}).ids;
        ACOER_CHECK(sequence.ids.size() <= ids.size());
        ACOER_CHECK(std::equal(sequence.ids.begin(), sequence.ids.end(), ids.begin()));
      },
      cancel);
  ACOER_CHECK(count == 64);
  ACOER_CHECK(cancelled >= 35);
}

}  // namespace
}  // namespace acoer::check
