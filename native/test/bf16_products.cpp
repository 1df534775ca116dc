// Products with bf16 panels in every set of kernels that this machine has, and in AMX tiles by an
// emulation, against fp64.
#include "kernels/cpu/bf16_products.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "check.h"
#include "generate_support.h"
#include "kernels/cpu/sets.h"
#include "matrix/panels.h"
#include "matrix/quantised.h"
#include "model/weights.h"
#include "train_helpers.h"

namespace acoer::kernels {
namespace {

constexpr int kVectorBytes = 16;
// clang-format off: the order matters
#include "kernels/cpu/vector_body.h"
#include "kernels/cpu/quantised_body.h"
#include "kernels/cpu/bf16_products_body.h"
#include "kernels/cpu/bf16_products_amx_body.h"
// clang-format on

// What Intel's manual says of the tiles: 8 of 16 rows of 64 bytes.
struct Emulated {
  struct Tile {
    unsigned char bytes[16][64];
  };
  static inline Tile tiles[8];
  static inline bool configured = false;
  struct Session {
    Session() { configured = true; }
    ~Session() { configured = false; }
  };
  template <int kTile>
  static void clear() {
    tiles[kTile] = {};
  }
  template <int kTile>
  static void load(const void* rows, int64_t stride) {
    for (int r = 0; r < 16; ++r) {
      std::memcpy(tiles[kTile].bytes[r], static_cast<const char*>(rows) + r * stride, 64);
    }
  }
  template <int kTile>
  static void store(void* rows, int64_t stride) {
    for (int r = 0; r < 16; ++r) {
      std::memcpy(static_cast<char*>(rows) + r * stride, tiles[kTile].bytes[r], 64);
    }
  }
  template <int kSums, int kX, int kW>
  static void multiply() {
    ACOER_CHECK(configured);
    for (int m = 0; m < 16; ++m) {
      for (int k = 0; k < 16; ++k) {
        for (int n = 0; n < 16; ++n) {
          float sum;
          Bf16 x[2], w[2];
          std::memcpy(&sum, tiles[kSums].bytes[m] + 4 * n, 4);
          std::memcpy(x, tiles[kX].bytes[m] + 4 * k, 4);
          std::memcpy(w, tiles[kW].bytes[k] + 4 * n, 4);
          sum += widen(x[0]) * widen(w[0]);
          sum += widen(x[1]) * widen(w[1]);
          std::memcpy(tiles[kSums].bytes[m] + 4 * n, &sum, 4);
        }
      }
    }
  }
};

}  // namespace
}  // namespace acoer::kernels

namespace acoer::check {
namespace {

using kernels::Bf16;
using kernels::ProductArgs;
using kernels::ProductKernels;

struct Named {
  std::string name;
  ProductKernels products;
};

std::vector<Named> everySet() {
  std::vector<Named> all;
  for (const kernels::KernelSet* set : kernels::usableSets()) {
    all.push_back({set->name, set->products});
  }
  all.push_back({"emulated amx", kernels::productTable<kernels::AmxTile<kernels::Emulated>>()});
  return all;
}

at::Tensor normal(at::IntArrayRef shape, uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed)).to(at::kBFloat16);
}

Bf16* data(const at::Tensor& t) { return static_cast<Bf16*>(t.data_ptr()); }

// y (+)= x W^T, or x W of panels or of plain rows, by one set.
enum class Kind { kForward, kBackward, kPlain };

