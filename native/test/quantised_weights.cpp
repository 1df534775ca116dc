// Weights in 4 and 8 bits: as bitsandbytes quantises and dequantises them, and in models.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>

#include <cmath>
#include <cstdio>
#include <string>

#include "check.h"
#include "device_models.h"
#include "generate_support.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/sets.h"
#include "matrix/matrix.h"
#include "matrix/quantised.h"
#include "model/weights.h"
#include "train_helpers.h"

namespace acoer::check {
namespace {

const Cancel kNever;
constexpr Quantization kBoth[] = {Quantization::kNf4, Quantization::kInt8};

at::Tensor normal(at::IntArrayRef shape, uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed));
}

Quantised quantised(Quantization kind, const std::vector<at::Tensor>& parts) {
  std::vector<int64_t> rows;
  for (const at::Tensor& part : parts) rows.push_back(part.size(0));
  Quantised q = allocateQuantised(kind, rows, parts[0].size(1));
  for (size_t i = 0; i < parts.size(); ++i) quantisePart(q, i, parts[i]);
  return q;
}

at::Tensor bitsOf(const at::Tensor& t) {
  return t.scalar_type() == at::kBFloat16 ? t.view(at::kShort)
         : t.scalar_type() == at::kFloat  ? t.view(at::kInt)
                                          : t;
}

#ifdef ACOER_FIXTURES
// A file of scripts/fixtures/quantised.py.
class Cases {
 public:
  Cases() : file_(std::fopen(ACOER_FIXTURES "/quantised/matrices.bin", "rb")) {
    ACOER_CHECK(file_ != nullptr);
  }
  ~Cases() { std::fclose(file_); }
  Cases(const Cases&) = delete;
  Cases& operator=(const Cases&) = delete;

  bool next(int64_t& number) { return std::fread(&number, sizeof(number), 1, file_) == 1; }
  int64_t number() {
    int64_t value = 0;
    ACOER_CHECK(next(value));
    return value;
  }
  at::Tensor tensor(at::IntArrayRef shape, at::ScalarType type) {
    at::Tensor t = at::empty(shape, type);
    ACOER_CHECK(std::fread(t.data_ptr(), 1, t.nbytes(), file_) == t.nbytes());
    return t;
  }

 private:
  std::FILE* file_;
};

void expectBits(const at::Tensor& got, const at::Tensor& want) {
  ACOER_CHECK(got.scalar_type() == want.scalar_type());
  ACOER_CHECK(at::equal(bitsOf(got), bitsOf(want)));
}

// By every set of kernels, and by tensor operations.
void expectDequantised(const Quantised& q, const at::Tensor& fp32_OI, const at::Tensor& bf16_OI) {
  const kernels::QuantisedWeight weight = weightOf(q);
  const int64_t outputs = q.outputs(), inputs = q.inputs();
  for (const kernels::KernelSet* set : kernels::usableSets()) {
    const at::Tensor wide = at::empty_like(fp32_OI), narrow = at::empty_like(bf16_OI);
    for (int64_t row = 0; row < outputs; ++row) {
      set->dequantise.toFloat(weight, row, 0, inputs, wide.data_ptr<float>() + row * inputs);
      set->dequantise.toBf16(weight, row, 0, inputs,
                             writePointer<kernels::Bf16>(narrow) + row * inputs);
    }
    expectBits(wide, fp32_OI);
    expectBits(narrow, bf16_OI);
  }
  for (const int64_t first : {int64_t{0}, outputs / 2}) {
    const at::Tensor wide = dequantisedByTensorOperations(q, first, outputs - first);
    ACOER_CHECK(at::equal(wide, fp32_OI.narrow(0, first, outputs - first)));
    expectBits(dequantisedRows(q, first, outputs - first, at::kBFloat16),
               bf16_OI.narrow(0, first, outputs - first));
  }
}

