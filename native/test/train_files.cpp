// Files: what is read back is what was written, and damaged or foreign files are refused by name.
#include <ATen/ATen.h>

#include "check.h"
#include "device_models.h"
#include "json.h"
#include "safetensors.h"
#include "train_helpers.h"

namespace acoer::check {
namespace {

const Cancel kNever;

void checkBadJson(const std::string& text) {
  ACOER_CHECK_THROWS(parseJson(text, "text"), ErrorCode::kBadFile, "text is not valid JSON");
}

ACOER_TEST(train_json_reads_strictly) {
  const Json json =
      parseJson(R"( {"a": [1, -2.5e1, true, null, "\u00e9\ud83d\ude00\n"]} )", "text");
  const Json::Array& items = *json.find("a")->asArray();
  double number = 0;
  ACOER_CHECK(*items[0].asInt() == 1 && items[1].number(number) && number == -25);
  ACOER_CHECK(*items[2].asBool() && items[3].isNull());
  ACOER_CHECK(*items[4].asString() == "\xC3\xA9\xF0\x9F\x98\x80\n");
  for (const char* text :
       {"", "{", "[1,]", "{\"a\":1,}", "01", "1.", "+1", "NaN", "\"\\x\"", "[1] 2", "\"\\ud83d\"",
        "{\"a\":1,\"a\":2}", "'a'", "\"a", "tru", "1e999"}) {
    checkBadJson(text);
  }
  checkBadJson("\"\n\"");
  checkBadJson(std::string(100000, '['));
}

std::string safetensorsText(const std::string& header, size_t dataBytes) {
  std::string text(8, '\0');
  for (size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return text + header + std::string(dataBytes, 'x');
}

void checkBadSafetensors(const std::string& text, const std::string& part) {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.safetensors";
  writeText(path, text);
  ACOER_CHECK_THROWS(SafetensorsFile file(path), ErrorCode::kBadFile, part);
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
         offsets + "}";
}

ACOER_TEST(train_safetensors_refuses_damage) {
  checkBadSafetensors("abc", "too short");
  checkBadSafetensors(std::string(8, '\xFF') + "{}", "cut off");
  checkBadSafetensors(safetensorsText("[1]", 0), "no object");
  checkBadSafetensors(safetensorsText("{nonsense", 0), "not valid JSON");
  const auto one = [](const std::string& text, size_t bytes) {
    return safetensorsText("{" + text + "}", bytes);
  };
  const std::string whole = entry("w", "F32", "[2,3]", "[0,24]");
  checkBadSafetensors(one(whole, 23), "cut off");
  checkBadSafetensors(one(whole, 25), "cut off or damaged");
  checkBadSafetensors(one(entry("w", "F32", "[2,3]", "[0,20]"), 20), "needs 24");
  checkBadSafetensors(one(entry("w", "F99", "[2,3]", "[0,24]"), 24), "unknown type F99");
  checkBadSafetensors(one(entry("w", "F32", "[2,-3]", "[0,24]"), 24), "not a list of sizes");
  checkBadSafetensors(one(entry("w", "F32", "[2,3]", "[24,0]"), 24), "impossible data_offsets");
  checkBadSafetensors(
      one(entry("w", "F32", "[9223372036854775807,9223372036854775807]", "[0,24]"), 24),
      "too large");
  checkBadSafetensors(one(whole + "," + entry("v", "F32", "[6]", "[12,36]"), 36), "starts at byte");
  checkBadSafetensors(one(whole + "," + entry("v", "F32", "[6]", "[28,52]"), 52), "starts at byte");
  ACOER_CHECK_THROWS(SafetensorsFile file("/nowhere/a"), ErrorCode::kBadFile, "cannot open");
}

ACOER_TEST(train_safetensors_round_trip) {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.safetensors";
  const at::Tensor half = at::arange(6, at::kFloat).view({2, 3}).to(at::kBFloat16);
  const at::Tensor wide = at::rand({3}, at::kDouble), empty = at::empty({0, 4}, at::kFloat);
  writeSafetensors(path, {{"half", half}, {"wide", wide}, {"empty", empty}});
  const SafetensorsFile file(path);
  ACOER_CHECK(file.entries().size() == 3 && file.metadata().at("format") == "pt");
  const at::Tensor wideHalf = at::empty({2, 3}, at::kDouble), again = at::empty({3}, at::kDouble);
  file.read("half", wideHalf, kNever);
  file.read("wide", again, kNever);
  ACOER_CHECK(at::equal(wideHalf, half.to(at::kDouble)) && at::equal(again, wide));
  ACOER_CHECK_THROWS(file.read("half", again, kNever), ErrorCode::kBadShape, "tensor half");
  ACOER_CHECK_THROWS(file.read("none", again, kNever), ErrorCode::kBadFile,
                     "lacks the tensor none");
  Cancel cancelled;
  cancelled.request();
  ACOER_CHECK_THROWS(file.read("wide", again, cancelled), ErrorCode::kCancelled, "cancelled");
}

ModelConfig untiedConfig() {
  ModelConfig config = smallConfig();
  config.tieWordEmbeddings = false;
  return config;
}

ACOER_TEST(train_model_round_trip) {
  for (const ModelConfig& config : {smallConfig(), untiedConfig()}) {
    const TemporaryDirectory directory;
    const auto model = randomModel(config, at::kCPU, at::kFloat, 3);
    writeModel(*model, directory.path());
    const auto again = loadModel({.directory = directory.path()}, kNever);
    const auto want = namedWeights(config, model->weights);
    const auto got = namedWeights(again->config, again->weights);
    ACOER_CHECK(want.size() == got.size() && again->parameterCount > 0);
    for (size_t i = 0; i < want.size(); ++i) {
      ACOER_CHECK(want[i].first == got[i].first && at::equal(want[i].second, got[i].second));
    }
    ACOER_CHECK(again->weights.head_VD.is_same(again->weights.embed_VD) ==
                config.tieWordEmbeddings);
  }
}

void checkBadConfig(const std::string& from, const std::string& to, const std::string& part) {
  const TemporaryDirectory directory;
  std::string text = configText(smallConfig());
  const size_t place = text.find(from);
  ACOER_CHECK(place != std::string::npos);
  writeText(directory / "config.json", text.replace(place, from.size(), to));
  ACOER_CHECK_THROWS(readModelConfig(directory.path()), ErrorCode::kBadFile, part);
}

ACOER_TEST(train_config_refuses_by_name) {
  checkBadConfig("Qwen3ForCausalLM", "LlamaForCausalLM", "architecture LlamaForCausalLM");
  checkBadConfig("\"qwen3\"", "\"qwen3_moe\"", "model type qwen3_moe");
  checkBadConfig("\"rope_scaling\": null", R"("rope_scaling": {"rope_type": "yarn"})", "yarn");
  checkBadConfig("\"rope_scaling\": null",
                 R"("rope_parameters": {"rope_type": "linear", "rope_theta": 1e4})", "linear");
  checkBadConfig("\"use_sliding_window\": false", "\"use_sliding_window\": true",
                 "sliding windows");
  checkBadConfig("\"attention_bias\": false", "\"attention_bias\": true", "attention bias");
  checkBadConfig("\"rope_theta\"", "\"other\"", "lacks rope_theta");
  checkBadConfig("\"vocab_size\"", "\"other\"", "lacks vocab_size");
  checkBadConfig("\"hidden_size\": ", "\"hidden_size\": -", "hidden_size");
  checkBadConfig("\"float32\"", "\"int8\"", "unknown dtype int8");
}

ACOER_TEST(train_config_reads_both_forms) {
  const TemporaryDirectory directory;
  std::string text = configText(smallConfig());
  const size_t place = text.find("\"rope_theta\"");
  text.insert(
      place,
      R"("dtype": "bfloat16", "rope_parameters": {"rope_type": "default", "rope_theta": 12345.0}, )");
  writeText(directory / "config.json", text);
  const ModelConfig config = readModelConfig(directory.path());
  ACOER_CHECK(config.ropeTheta == 12345 && config.storedDtype == at::kBFloat16);
}

ACOER_TEST(train_model_refuses_wrong_tensors) {
  const TemporaryDirectory directory;
  const auto model = randomModel(smallConfig(), at::kCPU, at::kFloat, 3);
  writeModel(*model, directory.path());
  const std::string path = directory / "model.safetensors";
  const auto load = [&] { loadModel({.directory = directory.path()}, kNever); };
  auto named = namedWeights(model->config, model->weights);
  const auto original = named;
  named.back().second = at::zeros({3});
  writeSafetensors(path, named);
  ACOER_CHECK_THROWS(load(), ErrorCode::kBadShape, "tensor model.norm.weight has shape [3]");
  named.pop_back();
  writeSafetensors(path, named);
  ACOER_CHECK_THROWS(load(), ErrorCode::kBadFile, "lack the tensor model.norm.weight");
  named = original;
  named.emplace_back("model.layers.0.self_attn.q_proj.bias", at::zeros({3}));
  writeSafetensors(path, named);
  ACOER_CHECK_THROWS(load(), ErrorCode::kBadFile, "q_proj.bias");
  named.back() = {"model.layers.0.self_attn.rotary_emb.inv_freq", at::zeros({3})};
  named.emplace_back("lm_head.weight", model->weights.embed_VD);
  writeSafetensors(path, named);
  load();
  std::filesystem::remove(path);
  ACOER_CHECK_THROWS(load(), ErrorCode::kBadFile, "holds neither model.safetensors");
}

ACOER_TEST(train_model_reads_shards) {
  const TemporaryDirectory directory;
  const auto model = randomModel(smallConfig(), at::kCPU, at::kFloat, 3);
  writeText(directory / "config.json", configText(model->config));
  const auto named = namedWeights(model->config, model->weights);
  const auto half = named.begin() + static_cast<int64_t>(named.size() / 2);
  writeSafetensors(directory / "one.safetensors", {named.begin(), half});
  writeSafetensors(directory / "two.safetensors", {half, named.end()});
  std::string map;
  for (auto item = named.begin(); item != named.end(); ++item) {
    map += (map.empty() ? "" : ",") + jsonQuote(item->first) +
           (item < half ? ":\"one.safetensors\"" : ":\"two.safetensors\"");
  }
  const std::string index = directory / "model.safetensors.index.json";
  writeText(index, "{\"weight_map\":{" + map + "}}");
  const auto again = loadModel({.directory = directory.path()}, kNever);
  ACOER_CHECK(at::equal(again->weights.layers[1].down_DF, model->weights.layers[1].down_DF));
  writeText(index, R"({"weight_map":{"a":"../b"}})");
  ACOER_CHECK_THROWS(loadModel({.directory = directory.path()}, kNever), ErrorCode::kBadFile,
                     "no plain file for the tensor a");
}

const char* const kAdapter =
    R"({"peft_type":"LORA","r":16,"lora_alpha":32,"bias":"none","target_modules":["q_proj","k_proj",)"
    R"("v_proj","o_proj","gate_proj","up_proj","down_proj"],"use_dora":false,"modules_to_save":null})";

ACOER_TEST(train_adapter_and_optimizer_round_trip) {
  const TemporaryDirectory directory;
  const auto model = randomModel(smallConfig(), at::kCPU, at::kFloat, 3);
  const auto policy = randomAdapter(model, 5);
  const auto sequences = randomSequences(smallConfig(), {3, 4}, {5, 6}, 1);
  addGradients(*policy, sequences, randomSlopes(sequences, 2));
  step(*policy, {.learningRate = 1e-2, .weightDecay = 0, .maxGradNorm = 0});
  savePolicy(*policy, directory / "adapter_model.safetensors");
  saveOptimizer(*policy, directory / "optimizer.safetensors");
  PolicyOptions same = policy->options;
  writeText(directory / "adapter_config.json",
            std::string(kAdapter).replace(std::string(kAdapter).find("16"), 2,
                                          std::to_string(same.rank)));
  const auto again = loadAdapter(model, directory.path());
  restoreOptimizer(*again, directory / "optimizer.safetensors");
  ACOER_CHECK(again->stepCount == 1 && again->parameters.size() == policy->parameters.size());
  for (size_t i = 0; i < policy->parameters.size(); ++i) {
    const Parameter &a = policy->parameters[i], &b = again->parameters[i];
    ACOER_CHECK(a.name == b.name && at::equal(a.value, b.value));
    ACOER_CHECK(at::equal(a.expAvg, b.expAvg) && at::equal(a.expAvgSq, b.expAvgSq));
  }
  ACOER_CHECK_THROWS(restorePolicy(*again, directory / "optimizer.safetensors"),
                     ErrorCode::kBadFile, "lacks the tensor base_model.model.model.layers.0");
  ACOER_CHECK(at::equal(again->parameters[0].value, policy->parameters[0].value));
}

ACOER_TEST(train_adapter_config_refuses_by_name) {
  const auto model = randomModel(smallConfig(), at::kCPU, at::kFloat, 3);
  const auto refuse = [&](const std::string& from, const std::string& to, const std::string& part) {
    const TemporaryDirectory directory;
    std::string text = kAdapter;
    writeText(directory / "adapter_config.json", text.replace(text.find(from), from.size(), to));
    ACOER_CHECK_THROWS(loadAdapter(model, directory.path()), ErrorCode::kBadFile, part);
  };
  refuse("\"use_dora\":false", "\"use_dora\":true", "use_dora");
  refuse("\"use_dora\":false", "\"use_rslora\":true", "use_rslora");
  refuse("null", "[\"lm_head\"]", "modules_to_save");
  refuse("\"none\"", "\"all\"", "bias");
  refuse("\"q_proj\"", "\"lm_head\"", "targets the module lm_head");
  refuse("\"LORA\"", "\"LOHA\"", "peft_type");
  refuse("\"r\":16,", "", "lacks a whole number r");
}

}  // namespace
}  // namespace acoer::check