void run(const ProductKernels& products, Kind kind, const at::Tensor& x, const at::Tensor& w_OI,
         const at::Tensor& y, bool add, const kernels::QuantisedWeight* quantised = nullptr) {
  static const auto scratch = std::make_unique<kernels::ProductScratch>();
  const bool plain = kind == Kind::kPlain;
  const at::Tensor w = plain ? w_OI : panelsOf(w_OI);
  const ProductArgs args{.x = data(x),
                         .ldx = x.stride(0),
                         .w = data(w),
                         .ldw = w.stride(0),
                         .quantised = quantised,
                         .y = y.data_ptr(),
                         .ldy = y.stride(0),
                         .wide = y.scalar_type() == at::kFloat,
                         .add = add,
                         .rows = x.size(0),
                         .outputs = w_OI.size(0),
                         .inputs = w_OI.size(1)};
  const int64_t columns = (y.size(1) + kernels::kPanelRows - 1) / kernels::kPanelRows;
  const bool forward = kind == Kind::kForward;
  const auto product = quantised
                           ? (forward ? products.quantisedForward : products.quantisedBackward)
                       : forward ? products.forward
                       : plain   ? products.plain
                                 : products.backward;
  // In two parts, as two threads would.
  product(args, 0, columns / 3, scratch.get());
  product(args, columns / 3, columns, scratch.get());
}

