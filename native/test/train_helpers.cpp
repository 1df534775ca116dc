#include "train_helpers.h"

#include <unistd.h>

#include <fstream>
#include <sstream>

#include "safetensors.h"

namespace acoer::check {

TemporaryDirectory::TemporaryDirectory() {
  std::string pattern = (std::filesystem::temp_directory_path() / "acoer-check-XXXXXX").string();
  if (!::mkdtemp(pattern.data())) fail(ErrorCode::kInternal, "cannot make " + pattern);
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;  // a leftover temporary directory is no failure of the check
  std::filesystem::remove_all(path_, ignored);
}

void writeText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string readText(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::string configText(const ModelConfig& c) {
  std::ostringstream text;
  text << "{\"architectures\": [\"Qwen3ForCausalLM\"], \"model_type\": \"qwen3\""
       << ", \"vocab_size\": " << c.vocabSize << ", \"hidden_size\": " << c.hiddenSize
       << ", \"intermediate_size\": " << c.intermediateSize
       << ", \"num_hidden_layers\": " << c.numLayers << ", \"num_attention_heads\": " << c.numHeads
       << ", \"num_key_value_heads\": " << c.numKvHeads << ", \"head_dim\": " << c.headDim
       << ", \"max_position_embeddings\": " << c.maxPositions
       << ", \"rms_norm_eps\": " << c.rmsNormEps << ", \"rope_theta\": " << c.ropeTheta
       << ", \"rope_scaling\": null, \"use_sliding_window\": false, \"attention_bias\": false"
       << ", \"tie_word_embeddings\": " << (c.tieWordEmbeddings ? "true" : "false")
       << ", \"torch_dtype\": \"float32\"}";
  return text.str();
}

void writeModel(const Model& model, const std::string& directory) {
  writeText(directory + "/config.json", configText(model.config));
  writeSafetensors(directory + "/model.safetensors", namedWeights(model.config, model.weights));
}

}  // namespace acoer::check
