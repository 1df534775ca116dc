#include "from_js.h"

#include <algorithm>
#include <array>
#include <limits>

namespace acoer {
namespace {

template <typename T>
struct Named {
  const char* name;
  T value;
};

template <typename T, size_t N>
T oneOf(const Fields& fields, const char* key, const std::array<Named<T>, N>& choices) {
  const std::string text = fields.text(key);
  std::string names;
  for (const Named<T>& choice : choices) {
    if (text == choice.name) return choice.value;
    names += (names.empty() ? "" : ", ") + std::string(choice.name);
  }
  fail(ErrorCode::kBadArgument, fields.at(key), " must be one of ", names, ", not \"", text, "\"");
}

constexpr std::array<Named<at::ScalarType>, 3> kDtypes{
    {{"float32", at::kFloat}, {"bfloat16", at::kBFloat16}, {"float64", at::kDouble}}};

constexpr std::array<Named<PolicyOptions::Kind>, 2> kKinds{
    {{"lora", PolicyOptions::Kind::kLora}, {"full", PolicyOptions::Kind::kFull}}};

SamplingOptions readSampling(const Fields& fields) {
  return {.temperature = fields.number("temperature"),
          .topK = fields.integer("topK"),
          .topP = fields.number("topP"),
          .minP = fields.number("minP"),
          .repetitionPenalty = fields.number("repetitionPenalty")};
}

constexpr std::array<Named<RopeScaling::Kind>, 2> kRopeScalings{
    {{"llama3", RopeScaling::Kind::kLlama3}, {"yarn", RopeScaling::Kind::kYarn}}};

RopeScaling readRopeScaling(const Fields& fields) {
  RopeScaling scaling;
  scaling.kind = oneOf(fields, "kind", kRopeScalings);
  scaling.factor = fields.number("factor");
  scaling.originalPositions = fields.number("originalPositions");
  if (scaling.kind == RopeScaling::Kind::kLlama3) {
    scaling.lowFrequencyFactor = fields.number("lowFrequencyFactor");
    scaling.highFrequencyFactor = fields.number("highFrequencyFactor");
  } else {
    scaling.betaFast = fields.number("betaFast");
    scaling.betaSlow = fields.number("betaSlow");
    scaling.truncate = fields.boolean("truncate");
    scaling.attentionFactor = fields.number("attentionFactor");
  }
  return scaling;
}

}  // namespace

std::optional<int64_t> readHandle(const Fields& fields, const char* key) {
  if (fields.isNull(key)) return std::nullopt;
  return fields.count(key);
}

at::ScalarType readDtype(const Fields& fields, const char* key) {
  return oneOf(fields, key, kDtypes);
}

PackedSequences readSequences(const Fields& fields) {
  PackedSequences sequences;
  sequences.ids = fields.int32s("ids");
  const std::vector<int32_t> offsets = fields.int32s("offsets");
  const std::vector<int32_t> promptLengths = fields.int32s("promptLengths");
  sequences.offsets.assign(offsets.begin(), offsets.end());
  sequences.promptLengths.assign(promptLengths.begin(), promptLengths.end());
  return sequences;
}

std::optional<DropoutKey> readDropout(const Fields& fields) {
  if (fields.isNull("dropoutSeed")) return std::nullopt;
  return DropoutKey{fields.seed("dropoutSeed")};
}

namespace {

Target targetNamed(const std::string& name, const std::string& where) {
  const auto found = std::find(kTargetNames.begin(), kTargetNames.end(), name);
  if (found == kTargetNames.end()) {
    fail(ErrorCode::kBadArgument, where, " names \"", name,
         "\"; LoRA adapts q_proj, k_proj, v_proj, o_proj, gate_proj, "
         "up_proj and down_proj");
  }
  return static_cast<Target>(found - kTargetNames.begin());
}

}  // namespace

PolicyOptions readPolicyOptions(const Fields& fields) {
  PolicyOptions options;
  options.kind = oneOf(fields, "kind", kKinds);
  options.rank = fields.integer("rank");
  options.alpha = fields.number("alpha");
  options.rankStabilized = fields.boolean("rslora");
  options.dropout = fields.number("dropout");
  options.seed = fields.seed("seed");
  options.beta1 = fields.number("beta1");
  options.beta2 = fields.number("beta2");
  options.eps = fields.number("eps");
  for (const std::string& name : fields.texts("targets")) {
    options.targets[targetNamed(name, fields.at("targets"))] = true;
  }
  for (const Fields& matrix : fields.objects("matrices")) {
    options.matrices.push_back({.layer = matrix.integer("layer"),
                                .target = targetNamed(matrix.text("module"), matrix.at("module")),
                                .rank = matrix.integer("rank"),
                                .alpha = matrix.number("alpha")});
    options.targets[options.matrices.back().target] = true;
  }
  return options;
}

HandledRequest readRequest(const Fields& fields) {
  HandledRequest handled;
  GenerateRequest& request = handled.request;
  request.promptIds = fields.int32s("promptIds");
  request.numSamples = fields.integer("numSamples");
  request.firstSample = fields.integer("firstSample");
  request.seed = fields.seed("seed");
  request.maxNewTokens = fields.integer("maxNewTokens");
  request.stopIds = fields.int32s("stopIds");
  request.sampling = readSampling(fields.object("sampling"));
  handled.policy = readHandle(fields, "policy");
  return handled;
}

ModelSpec readModelSpec(const Fields& fields) {
  ModelSpec spec;
  spec.vocabSize = fields.integer("vocabSize");
  spec.hiddenSize = fields.integer("hiddenSize");
  spec.intermediateSize = fields.integer("intermediateSize");
  spec.numLayers = fields.integer("numLayers");
  spec.numHeads = fields.integer("numHeads");
  spec.numKvHeads = fields.integer("numKvHeads");
  spec.headDim = fields.integer("headDim");
  spec.maxPositions = fields.integer("maxPositions");
  spec.rmsNormEps = fields.number("rmsNormEps");
  spec.ropeTheta = fields.number("ropeTheta");
  if (!fields.isNull("ropeScaling")) {
    spec.ropeScaling = readRopeScaling(fields.object("ropeScaling"));
  }
  spec.tieWordEmbeddings = fields.boolean("tieWordEmbeddings");
  spec.qkvBias = fields.boolean("qkvBias");
  spec.qkNorm = fields.boolean("qkNorm");
  return spec;
}

TensorTable readTensorTable(const Fields& fields) {
  TensorTable table;
  for (const Fields& file : fields.objects("files")) {
    const int64_t descriptor = file.count("descriptor");
    if (descriptor > std::numeric_limits<int>::max()) {
      fail(ErrorCode::kBadArgument, file.at("descriptor"), " is not a file descriptor");
    }
    table.files.push_back({static_cast<int>(descriptor), file.text("path")});
  }
  for (const Fields& tensor : fields.objects("tensors")) {
    table.tensors.push_back({.name = tensor.text("name"),
                             .file = tensor.integer("file"),
                             .dtype = tensor.text("dtype"),
                             .shape = tensor.sizes("shape"),
                             .begin = tensor.integer("begin"),
                             .end = tensor.integer("end")});
  }
  return table;
}

}  // namespace acoer
