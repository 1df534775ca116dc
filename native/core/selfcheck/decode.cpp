// What decoding computes between its matrix products, by both kinds of DecodeOps on the same rows.
#include <ATen/ATen.h>

#include <cmath>

#include "generate/decode_ops.h"
#include "selfcheck/figures.h"

namespace acoer {
namespace {

// Both sides of the borders of a block of attention, in slots of another order, of one page for the
// reference and of several for our kernels; the slot that is left out stays as it is.
constexpr int64_t kLengths[] = {1, 255, 256, 257, 1000};
constexpr int64_t kSlotOf[] = {2, 0, 5, 1, 4};
constexpr int64_t kRows = std::size(kLengths), kSlots = 6;
constexpr int64_t kOfOneBlock = 3;  // rows that fit one
constexpr int8_t kNoCode = -128;    // not one of -127 to 127
constexpr int64_t kPages = 4, kPositions = kPages * cuda::kAttentionSplit;

// Of sequence n, if each has up to so many.
int64_t rowsOf(int64_t n, int64_t each) { return std::min(each, kLengths[n]); }

// A decoder's steps over a cache of one layer.
struct Side {
  const Model& model;
  std::unique_ptr<DecodeOps> ops;
  KvCache cache;
  int64_t pages;  // of a slot

  // `unwritten`: what positions hold that nobody wrote; in a cache of codes it is their scale.
  Side(const Model& model, std::unique_ptr<DecodeOps> ops, int64_t pages, double unwritten,
       KvCacheDtype kept = KvCacheDtype::kAuto)
      : model(model),
        ops(std::move(ops)),
        cache(model.spec, model.device, elementType(kept, model.dtype), /*tiledKeys=*/false),
        pages(pages) {
    cache.resize(pages * kSlots, kPositions / pages, 0, 0);
    const bool codes = cache.isQuantized();
    for (const at::Tensor& filled : {codes ? cache.keyScales(0) : cache.keys(0),
                                     codes ? cache.valueScales(0) : cache.values(0)}) {
      filled.fill_(unwritten);
    }
    if (!codes) return;
    cache.keys(0).fill_(kNoCode);
    cache.values(0).fill_(kNoCode);
  }
  // Row n, of kLengths, with the positions from `begin` to its end, in order.
  void addRows(DecodeRows& rows, int64_t n, int64_t begin, int64_t end) const {
    std::vector<int32_t> pagesOfRow;
    for (int64_t i = 0; i < pages; ++i) {
      pagesOfRow.push_back(static_cast<int32_t>(i * kSlots + kSlotOf[n]));
    }
    for (int64_t t = begin; t < end; ++t) rows.add(0, 0, pagesOfRow, t);
  }
  // [slots, J, positions, K], of scales [slots, J, positions]
  at::Tensor bySlot(const at::Tensor& cached) const {
    const int64_t J = cached.size(1);
    const at::Tensor bySlot = cached.view({pages, kSlots, J, kPositions / pages, -1})
                                  .permute({1, 2, 0, 3, 4})
                                  .reshape({kSlots, J, kPositions, -1});
    return cached.dim() == 3 ? bySlot.squeeze(3) : bySlot;
  }

