// Tensors in files: what is read equals what is stored, and damaged or foreign tables are rejected
// by name.
#include <ATen/ATen.h>

#include "check.h"
#include "device_models.h"
#include "train_helpers.h"

namespace acoer::check {
namespace {

const Cancel kNever;

ACOER_TEST(train_tensors_are_converted_and_checked) {
  const at::Tensor half = at::arange(6, at::kFloat).view({2, 3}).to(at::kBFloat16);
  const at::Tensor wide = at::rand({3}, at::kDouble), empty = at::empty({0, 4}, at::kFloat);
  const TensorFile file({{"half", half}, {"wide", wide}, {"empty", empty}});
  const TensorReader reader(file.table);
  const at::Tensor wideHalf = at::empty({2, 3}, at::kDouble), again = at::empty({3}, at::kDouble);
  const at::Tensor rows = at::zeros({2, 4}, at::kFloat), part = rows.narrow(1, 1, 3);
  reader.read("half", wideHalf, kNever);
  reader.read("wide", again, kNever);
  reader.read("half", part, kNever);
  reader.read("empty", at::empty({0, 4}, at::kFloat), kNever);
  ACOER_CHECK(at::equal(wideHalf, half.to(at::kDouble)) && at::equal(again, wide));
  ACOER_CHECK(at::equal(part, half.to(at::kFloat)) && rows.select(1, 0).sum().item<float>() == 0);
  ACOER_CHECK_THROWS(reader.read("half", again, kNever), ErrorCode::kBadShape, "tensor half");
  ACOER_CHECK_THROWS(reader.read("none", again, kNever), ErrorCode::kBadFile,
                     "lacks the tensor none");
  Cancel cancelled;
  cancelled.request();
  ACOER_CHECK_THROWS(reader.read("wide", again, cancelled), ErrorCode::kCancelled, "cancelled");
}

ACOER_TEST(train_tables_that_lie_are_refused) {
  const TensorFile file({{"a", at::rand({2, 3})}, {"b", at::rand({4})}});
  const at::Tensor out = at::empty({2, 3});
  const auto refuse = [&](const std::function<void(TensorTable&)>& change, ErrorCode code,
                          const std::string& part) {
    TensorTable table = file.table;
    change(table);
    ACOER_CHECK_THROWS(TensorReader(table).read("a", out, kNever), code, part);
  };
  const auto bad = ErrorCode::kBadFile;
  refuse([](auto& t) { t.tensors[1].end = 41; }, bad, "would span bytes 24 to 41 of 40");
  refuse([](auto& t) { t.tensors[0].begin = -4; }, bad, "would span");
  refuse([](auto& t) { t.tensors[0].end = -4; }, bad, "would span");
  refuse([](auto& t) { t.tensors[1].name = "a"; }, bad, "tensor a a second time");
  refuse([](auto& t) { t.tensors[0].dtype = "F8_E4M3"; }, bad, "has type F8_E4M3");
  refuse([](auto& t) { t.tensors[0].dtype = "I64"; }, bad, "has type I64");
  refuse([](auto& t) { t.tensors[0].dtype = "F64"; }, ErrorCode::kBadShape, "takes 24 bytes");
  refuse([](auto& t) { t.tensors[0].shape = {3, 2}; }, ErrorCode::kBadShape, "shape [3, 2]");
  refuse([](auto& t) { t.tensors[0].file = 1; }, ErrorCode::kBadArgument, "file index 1");
  refuse([](auto& t) { t.files.clear(); }, ErrorCode::kBadArgument, "needs a file");
  refuse([](auto& t) { t.files[0].descriptor = -1; }, bad, "cannot read tensors");
}

ModelSpec untiedSpec() {
  ModelSpec spec = smallSpec();
  spec.tieWordEmbeddings = false;
  return spec;
}

std::shared_ptr<Model> load(const ModelSpec& spec, const TensorTable& table) {
  return loadModel({.spec = spec, .weights = table}, kNever);
}

ACOER_TEST(train_model_round_trip) {
  for (const ModelSpec& spec : {smallSpec(), untiedSpec()}) {
    const auto model = randomModel(spec, at::kCPU, at::kFloat, 3);
    const TensorFile file(namedWeights(spec, model->weights));
    const auto again = load(spec, file.table);
    const auto want = namedWeights(spec, model->weights);
    const auto got = namedWeights(spec, again->weights);
    ACOER_CHECK(want.size() == got.size() && again->parameterCount > 0);
    for (size_t i = 0; i < want.size(); ++i) {
      ACOER_CHECK(want[i].first == got[i].first && at::equal(want[i].second, got[i].second));
    }
    ACOER_CHECK(again->weights.head_VD.isSame(again->weights.embed_VD) == spec.tieWordEmbeddings);
  }
}

ACOER_TEST(train_model_refuses_wrong_tensors) {
  const auto model = randomModel(smallSpec(), at::kCPU, at::kFloat, 3);
  const NamedTensors original = namedWeights(model->spec, model->weights);
  const auto refuse = [&](const NamedTensors& named, ErrorCode code, const std::string& part) {
    const TensorFile file(named);
    ACOER_CHECK_THROWS(load(model->spec, file.table), code, part);
  };
  NamedTensors named = original;
  named.back().second = at::zeros({3});
  refuse(named, ErrorCode::kBadShape, "tensor model.norm.weight has shape [3]");
  named.pop_back();
  refuse(named, ErrorCode::kBadFile, "lacks the tensor model.norm.weight");
  named = original;
  named.emplace_back("model.layers.0.self_attn.q_proj.bias", at::zeros({3}));
  refuse(named, ErrorCode::kBadFile, "q_proj.bias");
}

ACOER_TEST(train_model_reads_shards) {
  const auto model = randomModel(smallSpec(), at::kCPU, at::kFloat, 3);
  const NamedTensors named = namedWeights(model->spec, model->weights);
  const auto half = named.begin() + static_cast<int64_t>(named.size() / 2);
  const TensorFile one({named.begin(), half}), two({half, named.end()});
  const auto again = load(model->spec, joined(one.table, two.table));
  ACOER_CHECK(at::equal(again->weights.layers[1].down_DF.plain(),
                        model->weights.layers[1].down_DF.plain()));
  ACOER_CHECK_THROWS(load(model->spec, joined(one.table, one.table)), ErrorCode::kBadFile,
                     "a second time");
  const TensorFile most({named.begin(), named.end() - 1}), none({});
  ACOER_CHECK_THROWS(load(model->spec, joined(most.table, none.table)), ErrorCode::kBadFile,
                     "and the other shards lack the tensor model.norm.weight");
}

ACOER_TEST(train_adapter_and_optimizer_round_trip) {
  const auto model = randomModel(smallSpec(), at::kCPU, at::kFloat, 3);
  const auto policy = randomAdapter(model, 5);
  const auto sequences = randomSequences(smallSpec(), {3, 4}, {5, 6}, 1);
  addGradients(*policy, sequences, randomSlopes(sequences, 2));
  step(*policy, {.learningRate = 1e-2, .weightDecay = 0, .maxGradNorm = 0});
  const TensorFile values(valuesOf(*policy)), state(optimizerStateOf(*policy));
  const auto again = loadAdapter(model, policy->options, values.table);
  restoreOptimizer(*again, state.table);
  ACOER_CHECK(again->stepCount == 1 && again->parameters.size() == policy->parameters.size());
  for (size_t i = 0; i < policy->parameters.size(); ++i) {
    const Parameter &a = policy->parameters[i], &b = again->parameters[i];
    ACOER_CHECK(a.name == b.name && at::equal(a.value, b.value));
    ACOER_CHECK(at::equal(a.expAvg, b.expAvg) && at::equal(a.expAvgSq, b.expAvgSq));
  }
  ACOER_CHECK_THROWS(restorePolicy(*again, state.table), ErrorCode::kBadFile,
                     "lacks the tensor base_model.model.model.layers.0");
  ACOER_CHECK_THROWS(restorePolicy(*again, joined(values.table, state.table)), ErrorCode::kBadFile,
                     "which this policy does not have");
  ACOER_CHECK(at::equal(again->parameters[0].value, policy->parameters[0].value));
}

}  // namespace
}  // namespace acoer::check
