// A frozen dense decoder: its spec and its weights.
//
// Shape letters used everywhere in native/core:
//   T tokens of a packed batch   B sequences       L longest sequence of a batch   S decode slots
//   D hidden   F intermediate    H heads           J key/value heads               K head_dim
//   V vocabulary                 E = (H + 2J) * K rows of the fused q|k|v projection    R LoRA rank
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/stored_tensors.h"
#include "kernels/gpu/families.h"
#include "matrix/matrix.h"

namespace acoer {

// How rotary frequencies are stretched for contexts longer than those of pre-training (rope.h).
struct RopeScaling {
  enum class Kind { kNone, kLlama3, kYarn } kind = Kind::kNone;
  double factor = 1;
  double originalPositions = 0;                            // context of pre-training
  double lowFrequencyFactor = 1, highFrequencyFactor = 4;  // kLlama3
  double betaFast = 32, betaSlow = 1;                      // kYarn
  bool truncate = true;                                    // kYarn: whole bounds of its ramp
  double attentionFactor = 1;                              // kYarn: of cosine and sine
};

// The sizes of a model and what sets its family apart, which src/models makes of its config.json.
struct ModelSpec {
  int64_t vocabSize = 0;
  int64_t hiddenSize = 0;
  int64_t intermediateSize = 0;
  int64_t numLayers = 0;
  int64_t numHeads = 0;
  int64_t numKvHeads = 0;
  int64_t headDim = 0;
  int64_t maxPositions = 0;
  double rmsNormEps = 1e-6;
  double ropeTheta = 1e6;
  RopeScaling ropeScaling;
  bool tieWordEmbeddings = false;
  bool qkvBias = false;  // q, k and v have a bias
  bool qkNorm = true;    // every query and key head is normed before it is rotated

  int64_t qRows() const { return numHeads * headDim; }
  int64_t kvRows() const { return numKvHeads * headDim; }
  int64_t qkvRows() const { return qRows() + 2 * kvRows(); }
};

// q|k|v and gate|up are stored fused (one GEMM each); LoRA and files address them by row ranges.
struct LayerWeights {
  at::Tensor inputNorm_D;
  Matrix qkv_ED;
  at::Tensor qkvBias_E;  // undefined without qkvBias
  at::Tensor qNorm_K;    // undefined without qkNorm
  at::Tensor kNorm_K;    // undefined without qkNorm
  Matrix o_DHK;          // [D, H*K]
  at::Tensor postNorm_D;
  Matrix gateUp_2FD;
  Matrix down_DF;
};

struct Weights {
  Matrix embed_VD;
  Matrix head_VD;  // the same as embed_VD when tied
  at::Tensor finalNorm_D;
  std::vector<LayerWeights> layers;
};

class GpuKernels;

// A model up to this size lies in a last-level cache, twice even, and its operations are too small
// to be shared among threads: on a CPU each thread takes rows of its own through a whole pass.
constexpr int64_t kSmallModelBytes = int64_t{64} << 20;

struct Model {
  ModelSpec spec;
  Weights weights;
  at::Device device = at::kCPU;
  at::ScalarType dtype = at::kFloat;
  // Of the matrices of the layers; embedding, head, norms and biases are in `dtype`.
  Quantization quantization = Quantization::kNone;
  int64_t parameterCount = 0;
  int64_t bytes = 0;  // of the weights as they lie in memory
  // Do the work between the matrix products on a GPU; null: libtorch's operations do. The tests set
  // the emulated ones on a CPU.
  const GpuKernels* kernels = nullptr;
  // Which families of them were wrong on this card (selfcheck/selfcheck.h).
  KernelFaults kernelFaults;
  const GpuKernels* kernelsOf(KernelFamily family) const {
    return kernelFaults[family].empty() ? kernels : nullptr;
  }
};

// At most kSmallModelBytes, and computed by CPU kernels (the emulated GPU has its own). Quantised
// weights count as they are multiplied.
inline bool isSmallOnCpu(const Model& model) {
  const int64_t bytes = model.parameterCount * static_cast<int64_t>(c10::elementSize(model.dtype));
  return model.device.is_cpu() && model.kernels == nullptr && bytes <= kSmallModelBytes;
}

struct LoadModelOptions {
  ModelSpec spec;
  TensorTable weights;
  at::Device device = at::kCPU;
  at::ScalarType dtype = at::kFloat;
  Quantization quantization = Quantization::kNone;
};

// Copies the weights into memory: the files may change or go away afterwards. They must hold every
// weight exactly once and nothing else. On the way to a device, and where it is quantised, a weight
// is read, changed and moved before the next one is read. Throws kBadFile or kBadShape naming the
// file and the tensor, kBadArgument for a spec that is inconsistent or out of range or whose
// matrices cannot be quantised.
std::shared_ptr<Model> loadModel(const LoadModelOptions& options, const Cancel& cancel);

// The name and a view of every parameter, in Hugging Face's naming; matrices must be plain. The
// parts of a fused tensor are views of its rows; a tied head is left out.
NamedTensors namedWeights(const ModelSpec& spec, const Weights& weights);

}  // namespace acoer
