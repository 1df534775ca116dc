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

constexpr std::array<Named<Quantization>, 2> kQuantizations{
    {{quantizationName(Quantization::kNf4), Quantization::kNf4},
     {quantizationName(Quantization::kInt8), Quantization::kInt8}}};

constexpr std::array<Named<PolicyOptions::Kind>, 2> kKinds{
    {{"lora", PolicyOptions::Kind::kLora}, {"full", PolicyOptions::Kind::kFull}}};

constexpr std::array<Named<KvCacheDtype>, 2> kKvCacheDtypes{
    {{"auto", KvCacheDtype::kAuto}, {"int8", KvCacheDtype::kInt8}}};

constexpr std::array<Named<Sharded>, 3> kSharded{{{"weights", Sharded::kWeights},
                                                  {"exp_avg", Sharded::kExpAvg},
                                                  {"exp_avg_sq", Sharded::kExpAvgSq}}};

constexpr std::array<Named<Moment>, 2> kMoments{
    {{"exp_avg", Moment::kExpAvg}, {"exp_avg_sq", Moment::kExpAvgSq}}};

constexpr auto kFamilies = [] {
  std::array<Named<KernelFamily>, kKernelFamilies.size()> all{};
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = {familyName(kKernelFamilies[i]), kKernelFamilies[i]};
  }
  return all;
}();

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

Target targetNamed(const std::string& name, const std::string& where) {
  const auto found = std::find(kTargetNames.begin(), kTargetNames.end(), name);
  if (found == kTargetNames.end()) {
    fail(ErrorCode::kBadArgument, where, " names \"", name,
         "\"; LoRA adapts q_proj, k_proj, v_proj, o_proj, gate_proj, "
         "up_proj and down_proj");
  }
  return static_cast<Target>(found - kTargetNames.begin());
}

std::vector<LoraMatrix> readMatrices(const Fields& fields) {
  std::vector<LoraMatrix> matrices;
  for (const Fields& matrix : fields.objects("matrices")) {
    matrices.push_back({.layer = matrix.integer("layer"),
                        .target = targetNamed(matrix.text("module"), matrix.at("module")),
                        .rank = matrix.integer("rank"),
                        .alpha = matrix.number("alpha")});
  }
  return matrices;
}

std::vector<StoredTensor> readTensors(const Fields& fields) {
  std::vector<StoredTensor> tensors;
  for (const Fields& tensor : fields.objects("tensors")) {
    tensors.push_back({.name = tensor.text("name"),
                       .file = tensor.integer("file"),
                       .dtype = tensor.text("dtype"),
                       .shape = tensor.sizes("shape"),
                       .begin = tensor.integer("begin"),
                       .end = tensor.integer("end"),
                       .heads = tensor.has("heads") ? tensor.count("heads") : 0});
  }
  return tensors;
}

}  // namespace

std::optional<int64_t> readHandle(const Fields& fields, const char* key) {
  if (fields.isNull(key)) return std::nullopt;
  return fields.count(key);
}

at::ScalarType readDtype(const Fields& fields, const char* key) {
  return oneOf(fields, key, kDtypes);
}

Quantization readQuantization(const Fields& fields, const char* key) {
  if (!fields.has(key) || fields.isNull(key)) return Quantization::kNone;
  return oneOf(fields, key, kQuantizations);
}

KernelFamily readKernelFamily(const Fields& fields, const char* key) {
  return oneOf(fields, key, kFamilies);
}

Sharded readSharded(const Fields& fields, const char* key) { return oneOf(fields, key, kSharded); }

Moment readMoment(const Fields& fields, const char* key) { return oneOf(fields, key, kMoments); }

PackedSequences readSequences(const Fields& fields) {
  const auto widened = [&](const char* key) {
    const std::vector<int32_t> numbers = fields.int32s(key);
    return std::vector<int64_t>(numbers.begin(), numbers.end());
  };
  return {.ids = fields.int32s("ids"),
          .offsets = widened("offsets"),
          .promptLengths = widened("promptLengths"),
          .runs = fields.has("runs") ? widened("runs") : std::vector<int64_t>()};
}

std::optional<DropoutKey> readDropout(const Fields& fields) {
  if (fields.isNull("dropoutSeed")) return std::nullopt;
  return DropoutKey{fields.seed("dropoutSeed")};
}

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
  if (fields.has("shard")) {
    const Fields shard = fields.object("shard");
    options.shard = {.index = shard.integer("index"), .count = shard.integer("count")};
  }
  for (const std::string& name : fields.texts("targets")) {
    options.targets[targetNamed(name, fields.at("targets"))] = true;
  }
  options.matrices = readMatrices(fields);
  for (const LoraMatrix& matrix : options.matrices) options.targets[matrix.target] = true;
  return options;
}

HandledRequest readRequest(const Fields& fields) {
  return {.request = {.promptIds = fields.int32s("promptIds"),
                      .numSamples = fields.integer("numSamples"),
                      .firstSample = fields.integer("firstSample"),
                      .firstToken = fields.integer("firstToken"),
                      .seed = fields.seed("seed"),
                      .maxNewTokens = fields.integer("maxNewTokens"),
                      .stopIds = fields.int32s("stopIds"),
                      .sampling = readSampling(fields.object("sampling")),
                      .group = fields.integer("group")},
          .policy = readHandle(fields, "policy")};
}

GenerateOptions readDecoding(const Fields& fields) {
  return {.maxSlots = fields.integer("maxSlots"),
          .kvBytes = fields.integer("kvBytes"),
          .kvCacheDtype = oneOf(fields, "kvCacheDtype", kKvCacheDtypes),
          .numSpeculativeTokens = fields.integer("numSpeculativeTokens")};
}

ModelSpec readModelSpec(const Fields& fields) {
  return {.vocabSize = fields.integer("vocabSize"),
          .hiddenSize = fields.integer("hiddenSize"),
          .intermediateSize = fields.integer("intermediateSize"),
          .numLayers = fields.integer("numLayers"),
          .numHeads = fields.integer("numHeads"),
          .numKvHeads = fields.integer("numKvHeads"),
          .headDim = fields.integer("headDim"),
          .maxPositions = fields.integer("maxPositions"),
          .rmsNormEps = fields.number("rmsNormEps"),
          .ropeTheta = fields.number("ropeTheta"),
          .ropeScaling = fields.isNull("ropeScaling")
                             ? RopeScaling{}
                             : readRopeScaling(fields.object("ropeScaling")),
          .tieWordEmbeddings = fields.boolean("tieWordEmbeddings"),
          .qkvBias = fields.boolean("qkvBias"),
          .qkNorm = fields.boolean("qkNorm")};
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
  table.tensors = readTensors(fields);
  return table;
}

ExportOptions readExportOptions(const Fields& fields) {
  ExportOptions options{.weights = readTensorTable(fields.object("weights")),
                        .rankStabilized = fields.boolean("rslora"),
                        .path = fields.text("path"),
                        .places = readTensors(fields)};
  if (!fields.isNull("adapter")) {
    options.adapter = readTensorTable(fields.object("adapter"));
    options.matrices = readMatrices(fields);
  }
  return options;
}

}  // namespace acoer