ACOER_TEST(quantised_as_bitsandbytes_does_it) {
  Cases file;
  int64_t found = 0;
  for (int64_t count = 0; file.next(count); ++found) {
    std::vector<int64_t> rows;
    int64_t outputs = 0, groups = 0;
    for (int64_t p = 0; p < count; ++p) outputs += rows.emplace_back(file.number());
    const int64_t inputs = file.number(), blocks = inputs / kNf4Block;
    for (const int64_t part : rows) groups += (part * blocks + kNf4Group - 1) / kNf4Group;
    std::vector<at::Tensor> parts =
        file.tensor({outputs, inputs}, at::kFloat).split_with_sizes(rows);

    const Quantised four = quantised(Quantization::kNf4, parts);
    expectBits(four.codes, file.tensor({outputs, inputs / 2}, at::kByte));
    expectBits(four.scales, file.tensor({outputs, blocks}, at::kByte));
    expectBits(four.groups, file.tensor({groups}, at::kFloat));
    const at::Tensor offsets = file.tensor({count}, at::kFloat);
    for (int64_t p = 0; p < count; ++p) {
      const float offset = four.parts[static_cast<size_t>(p)].offset;
      ACOER_CHECK(offset == offsets[p].item<float>());
    }
    const at::Tensor fourWide = file.tensor({outputs, inputs}, at::kFloat);
    expectDequantised(four, fourWide, file.tensor({outputs, inputs}, at::kBFloat16));
    ACOER_CHECK(four.bytes() == outputs * inputs / 2 + outputs * blocks + 4 * groups + 4 * count);

    const Quantised eight = quantised(Quantization::kInt8, parts);
    expectBits(eight.codes, file.tensor({outputs, inputs}, at::kChar));
    expectBits(eight.scales, file.tensor({outputs}, at::kFloat));
    const at::Tensor eightWide = file.tensor({outputs, inputs}, at::kFloat);
    expectDequantised(eight, eightWide, file.tensor({outputs, inputs}, at::kBFloat16));
    ACOER_CHECK(eight.bytes() == outputs * (inputs + 4));
  }
  ACOER_CHECK(found == 4);
}
#endif

// How many threads divide the work is no part of the result.
ACOER_TEST(quantised_alike_by_any_number_of_threads) {
  const at::Tensor w_OI = normal({700, 4096}, 1);
  const int threads = at::get_num_threads();
  const Quantised many = quantised(Quantization::kNf4, {w_OI});
  ACOER_CHECK(at::get_num_threads() == threads);
  at::set_num_threads(1);
  const Quantised one = quantised(Quantization::kNf4, {w_OI});
  at::set_num_threads(threads);
  ACOER_CHECK(at::equal(many.codes, one.codes) && at::equal(many.scales, one.scales));
  ACOER_CHECK(at::equal(many.groups, one.groups) && many.parts[0].offset == one.parts[0].offset);
}

std::shared_ptr<Model> loaded(const ModelSpec& spec, const TensorTable& table, at::ScalarType dtype,
                              Quantization quantization) {
  return loadModel({.spec = spec, .weights = table, .dtype = dtype, .quantization = quantization},
                   kNever);
}

// The model over the dequantised weights, as it lies in memory without quantisation.
std::shared_ptr<Model> dequantised(const Model& model) {
  auto plain = std::make_shared<Model>(model);
  plain->quantization = Quantization::kNone;
  changeWeights(
      plain->spec, plain->weights,
      [](const Matrix& w) { return w.isQuantised() ? Matrix::ofModel(w.values(), at::kCPU) : w; },
      [](const at::Tensor& vector) { return vector; });
  return plain;
}

template <class Visit>
void forEachCase(const Visit& visit) {
  for (const ModelSpec& spec : {smallSpec(), qwen2Spec()}) {
    const auto model = randomModel(spec, at::kCPU, at::kFloat, 3);
    const TensorFile file(namedWeights(spec, model->weights));
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      for (const Quantization quantization : kBoth) {
        visit(loaded(spec, file.table, dtype, quantization));
      }
    }
  }
}

ACOER_TEST(quantised_models_count_their_bytes) {
  const ModelSpec spec = smallSpec();
  const auto model = randomModel(spec, at::kCPU, at::kFloat, 3);
  const TensorFile file(namedWeights(spec, model->weights));
  int64_t linears = 0, rows = 0;
  for (const LayerWeights& layer : model->weights.layers) {
    for (const Matrix* w : {&layer.qkv_ED, &layer.o_DHK, &layer.gateUp_2FD, &layer.down_DF}) {
      linears += w->outputs() * w->inputs();
      rows += w->outputs();
    }
  }
  const auto plain = loaded(spec, file.table, at::kBFloat16, Quantization::kNone);
  const auto eight = loaded(spec, file.table, at::kBFloat16, Quantization::kInt8);
  const auto four = loaded(spec, file.table, at::kBFloat16, Quantization::kNf4);
  ACOER_CHECK(plain->bytes == 2 * plain->parameterCount);
  ACOER_CHECK(eight->bytes == plain->bytes - linears + 4 * rows);
  ACOER_CHECK_LE(four->bytes, plain->bytes - 2 * linears + linears * 4.15 / 8);
  for (const auto& one : {eight, four}) {
    ACOER_CHECK(one->parameterCount == plain->parameterCount);
    ACOER_CHECK(one->weights.head_VD.isSame(one->weights.embed_VD));
    ACOER_CHECK(!one->weights.embed_VD.isQuantised() && one->weights.layers[2].o_DHK.isQuantised());
  }
}

