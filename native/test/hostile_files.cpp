// Files made to harm: they are refused before memory is taken for what they claim.
#include <ATen/ATen.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "check.h"
#include "device_models.h"
#include "json.h"
#include "safetensors.h"
#include "train_helpers.h"

namespace acoer::check {
namespace {

const Cancel kNever;

int64_t peakBytes() {
  struct rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

// `body` refuses with `part` and takes less than 256 MB more than this process ever did.
void checkRefused(const std::function<void()>& body, ErrorCode code, const std::string& part) {
  const int64_t before = peakBytes();
  ACOER_CHECK_THROWS(body(), code, part);
  ACOER_CHECK_LE(static_cast<double>(peakBytes() - before), 256e6);
}

void replaceNumber(std::string& text, const std::string& key, const std::string& value) {
  const size_t begin = text.find(':', text.find("\"" + key + "\"")) + 1;
  text.replace(begin, text.find_first_of(",}", begin) - begin, value);
}

ACOER_TEST(hostile_config_is_checked_against_the_weights) {
  const TemporaryDirectory directory;
  const auto model = randomModel(smallConfig(), at::kCPU, at::kFloat, 3);
  writeModel(*model, directory.path());
  const auto refuse = [&](const std::string& key, const std::string& value, ErrorCode code,
                          const std::string& part) {
    std::string text = configText(model->config);
    replaceNumber(text, key, value);
    writeText(directory / "config.json", text);
    checkRefused([&] { loadModel({.directory = directory.path()}, kNever); }, code, part);
  };
  refuse("vocab_size", "2000000000", ErrorCode::kBadShape, "expected [2000000000, ");
  refuse("num_hidden_layers", "2147483648", ErrorCode::kBadFile, "cannot lie in");
  refuse("num_hidden_layers", "20", ErrorCode::kBadFile, "lack the tensor model.layers.");
  refuse("hidden_size", "2147483648", ErrorCode::kBadFile, "more than 10^12 numbers");
  refuse("head_dim", "2147483646", ErrorCode::kBadFile, "more than 10^12 numbers");
  refuse("intermediate_size", "2147483649", ErrorCode::kBadFile, "intermediate_size");
}

ACOER_TEST(hostile_index_names_no_file) {
  const TemporaryDirectory directory;
  writeText(directory / "config.json", configText(smallConfig()));
  writeText(directory / "model.safetensors.index.json", R"({"weight_map":{}})");
  ACOER_CHECK_THROWS(loadModel({.directory = directory.path()}, kNever), ErrorCode::kBadFile,
                     "has an empty weight_map");
}

ACOER_TEST(hostile_adapter_config_is_checked_against_its_tensors) {
  const TemporaryDirectory directory;
  const auto model = randomModel(smallConfig(), at::kCPU, at::kFloat, 3);
  writeSafetensors(directory / "adapter_model.safetensors", {{"a", at::zeros({3})}});
  writeText(directory / "adapter_config.json",
            R"({"peft_type":"LORA","r":4096,"lora_alpha":1,"target_modules":"all-linear"})");
  checkRefused([&] { loadAdapter(model, directory.path()); }, ErrorCode::kBadFile,
               "lacks the tensor base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight");
}

ACOER_TEST(hostile_json_of_many_values) {
  std::string text = "[";
  for (int i = 0; i < 5'000'000; ++i) text += "[],";
  text += "[]]";
  checkRefused([&] { parseJson(text, "text"); }, ErrorCode::kBadFile, "more than 1000000 values");
}

// Opening a named pipe that nobody writes to would wait for ever; a device has no end.
ACOER_TEST(hostile_files_that_are_no_files) {
  const TemporaryDirectory directory;
  const std::string pipe = directory / "config.json";
  ACOER_CHECK(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const std::string& path : {pipe, std::string("/dev/zero"), directory.path()}) {
    ACOER_CHECK_THROWS(readJsonFile(path), ErrorCode::kBadFile, "is not a regular file");
    ACOER_CHECK_THROWS(SafetensorsFile file(path), ErrorCode::kBadFile, "is not a regular file");
  }
}

}  // namespace
}  // namespace acoer::check