double worst(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

struct Size {
  int64_t rows, outputs, inputs;
};
// One row and many, below, at and above the sizes of tiles, panels and blocks.
constexpr Size kSizes[] = {{1, 16, 2},      {1, 5, 3},        {3, 272, 33},   {16, 48, 1040},
                           {17, 33, 515},   {33, 528, 64},    {7, 1040, 16},  {658, 40, 18},
                           {12, 16, 513},   {25, 256, 512},   {32, 300, 100}, {2, 31, 1},
                           {97, 300, 1040}, {1301, 272, 1030}};

void checkSize(const Named& set, const Size& size, Kind kind) {
  const bool backward = kind != Kind::kForward;
  // Its rows are parts of longer ones, too, where it does not lie in panels.
  const at::Tensor w_OI = normal({size.outputs, size.inputs + 5}, 1).narrow(1, 2, size.inputs);
  const int64_t depth = backward ? size.outputs : size.inputs;
  const int64_t columns = backward ? size.inputs : size.outputs;
  // Rows are parts of longer rows whose rest must be neither read nor written.
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const at::Tensor whole = at::full({size.rows, depth + 3}, nan, at::kBFloat16);
  const at::Tensor x = whole.narrow(1, 0, depth).copy_(normal({size.rows, depth}, 2));
  const at::Tensor w = w_OI.to(at::kDouble);
  const at::Tensor product = x.to(at::kDouble).mm(backward ? w : w.t());
  const double bound = 2e-6 * std::sqrt(static_cast<double>(depth)) + 1e-7;
  for (const bool wide : {true, false}) {
    const auto type = wide ? at::kFloat : at::kBFloat16;
    const at::Tensor before = normal({size.rows, columns + 2}, 3).to(type), all = before.clone();
    const at::Tensor y = all.narrow(1, 0, columns);
    run(set.products, kind, x, w_OI, y, true);
    const at::Tensor want = product + before.narrow(1, 0, columns).to(at::kDouble);
    // Half a unit in the last of 8 binary digits, for numbers of this size.
    const double rounding = wide ? 0 : want.abs().max().item<double>() / 256;
    ACOER_CHECK_LE(worst(y, want), bound * want.abs().max().item<double>() + rounding);
    ACOER_CHECK(at::equal(all.narrow(1, columns, 2), before.narrow(1, columns, 2)));
    const at::Tensor alone = at::empty({1, columns}, type), together = at::empty_like(y);
    run(set.products, kind, x, w_OI, together, false);
    run(set.products, kind, x.narrow(0, size.rows - 1, 1), w_OI, alone, false);
    ACOER_CHECK(at::equal(alone[0], together[size.rows - 1]));
  }
}

ACOER_TEST(bf16_products) {
  for (const Named& set : everySet()) {
    for (const Size& size : kSizes) {
      for (const Kind kind : {Kind::kForward, Kind::kBackward, Kind::kPlain}) {
        checkSize(set, size, kind);
      }
    }
  }
}

// A quantised matrix is multiplied as the panels of its dequantised weights are, bit for bit.
ACOER_TEST(bf16_products_of_quantised_matrices) {
  for (const Size& size :
       {Size{1, 16, 64}, {3, 272, 128}, {17, 33, 576}, {97, 528, 1088}, {5, 40, 35}}) {
    for (const Quantization kind : {Quantization::kNf4, Quantization::kInt8}) {
      if (kind == Quantization::kNf4 && size.inputs % kNf4Block != 0) continue;
      Quantised q =
          allocateQuantised(kind, {size.outputs / 2, size.outputs - size.outputs / 2}, size.inputs);
      const at::Tensor w_OI = normal({size.outputs, size.inputs}, 1);
      quantisePart(q, 0, w_OI.narrow(0, 0, size.outputs / 2));
      quantisePart(q, 1, w_OI.narrow(0, size.outputs / 2, size.outputs - size.outputs / 2));
      const at::Tensor values_OI = dequantisedRows(q, 0, size.outputs, at::kBFloat16);
      const kernels::QuantisedWeight weight = weightOf(q);
      for (const Named& set : everySet()) {
        for (const Kind one : {Kind::kForward, Kind::kBackward}) {
          const bool forward = one == Kind::kForward;
          const at::Tensor x = normal({size.rows, forward ? size.inputs : size.outputs}, 2);
          const int64_t columns = forward ? size.outputs : size.inputs;
          const at::Tensor want = at::zeros({size.rows, columns}, at::kFloat), got = want.clone();
          run(set.products, one, x, values_OI, want, true);
          run(set.products, one, x, values_OI, got, true, &weight);
          ACOER_CHECK(at::equal(got, want));
        }
      }
    }
  }
}

ACOER_TEST(bf16_panels_hold_the_matrix) {
  for (const auto& [outputs, inputs] :
       {std::pair<int64_t, int64_t>{16, 16}, {272, 1040}, {512, 528}}) {
    const at::Tensor w_OI = normal({outputs, inputs}, 4);
    ACOER_CHECK(fitsPanels(w_OI));
    const Matrix plain(w_OI), panels = Matrix::ofModel(w_OI.clone(), at::kCPU);
    ACOER_CHECK(panels.form() == Matrix::Form::kPanels && panels.outputs() == outputs &&
                panels.inputs() == inputs);
    const at::Tensor all = panels.rows(at::arange(outputs));
    ACOER_CHECK(at::equal(all, w_OI));
    const at::Tensor x = normal({5, inputs}, 5), dy = normal({5, outputs}, 6);
    ACOER_CHECK_LE(worst(panels.forward(x, true), plain.forward(x, true)), 1e-3);
    const at::Tensor dx = dy.to(at::kDouble).mm(w_OI.to(at::kDouble));
    ACOER_CHECK_LE(worst(panels.backward(dy), dx), dx.abs().max().item<double>() / 256);
  }
  for (const auto& [outputs, inputs] : {std::pair<int64_t, int64_t>{8, 16}, {16, 24}}) {
    ACOER_CHECK(!fitsPanels(normal({outputs, inputs}, 4)));
  }
}

// As a model's files are read.
std::shared_ptr<Model> reloaded(const Model& model) {
  const TensorFile file(namedWeights(model.spec, model.weights));
  return loadModel({.spec = model.spec, .weights = file.table, .dtype = at::kBFloat16}, {});
}

double meanGap(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  return sum / static_cast<double>(a.size());
}

// Only the order of sums differs, and where bf16 rounds: not more than twice what bf16 itself
// loses.
ACOER_TEST(bf16_panels_train_as_plain_weights_do) {
  const auto plain = randomModel(smallSpec(), at::kCPU, at::kBFloat16, 3);
  const auto exact = randomModel(smallSpec(), at::kCPU, at::kDouble, 3);
  const auto panels = reloaded(*plain);
  ACOER_CHECK(panels->weights.layers[0].gateUp_2FD.form() == Matrix::Form::kPanels);
  ACOER_CHECK(panels->weights.head_VD.isSame(panels->weights.embed_VD));
  const PackedSequences batch = randomSequences(smallSpec(), {3, 9, 4}, {20, 1, 33}, 5);
  const std::vector<double> slopes = randomSlopes(batch, 6);
  const auto wanted = randomAdapter(exact, 4), before = randomAdapter(plain, 4),
             now = randomAdapter(panels, 4);
  const ScoreResult want = addGradients(*wanted, batch, slopes);
  const double lost = meanGap(addGradients(*before, batch, slopes).logprobs, want.logprobs);
  ACOER_CHECK_LE(meanGap(addGradients(*now, batch, slopes).logprobs, want.logprobs), 2 * lost);
  ACOER_CHECK_LE(largestGap(gradients(*now), gradients(*wanted)),
                 2 * largestGap(gradients(*before), gradients(*wanted)));
}

// The gradients of an adapter are products of two activations.
ACOER_TEST(bf16_weight_gradients) {
  for (const auto& [tokens, outputs, inputs] :
       {std::array<int64_t, 3>{1, 16, 40}, {37, 48, 300}, {641, 300, 16}, {1283, 33, 35}}) {
    // A column block of something wider, as q, k and v are.
    const at::Tensor dy = normal({tokens, outputs + 9}, 1).narrow(1, 4, outputs);
    const at::Tensor x = normal({tokens, inputs}, 2);
    const at::Tensor want = dy.to(at::kDouble).t().mm(x.to(at::kDouble));
    const at::Tensor got = weightGradient(dy, x);
    ACOER_CHECK(got.scalar_type() == at::kFloat && got.sizes() == want.sizes());
    ACOER_CHECK_LE(worst(got, want), 1e-6 * want.abs().max().item<double>());
  }
}

// Rows that sequences have in common are computed once: the same log-probs, and gradients that
// differ by roundings of bf16.
ACOER_TEST(bf16_shared_prompts_do_not_change_the_step) {
  const auto model = reloaded(*randomModel(smallSpec(), at::kCPU, at::kBFloat16, 3));
  PackedSequences batch = randomSequences(smallSpec(), {40, 40, 40, 3}, {30, 1, 45, 9}, 5);
  for (const size_t b : {1U, 2U}) {
    std::copy_n(batch.ids.begin(), 40, batch.ids.begin() + batch.offsets[b]);
  }
  const std::vector<double> slopes = randomSlopes(batch, 6);
  const auto together = randomAdapter(model, 4), apart = randomAdapter(model, 4);
  const ScoreResult all = addGradients(*together, batch, slopes);
  std::vector<double> logprobs;
  int64_t first = 0;
  for (size_t b = 0; b < batch.promptLengths.size(); ++b) {
    const PackedSequences one = batch.slice(b, b + 1);
    const auto from = slopes.begin() + first;
    first += one.completionTokens();
    const ScoreResult score = addGradients(*apart, one, {from, slopes.begin() + first});
    logprobs.insert(logprobs.end(), score.logprobs.begin(), score.logprobs.end());
  }
  ACOER_CHECK(all.logprobs == logprobs);
  const auto want = gradients(*apart);
  double largest = 0;
  for (const auto& [name, g] : want) {
    largest = std::max(largest, g.abs().max().item<double>());
  }
  ACOER_CHECK_LE(largestGap(gradients(*together), want), largest / 64);
}

ACOER_TEST(bf16_panels_do_not_show_the_batch) {
  const auto model = reloaded(*randomModel(tinySpec(), at::kCPU, at::kBFloat16, 21));
  const auto adapter = strongAdapter(model, 22);
  std::vector<GenerateRequest> requests;
  for (int64_t length : {1, 5, 40, 150}) {
    requests.push_back(makeRequest(randomIds(model->spec, length, 7), 3, 12,
                                   length % 2 == 0 ? adapter.get() : nullptr));
  }
  const Generated together = collect(*model, requests);
  for (size_t r = 0; r < requests.size(); ++r) {
    for (int64_t s = 0; s < 3; ++s) {
      GenerateRequest single = requests[r];
      single.firstSample += s;
      single.numSamples = 1;
      const GeneratedSequence alone = collect(*model, {single}).sequences.at({0, 0});
      const GeneratedSequence& other = together.sequences.at({static_cast<int64_t>(r), s});
      ACOER_CHECK(alone.ids == other.ids && alone.logprobs == other.logprobs);
    }
  }
}

}  // namespace
}  // namespace acoer::check
