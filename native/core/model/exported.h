// Weights in files, with an adapter merged into them, written into a file of another layout.
#pragma once

#include <string>
#include <vector>

#include "model/policy.h"

namespace acoer {

struct ExportOptions {
  TensorTable weights;
  TensorTable adapter{};               // PEFT's names; without files: nothing is merged
  std::vector<LoraMatrix> matrices{};  // what the adapter adapts
  bool rankStabilized = false;
  std::string path;  // of a file with its header, and room for the tensors
  // Where in it tensors of `weights` go, by name; `file` is not used.
  std::vector<StoredTensor> places;
};

// What writing a matrix W + s B A in fewer bits kept of its update s B A: root mean squares over
// the matrix, in fp64.
struct MergedMatrix {
  std::string name;
  double weightRms = 0;  // W
  double updateRms = 0;  // s B A
  double errorRms = 0;   // what is stored - (W + s B A)
  double unchanged = 0;  // share of numbers that are stored as W alone would be
};

// Computes in fp32 and rounds once. Takes memory for a part of a tensor at a time. Throws kBadFile,
// kBadShape, kCancelled, and what TensorWriter throws; the file is then of no use.
std::vector<MergedMatrix> exportWeights(const ExportOptions& options, const Cancel& cancel);

}  // namespace acoer
