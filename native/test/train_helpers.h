// A temporary directory and a model directory in it, for the checks of files.
#pragma once

#include <filesystem>
#include <string>

#include "model.h"

namespace acoer::check {

class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

void writeText(const std::string& path, const std::string& text);
std::string readText(const std::string& path);
// config.json in the hub's form.
std::string configText(const ModelConfig& config);
// config.json and model.safetensors of `model`.
void writeModel(const Model& model, const std::string& directory);

}  // namespace acoer::check
