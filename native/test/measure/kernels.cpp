// Times of single kernels of the fatbin. Launched by the host one after the other: a kernel that
// takes less than a launch shows the cost of the launch.
#include "kernels/gpu/kernels.h"

#include <ATen/ATen.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "matrix/gpu_quantised.h"
#include "matrix/matrix.h"
#include "measure.h"

namespace acoer::measure {
namespace {

using cuda::KernelId;

constexpr int64_t kRows = 16;
constexpr int64_t kHidden = 2048, kIntermediate = 6144, kVocab = 151936;
constexpr int64_t kKvHeads = 8, kGroup = 2, kHeadDim = 128;
constexpr double kFarBeyondCaches = 512e6;
constexpr int kRounds = 20;

struct Timer {
  const GpuKernels& kernels;
  c10::Device device;
  void* stream;
  at::TensorOptions options(at::ScalarType type) const { return at::device(device).dtype(type); }
  at::Tensor normal(at::IntArrayRef shape, at::ScalarType type = at::kBFloat16) const {
    return at::randn(shape, options(type));
  }
  // Mean time of calling each of `count` launches, which use memory of their own.
  template <class Launch>
  KernelTime time(std::string name, double bytes, int64_t count, const Launch& launch) const {
    for (int64_t i = 0; i < count; ++i) launch(i);
    const Stopwatch watch(device);
    for (int round = 0; round < kRounds; ++round) {
      for (int64_t i = 0; i < count; ++i) launch(i);
    }
    return {std::move(name), bytes, watch.seconds() / static_cast<double>(kRounds * count)};
  }
  static int64_t copies(double bytes) {
    return std::max<int64_t>(2, static_cast<int64_t>(kFarBeyondCaches / bytes));
  }
};

KernelTime attention(const Timer& timer, int64_t length) {
  const double bytes = 2.0 * kRows * kKvHeads * static_cast<double>(length) * kHeadDim * 2;
  const int64_t count = Timer::copies(bytes), splits = cuda::attentionSplits(length);
  const at::Tensor keys_CSJLK = timer.normal({count, kRows, kKvHeads, length, kHeadDim});
  const at::Tensor values_CSJLK = timer.normal({count, kRows, kKvHeads, length, kHeadDim});
  const at::Tensor q_NHK = timer.normal({kRows, kKvHeads * kGroup, kHeadDim});
  const at::Tensor pages_NT = at::arange(kRows, timer.options(at::kInt));
  const at::Tensor positions_N = at::full({kRows}, length - 1, timer.options(at::kInt));
  const auto fp32 = timer.options(at::kFloat);
  const at::Tensor sums = at::empty({kRows, kKvHeads, splits, kGroup, kHeadDim}, fp32);
  const at::Tensor stats = at::empty({kRows, kKvHeads, splits, kGroup, 2}, fp32);
  const at::Tensor out_NHK = at::empty_like(q_NHK);
  const auto split = static_cast<uint32_t>(splits);
  const auto head = static_cast<int32_t>(kHeadDim), heads = static_cast<int32_t>(kKvHeads);
  const auto group = static_cast<int32_t>(kGroup);
  return timer.time(
      "attention and combine, 16 x " + std::to_string(length), bytes, count, [&](int64_t i) {
        const cuda::AttentionArgs args{.q_NHK = q_NHK.data_ptr(),
                                       .keys_SJLK = keys_CSJLK[i].data_ptr(),
                                       .values_SJLK = values_CSJLK[i].data_ptr(),
                                       .pages_NT = pages_NT.data_ptr<int32_t>(),
                                       .positions_N = positions_N.data_ptr<int32_t>(),
                                       .sums_NJsGK = sums.data_ptr<float>(),
                                       .stats_NJsG2 = stats.data_ptr<float>(),
                                       .out_NHK = out_NHK.data_ptr(),
                                       .qStride = kKvHeads * kGroup * kHeadDim,
                                       .kvHeads = heads,
                                       .group = group,
                                       .splits = static_cast<int32_t>(splits),
                                       .pagesPerRow = 1,
                                       .pagePositions = static_cast<int32_t>(length),
                                       .scale = 0.0883883F};
        timer.kernels.launch(cuda::attentionKernel(true, false, kHeadDim, kGroup),
                             {split, uint32_t{kKvHeads}, uint32_t{kRows}}, args, timer.stream);
        if (splits == 1) return;
        const cuda::CombineArgs rest{
            args.sums_NJsGK, args.stats_NJsG2, args.positions_N, args.out_NHK, heads, group, head,
            args.splits};
        timer.kernels.launch(KernelId::combine_bf16, {uint32_t{kKvHeads * kGroup}, uint32_t{kRows}},
                             rest, timer.stream);
      });
}

KernelTime norm(const Timer& timer) {
  const at::Tensor x_ND = timer.normal({kRows, kHidden}), delta_ND = timer.normal({kRows, kHidden});
  const at::Tensor weight_D = timer.normal({kHidden}), normed_ND = at::empty_like(x_ND);
  const cuda::NormArgs args{x_ND.data_ptr(),      delta_ND.data_ptr(), weight_D.data_ptr(),
                            normed_ND.data_ptr(), int32_t{kHidden},    1e-6F};
  return timer.time(
      "norm, 16 x 2048 (a small kernel)", 4.0 * kRows * kHidden * 2, 100, [&](int64_t) {
        timer.kernels.launch(KernelId::norm_bf16, {uint32_t{kRows}}, args, timer.stream);
      });
}

KernelTime swiglu(const Timer& timer) {
  const at::Tensor gateUp = timer.normal({kRows, 2 * kIntermediate});
  const at::Tensor act_NF = timer.normal({kRows, kIntermediate});
  const cuda::SwigluArgs args{gateUp.data_ptr(), act_NF.data_ptr(), int32_t{kIntermediate}};
  return timer.time("swiglu, 16 x 6144", 3.0 * kRows * kIntermediate * 2, 100, [&](int64_t) {
    timer.kernels.launch(KernelId::swiglu_bf16,
                         {uint32_t{kRows}, uint32_t{cuda::swigluBlocks(kIntermediate)}}, args,
                         timer.stream);
  });
}

// Both launches of an adapter of q, k and v.
KernelTime lora(const Timer& timer) {
  constexpr int64_t kRank = 16, kRanks = 3 * kRank, kKeys = kKvHeads * kHeadDim;
  constexpr int64_t kQueries = kKeys * kGroup, kOutputs = kQueries + 2 * kKeys;
  const double bytes = 2.0 * (kRanks * kHidden + kRank * kOutputs);
  const int64_t count = Timer::copies(bytes) / 8;  // 100 MB with what is not read: beyond caches
  const at::Tensor a_CRI = timer.normal({count, kRanks, kHidden});
  const at::Tensor bT_CRO = timer.normal({count, kRanks, kOutputs});
  const at::Tensor x_NI = timer.normal({kRows, kHidden}), y_NO = timer.normal({kRows, kOutputs});
  const at::Tensor ranks_NR = timer.normal({kRows, kRanks});
  const auto size = [](int64_t n) { return static_cast<int32_t>(n); };
  const auto grid = [](int x, int y) {
    return LaunchSize{static_cast<uint32_t>(x), static_cast<uint32_t>(y), 1};
  };
  return timer.time("LoRA of q, k and v, 16 rows of 2048", bytes, count, [&](int64_t i) {
    const cuda::LoraRanksArgs ranks{x_NI.data_ptr(), a_CRI[i].data_ptr(), ranks_NR.data_ptr(),
                                    size(kRows),     size(kRanks),        size(kHidden)};
    timer.kernels.launch(KernelId::lora_ranks_bf16,
                         grid(cuda::loraTiles(kRanks), cuda::loraTiles(kRows)), ranks,
                         timer.stream);
    const cuda::LoraAddArgs sums{
        .ranks_NR = ranks_NR.data_ptr(),
        .bT_RO = bT_CRO[i].data_ptr(),
        .y_NO = y_NO.data_ptr(),
        .adapters = {{0, size(kRank), 0, size(kQueries)},
                     {size(kRank), size(kRank), size(kQueries), size(kKeys)},
                     {size(2 * kRank), size(kRank), size(kQueries + kKeys), size(kKeys)}},
        .rows = size(kRows),
        .ranks = size(kRanks),
        .outputs = size(kOutputs)};
    timer.kernels.launch(KernelId::lora_add_bf16,
                         grid(cuda::loraAddBlocks(kOutputs), cuda::loraAddRowBlocks(kRows)), sums,
                         timer.stream);
  });
}

// A matrix of Qwen3-8B in nf4: straight from the codes for `rows` rows, made plain for 0.
KernelTime nf4(const Timer& timer, int64_t rows) {
  constexpr int64_t kSize = 4096;
  const auto matrix = [&] {
    Quantised made = allocateQuantised(Quantization::kNf4, {kSize}, kSize);
    made.codes.random_(0, 256);
    made.scales.random_(0, 256);
    made.groups.fill_(0.1);
    return made.to(timer.device);
  };
  const double plain = rows == 0 ? 2.0 * kSize * kSize : 0;
  const Quantised first = matrix();
  const double bytes = static_cast<double>(first.bytes()) + plain;
  std::vector<Quantised> matrices{first};
  while (std::ssize(matrices) < Timer::copies(bytes)) matrices.push_back(matrix());
  QuantisedScratch scratch;
  const at::Tensor tables = scratch.tables(first, at::kBFloat16);
  const at::Tensor w_OI = scratch.plain(first, at::kBFloat16);
  const at::Tensor x_NI = timer.normal({std::max<int64_t>(1, rows), kSize});
  const at::Tensor y_NO = at::empty_like(x_NI);
  const std::string what = rows == 0 ? "made plain" : std::to_string(rows) + " rows";
  return timer.time("nf4 of 4096 x 4096, " + what, bytes, std::ssize(matrices), [&](int64_t i) {
    const Quantised& q = matrices[static_cast<size_t>(i)];
    if (rows == 0) return startDequantise(timer.kernels, q, tables, w_OI);
    startQuantisedProduct(timer.kernels, q, tables, y_NO, x_NI, {});
  });
}

// At temperature 1 without filters, as in training.
KernelTime sampler(const Timer& timer) {
  const double bytes = 4.0 * kRows * kVocab;
  const int64_t count = Timer::copies(bytes);
  const at::Tensor logits_CMV = timer.normal({count, kRows, kVocab}, at::kFloat);
  std::vector<cuda::SamplerRow> rows;
  for (int64_t n = 0; n < kRows; ++n) {
    cuda::SamplerRow row = cuda::samplerRow(1, 0, 1, 0, 1);
    row.seed = 42;
    row.sample = static_cast<uint64_t>(n);
    row.logitsRow = static_cast<int32_t>(n);
    rows.push_back(row);
  }
  const auto bytesOf = [&](size_t count) {
    return at::empty({static_cast<int64_t>(count)}, timer.options(at::kByte));
  };
  const at::Tensor rows_N = bytesOf(rows.size() * sizeof(rows[0]));
  rows_N.copy_(at::from_blob(rows.data(), rows_N.sizes(), at::kByte));
  const at::Tensor blocks = bytesOf(size_t{kRows} * static_cast<size_t>(cuda::logitBlocks(kVocab)) *
                                    sizeof(cuda::LogitBlock));
  const at::Tensor tokens = bytesOf(size_t{kRows} * sizeof(cuda::SampledToken));
  return timer.time("sampler, 16 x 151936", bytes, count, [&](int64_t i) {
    const cuda::SamplerArgs args{
        .logits_MV = logits_CMV[i].data_ptr<float>(),
        .rows_N = reinterpret_cast<const cuda::SamplerRow*>(rows_N.data_ptr()),
        .seen_SW = nullptr,
        .blocks_NB = reinterpret_cast<cuda::LogitBlock*>(blocks.data_ptr()),
        .tokens_N = reinterpret_cast<cuda::SampledToken*>(tokens.data_ptr()),
        .stride = kVocab,
        .vocab = int32_t{kVocab}};
    timer.kernels.launch(KernelId::sampler_blocks,
                         {uint32_t{kRows}, static_cast<uint32_t>(cuda::samplerGrid(kVocab))}, args,
                         timer.stream);
    timer.kernels.launch(KernelId::sampler_draw, {uint32_t{kRows}}, args, timer.stream);
  });
}

}  // namespace

std::vector<KernelTime> kernelTimes(const Subject& subject) {
  const GpuKernels* kernels = gpuKernelsFor(subject.device);
  if (kernels == nullptr) return {};
  const Timer timer{*kernels, subject.device, currentGpuStream(subject.device)};
  return {attention(timer, 1024),
          attention(timer, 4096),
          norm(timer),
          swiglu(timer),
          lora(timer),
          nf4(timer, 1),
          nf4(timer, 16),
          nf4(timer, 32),
          nf4(timer, 0),
          sampler(timer)};
}

}  // namespace acoer::measure
