// config.json of a dense Qwen3, in both forms that are around.
#include <algorithm>
#include <cmath>

#include "json.h"
#include "model.h"

namespace acoer {

namespace {

class ConfigReader {
 public:
  explicit ConfigReader(const std::string& path) : path_(path), root_(readJsonFile(path)) {
    if (!root_.asObject()) bad("is no JSON object");
  }

  [[noreturn]] void bad(const std::string& what) const {
    fail(ErrorCode::kBadFile, path_ + " " + what);
  }

  const Json* member(const char* key) const {
    const Json* value = root_.find(key);
    return value && !value->isNull() ? value : nullptr;
  }

  int64_t size(const char* key) const { return size(key, -1); }
  int64_t size(const char* key, int64_t fallback) const {
    const Json* value = member(key);
    if (!value && fallback > 0) return fallback;
    if (!value) bad(std::string("lacks ") + key);
    const int64_t* number = value->asInt();
    if (!number || *number < 1 || *number > (int64_t{1} << 31)) {
      bad(std::string("has a ") + key + " that is no positive whole number");
    }
    return *number;
  }

  double positive(const Json* value, const char* key) const {
    double number = 0;
    if (!value || !value->number(number) || !std::isfinite(number) || number <= 0) {
      bad(std::string("has a ") + key + " that is no positive number");
    }
    return number;
  }

  bool flag(const char* key) const {
    const Json* value = member(key);
    if (value && !value->asBool()) bad(std::string("has a ") + key + " that is not true or false");
    return value && *value->asBool();
  }

  // Empty when absent.
  std::string text(const char* key) const {
    const Json* value = member(key);
    if (value && !value->asString()) bad(std::string("has a ") + key + " that is no text");
    return value ? *value->asString() : "";
  }

  void refuse(const std::string& what) const {
    bad("asks for " + what + ", which this engine does not compute; only dense Qwen3 is supported");
  }

 private:
  std::string path_;
  Json root_;
};

void checkArchitecture(const ConfigReader& config) {
  bool named = false;
  if (const Json* list = config.member("architectures"); list && list->asArray()) {
    for (const Json& item : *list->asArray()) {
      if (!item.asString()) config.bad("has architectures that are no texts");
      if (*item.asString() != "Qwen3ForCausalLM") {
        config.refuse("the architecture " + *item.asString());
      }
      named = true;
    }
  }
  const std::string type = config.text("model_type");
  if (!type.empty() && type != "qwen3") config.refuse("the model type " + type);
  if (!named && type.empty()) config.bad("names neither architectures nor model_type");
}

void checkRopeType(const ConfigReader& config, const char* key) {
  const Json* rope = config.member(key);
  if (!rope) return;
  for (const char* name : {"rope_type", "type"}) {
    const Json* type = rope->find(name);
    if (!type || type->isNull()) continue;
    if (!type->asString()) config.bad(std::string("has a ") + key + " with an odd " + name);
    if (*type->asString() != "default") {
      config.refuse("rope scaling (" + std::string(key) + "." + name + " = " + *type->asString() +
                    ")");
    }
  }
  if (rope->find("factor")) config.refuse(std::string("rope scaling (") + key + ".factor)");
}

void checkUnsupported(const ConfigReader& config) {
  checkRopeType(config, "rope_scaling");
  checkRopeType(config, "rope_parameters");
  if (config.flag("use_sliding_window")) config.refuse("sliding windows (use_sliding_window)");
  if (config.flag("attention_bias")) config.refuse("attention bias (attention_bias)");
  if (config.member("quantization_config")) config.refuse("quantization (quantization_config)");
  if (const Json* types = config.member("layer_types"); types && types->asArray()) {
    for (const Json& type : *types->asArray()) {
      if (!type.asString() || *type.asString() != "full_attention") {
        config.refuse("sliding windows (layer_types)");
      }
    }
  }
  const std::string activation = config.text("hidden_act");
  if (!activation.empty() && activation != "silu") {
    config.refuse("the activation " + activation + " (hidden_act)");
  }
}

double readRopeTheta(const ConfigReader& config) {
  if (const Json* rope = config.member("rope_parameters")) {
    if (const Json* theta = rope->find("rope_theta")) {
      return config.positive(theta, "rope_parameters.rope_theta");
    }
  }
  if (const Json* theta = config.member("rope_theta")) return config.positive(theta, "rope_theta");
  config.bad("lacks rope_theta (or rope_parameters.rope_theta)");
}

at::ScalarType readDtype(const ConfigReader& config) {
  std::string name = config.text("dtype");
  if (name.empty()) name = config.text("torch_dtype");
  if (name.empty() || name == "float32") return at::kFloat;
  if (name == "bfloat16") return at::kBFloat16;
  if (name == "float16") return at::kHalf;
  if (name == "float64") return at::kDouble;
  config.bad("names the unknown dtype " + name);
}

// Products of these sizes are computed in int64_t everywhere.
void checkSizes(const ConfigReader& file, const ModelConfig& c) {
  constexpr double kMaxNumbers = 1e12;
  const auto product = [](int64_t a, int64_t b) {
    return static_cast<double>(a) * static_cast<double>(b);
  };
  const double rows = std::max({static_cast<double>(c.vocabSize), product(c.numHeads, c.headDim),
                                static_cast<double>(c.intermediateSize)});
  if (rows * static_cast<double>(c.hiddenSize) > kMaxNumbers) {
    file.bad("describes a matrix of more than 10^12 numbers");
  }
}

}  // namespace

ModelConfig readModelConfig(const std::string& directory) {
  const ConfigReader file(directory + "/config.json");
  checkArchitecture(file);
  checkUnsupported(file);
  ModelConfig config;
  config.vocabSize = file.size("vocab_size");
  config.hiddenSize = file.size("hidden_size");
  config.intermediateSize = file.size("intermediate_size");
  config.numLayers = file.size("num_hidden_layers");
  config.numHeads = file.size("num_attention_heads");
  config.numKvHeads = file.size("num_key_value_heads", config.numHeads);
  config.headDim = file.size("head_dim", 128);  // Qwen3's default, not hidden / heads
  config.maxPositions = file.size("max_position_embeddings", 32768);
  if (config.numHeads % config.numKvHeads != 0) {
    file.bad("has num_attention_heads that num_key_value_heads does not divide");
  }
  checkSizes(file, config);
  if (config.headDim % 2 != 0) file.bad("has an odd head_dim; rotary embeddings need an even one");
  if (file.member("rms_norm_eps")) {
    config.rmsNormEps = file.positive(file.member("rms_norm_eps"), "rms_norm_eps");
  }
  config.ropeTheta = readRopeTheta(file);
  config.tieWordEmbeddings = file.flag("tie_word_embeddings");
  config.storedDtype = readDtype(file);
  return config;
}

}  // namespace acoer