  DecodePart part(int64_t rows) const {
    DecodePart part;
    part.cache = &cache;
    part.weights = &model.weights;
    part.end = rows;
    return part;
  }
  // Keys and values of all positions before the rows' last ones.
  void fill(const at::Tensor& qkv_NE) const {
    DecodeRows rows;
    rows.clear(pages);
    for (int64_t n = 0; n < kRows; ++n) addRows(rows, n, 0, kLengths[n] - 1);
    DecodePart part = this->part(rows.count());
    part.prefill = true;
    part.qkv_NE = qkv_NE.clone();
    ops->placeRows(part, rows);
    ops->attention(part, 0, /*writeOnly=*/true);
  }
  // The last `each` positions of every row, in bundles if those are several.
  void attend(const at::Tensor& qkv_NE, const at::Tensor& out_NHK, int64_t each = 1) const {
    DecodeRows rows;
    rows.clear(pages);
    std::vector<int32_t> bundles{0};
    for (int64_t n = 0; n < kRows; ++n) {
      addRows(rows, n, kLengths[n] - rowsOf(n, each), kLengths[n]);
      bundles.push_back(static_cast<int32_t>(rows.count()));
    }
    DecodePart part = this->part(rows.count());
    part.qkv_NE = qkv_NE.clone();
    part.heads_NHK = out_NHK;
    ops->placeRows(part, rows);
    if (each > 1) part.device.bundles_B1 = at::tensor(bundles, at::kInt).to(model.device);
    ops->attention(part, 0, /*writeOnly=*/false);
  }
};

int64_t rowsPerBundle(const ModelSpec& spec) {
  return cuda::rowsPerBundle(spec.numHeads / spec.numKvHeads);
}

// Room for the blocks of as many rows as bundles have.
void reserve(const Side& side) {
  side.ops->reserve(kRows * rowsPerBundle(side.model.spec), cuda::attentionSplits(kPositions));
}

// The model in fp32, in which tensor operations compute the reference.
Model wideModel(const Model& model) {
  Model wide = model;
  wide.dtype = at::kFloat;
  wide.kernels = nullptr;
  for (LayerWeights& layer : wide.weights.layers) {
    for (at::Tensor* weight : {&layer.qNorm_K, &layer.kNorm_K}) {
      if (weight->defined()) *weight = weight->to(at::kFloat);
    }
  }
  return wide;
}

void checkNorm(Figures& figures, const DecodeOps& ops, const DecodeOps& exact) {
  figures.begin(figures.typed("norm"));
  const int64_t D = figures.spec().hiddenSize;
  const at::Tensor weight_D = figures.normal({D}, 1, 0.1);
  for (const int64_t rows : {1, 17}) {
    const Guarded found({rows, D}, figures.dtype(), figures.device());
    DecodePart part, wide;
    part.x_ND = figures.normal({rows, D});
    part.normed_ND = found.tensor();
    ops.norm(part, weight_D);
    wide.x_ND = part.x_ND.to(at::kFloat);
    wide.normed_ND = at::empty_like(wide.x_ND);
    exact.norm(wide, weight_D.to(at::kFloat));
    figures.expectNear(found, wide.normed_ND);
  }
}

void checkActivation(Figures& figures, const DecodeOps& ops, const DecodeOps& exact) {
  figures.begin(figures.typed("swiglu"));
  const int64_t F = figures.spec().intermediateSize;
  for (const int64_t rows : {1, 17}) {
    const Guarded found({rows, F}, figures.dtype(), figures.device());
    DecodePart part, wide;
    part.gateUp_N2F = figures.normal({rows, 2 * F});
    part.act_NF = found.tensor();
    ops.activation(part);
    wide.gateUp_N2F = part.gateUp_N2F.to(at::kFloat);
    wide.act_NF = at::empty({rows, F}, wide.gateUp_N2F.options());
    exact.activation(wide);
    figures.expectNear(found, wide.act_NF);
  }
}

// Which numbers of a cache were written, [S, 1, L, 1].
at::Tensor writtenPlaces(at::Device device) {
  const at::Tensor written_SL = at::zeros({kSlots, kPositions}, at::dtype(at::kBool));
  for (int64_t n = 0; n < kRows; ++n) {
    written_SL.select(0, kSlotOf[n]).narrow(0, 0, kLengths[n]).fill_(true);
  }
  return written_SL.to(device).unsqueeze(1).unsqueeze(3);
}

void checkCache(Figures& figures, const Side& side, const Side& exact) {
  const at::Tensor written = writtenPlaces(figures.device());
  for (const bool keys : {true, false}) {
    const at::Tensor found = side.bySlot(keys ? side.cache.keys(0) : side.cache.values(0));
    const at::Tensor& wide = keys ? exact.cache.keys(0) : exact.cache.values(0);
    figures.expectNear(at::where(written, found, at::zeros({}, found.options())), wide);
    const bool others = at::where(written, at::zeros({}, found.options()).fill_(NAN), found)
                            .isnan()
                            .all()
                            .item<bool>();
    if (!others) figures.addFault("writes beside its rows of the cache");
  }
}

// What rotate left in a cache of codes against the codes, by libtorch's operations, of what it left
// in a cache of the model's type, to the bit.
void checkCodes(Figures& figures, const Side& side, const Side& plain) {
  const at::Tensor written = writtenPlaces(figures.device()), writtenScales = written.squeeze(3);
  for (const bool keys : {true, false}) {
    const at::Tensor codes = side.bySlot(keys ? side.cache.keys(0) : side.cache.values(0));
    const at::Tensor scales =
        side.bySlot(keys ? side.cache.keyScales(0) : side.cache.valueScales(0));
    const at::Tensor kept = plain.bySlot(keys ? plain.cache.keys(0) : plain.cache.values(0));
    const QuantizedHeads exact = quantized(kept);
    const auto same = [](const at::Tensor& where, const at::Tensor& a, const at::Tensor& b) {
      return at::equal(at::where(where, a, at::zeros_like(a)),
                       at::where(where, b, at::zeros_like(b)));
    };
    const bool right =
        same(written, codes, exact.codes) && same(writtenScales, scales, exact.scales);
    figures.expect(right ? 0 : 1, 0);
    const bool others = (written | codes.eq(kNoCode)).all().item<bool>() &&
                        (writtenScales | scales.isnan()).all().item<bool>();
    if (!others) figures.addFault("writes beside its rows of the cache");
  }
}

// Everything that was written becomes what a decoder in fp32 attends over.
void takeCodes(const Side& exact, const Side& side) {
  const at::Tensor written = writtenPlaces(exact.model.device).squeeze(3);
  const auto take = [&](const at::Tensor& to, const at::Tensor& from) {
    to.copy_(side.bySlot(from));
  };
  const auto takeScales = [&](const at::Tensor& to, const at::Tensor& from) {
    const at::Tensor scales = side.bySlot(from);
    to.copy_(at::where(written, scales, at::zeros_like(scales)));
  };
  take(exact.cache.keys(0), side.cache.keys(0));
  take(exact.cache.values(0), side.cache.values(0));
  takeScales(exact.cache.keyScales(0), side.cache.keyScales(0));
  takeScales(exact.cache.valueScales(0), side.cache.valueScales(0));
}

// The kernel that adds up the blocks of rows longer than one has no figure of its own where
// attention is wrong already.
void checkAttention(Figures& figures, const Side& side, const Side& exact) {
  const ModelSpec& spec = figures.spec();
  int64_t before = 0;
  for (const int64_t length : kLengths) before += length - 1;
  figures.begin(figures.typed("rotate"));
  const at::Tensor past_NE = figures.normal({before, spec.qkvRows()});
  side.fill(past_NE);
  exact.fill(past_NE.to(at::kFloat));
  const Guarded found({kRows, spec.qRows()}, figures.dtype(), figures.device());
  const at::Tensor qkv_NE = figures.normal({kRows, spec.qkvRows()});
  const at::Tensor wide = at::empty({kRows, spec.qRows()}, at::device(figures.device()));
  side.attend(qkv_NE, found.tensor());
  exact.attend(qkv_NE.to(at::kFloat), wide);
  checkCache(figures, side, exact);

  const int64_t group = spec.numHeads / spec.numKvHeads;
  const auto id = cuda::attentionKernel(figures.dtype() == at::kBFloat16, /*int8Cache=*/false,
                                        spec.headDim, group);
  figures.begin(kernelName(id));
  figures.expectUntouched(found);
  figures.expectNear(found.tensor().narrow(0, 0, kOfOneBlock), wide.narrow(0, 0, kOfOneBlock));
  if (!figures.all().back().fault.empty()) return;
  figures.begin(figures.typed("combine"));
  const int64_t rest = kRows - kOfOneBlock;
  figures.expectNear(found.tensor().narrow(0, kOfOneBlock, rest),
                     wide.narrow(0, kOfOneBlock, rest));
}

// The last positions of a sequence as one bundle, where a model has room for that.
void checkBundles(Figures& figures, const Side& side, const Side& exact) {
  const ModelSpec& spec = figures.spec();
  const int64_t each = rowsPerBundle(spec);
  if (each == 1) return;
  int64_t rows = 0;
  for (int64_t n = 0; n < kRows; ++n) rows += rowsOf(n, each);
  const bool codes = side.cache.isQuantized();
  figures.begin(
      kernelName(cuda::attentionKernel(figures.dtype() == at::kBFloat16, codes, spec.headDim,
                                       each * spec.numHeads / spec.numKvHeads)) +
      " over bundles");
  const Guarded found({rows, spec.qRows()}, figures.dtype(), figures.device());
  const at::Tensor qkv_NE = figures.normal({rows, spec.qkvRows()});
  const at::Tensor wide = at::empty({rows, spec.qRows()}, at::device(figures.device()));
  side.attend(qkv_NE, found.tensor(), each);
  if (codes) takeCodes(exact, side);
  exact.attend(qkv_NE.to(at::kFloat), wide, each);
  figures.expectNear(found, wide);
}

// checkAttention() over a cache in int8. `plain`: the kernels over one of the model's type.
void checkAttentionOverCodes(Figures& figures, const Side& side, const Side& plain,
                             const Side& exact) {
  const ModelSpec& spec = figures.spec();
  int64_t before = 0;
  for (const int64_t length : kLengths) before += length - 1;
  figures.begin(kernelName(cuda::KernelId::rotate_bf16_int8));
  const at::Tensor past_NE = figures.normal({before, spec.qkvRows()});
  const Guarded found({kRows, spec.qRows()}, figures.dtype(), figures.device());
  const at::Tensor qkv_NE = figures.normal({kRows, spec.qkvRows()});
  side.fill(past_NE);
  plain.fill(past_NE);
  side.attend(qkv_NE, found.tensor());
  plain.attend(qkv_NE, at::empty_like(found.tensor()));
  checkCodes(figures, side, plain);

  const at::Tensor wide = at::empty({kRows, spec.qRows()}, at::device(figures.device()));
  takeCodes(exact, side);
  exact.attend(qkv_NE.to(at::kFloat), wide);
  const int64_t group = spec.numHeads / spec.numKvHeads;
  figures.begin(
      kernelName(cuda::attentionKernel(/*bf16=*/true, /*int8Cache=*/true, spec.headDim, group)));
  figures.expectNear(found, wide);
  checkBundles(figures, side, exact);
}

}  // namespace

void checkInt8Cache(Figures& figures) {
  ModelSpec spec = figures.spec();
  spec.numLayers = 1;
  const Model model = checkedModel(figures, spec, /*matrices=*/false), wide = wideModel(model);
  const auto onGpu = [&] { return gpuDecodeOps(model, kPositions, figures.kernels()); };
  const Side side(model, onGpu(), kPages, NAN, KvCacheDtype::kInt8);
  const Side plain(model, onGpu(), kPages, 0);
  const Side exact(wide, tensorDecodeOps(wide, kPositions), 1, 0, KvCacheDtype::kInt8);
  reserve(side);
  reserve(plain);
  checkAttentionOverCodes(figures, side, plain, exact);
}

void checkDecode(Figures& figures) {
  ModelSpec spec = figures.spec();
  spec.numLayers = 1;
  const Model model = checkedModel(figures, spec, /*matrices=*/false), wide = wideModel(model);
  Side side(model, gpuDecodeOps(model, kPositions, figures.kernels()), kPages, NAN);
  const Side exact(wide, tensorDecodeOps(wide, kPositions), 1, 0);
  reserve(side);
  checkNorm(figures, *side.ops, *exact.ops);
  checkActivation(figures, *side.ops, *exact.ops);
  checkAttention(figures, side, exact);
  checkBundles(figures, side, exact);
}

}  // namespace acoer