// The products are those of the dequantised weights: bit for bit, in training and in decoding.
ACOER_TEST(quantised_models_compute_with_dequantised_weights) {
  forEachCase([](const std::shared_ptr<Model>& model) {
    const auto plain = dequantised(*model);
    const PackedSequences batch = randomSequences(model->spec, {3, 9, 40}, {20, 1, 33}, 5);
    const std::vector<double> slopes = randomSlopes(batch, 6);
    const ScoreResult want = score(*plain, nullptr, batch, 1, kNever);
    ACOER_CHECK(score(*model, nullptr, batch, 1, kNever).logprobs == want.logprobs);
    const auto wanted = randomAdapter(plain, 4), got = randomAdapter(model, 4);
    const ScoreResult adapted = addGradients(*wanted, batch, slopes);
    ACOER_CHECK(addGradients(*got, batch, slopes).logprobs == adapted.logprobs);
    ACOER_CHECK_LE(largestGap(gradients(*got), gradients(*wanted)), 0);
    const auto ask = [&](const Model& one, const Policy* policy) {
      return collect(one, {makeRequest(randomIds(one.spec, 12, 7), 3, 24, policy)});
    };
    for (const bool adapter : {false, true}) {
      const auto a = ask(*plain, adapter ? wanted.get() : nullptr);
      const auto b = ask(*model, adapter ? got.get() : nullptr);
      for (const auto& [key, sequence] : a.sequences) checkSame(sequence, b.sequences.at(key), 0);
    }
  });
}

// As without quantisation: fp32 but for rounding, and bf16 within what its three digits allow.
ACOER_TEST(quantised_models_sample_what_they_train) {
  forEachCase([](const std::shared_ptr<Model>& model) {
    const auto adapter = strongAdapter(model, 5);
    const std::vector<GenerateRequest> requests{
        makeRequest(randomIds(model->spec, 12, 7), 4, 40, adapter.get()),
        makeRequest(randomIds(model->spec, 5, 8), 2, 40)};
    const ScoreGap gap = gapToScore(*model, requests, collect(*model, requests));
    ACOER_CHECK_LE(gap.meanLogprob, model->dtype == at::kFloat ? 1e-5 : 0.03);
  });
}

ACOER_TEST(quantised_models_refuse) {
  const auto model = randomModel(smallSpec(), at::kCPU, at::kFloat, 3);
  NamedTensors named = namedWeights(model->spec, model->weights);
  {
    const TensorFile file(named);
    const auto four = loaded(model->spec, file.table, at::kFloat, Quantization::kNf4);
    PolicyOptions full;
    full.kind = PolicyOptions::Kind::kFull;
    ACOER_CHECK_THROWS(createPolicy(four, full), ErrorCode::kBadArgument,
                       "quantised cannot be trained");
    ACOER_CHECK_THROWS(four->weights.layers[0].down_DF.plain(), ErrorCode::kInternal, "quantised");
  }
  for (auto& [name, tensor] : named) {
    if (name != "model.layers.1.mlp.up_proj.weight") continue;
    tensor = tensor.clone();
    tensor[3][5] = NAN;
  }
  const TensorFile file(named);
  for (const Quantization quantization : kBoth) {
    ACOER_CHECK_THROWS(loaded(model->spec, file.table, at::kFloat, quantization),
                       ErrorCode::kBadFile, "layers.1.mlp.up_proj.weight has numbers");
  }
  const auto odd = randomModel(tinySpec(), at::kCPU, at::kFloat, 3);
  const TensorFile tiny(namedWeights(odd->spec, odd->weights));
  ACOER_CHECK_THROWS(loaded(odd->spec, tiny.table, at::kFloat, Quantization::kNf4),
                     ErrorCode::kBadArgument, "rows of 96, which is no multiple of 64");
  ACOER_CHECK(loaded(odd->spec, tiny.table, at::kFloat, Quantization::kInt8)->parameterCount > 0);
}

}  // namespace
}  // namespace acoer::check
