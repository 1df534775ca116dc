// Loss, gradient accumulation and the optimiser step.
#pragma once

#include "forward.h"

namespace acoer {

enum class LossType { kGrpo, kBnpo, kDrGrpo, kDapo, kCispo, kSapo, kLuspo, kVespo };
enum class ImportanceLevel { kToken, kSequence };

// TRL 1.13's options under TRL's names and defaults.
struct LossSettings {
  LossType type = LossType::kGrpo;
  ImportanceLevel level = ImportanceLevel::kToken;
  double epsilonLow = 0.2;
  double epsilonHigh = 0.2;
  std::optional<double> delta;
  double beta = 0;
  bool klBiasCorrection = true;
  double temperature = 1;
  double sapoTemperaturePos = 1.0, sapoTemperatureNeg = 1.05;
  double vespoKPos = 2.0, vespoLambdaPos = 3.0, vespoKNeg = 3.0, vespoLambdaNeg = 2.0;
  // The whole step's divisor, so that how the step is cut into micro-batches cannot change the
  // gradient. Sequences for grpo, sapo and luspo; tokens for bnpo, dapo, cispo and vespo;
  // sequences * max completion length for dr_grpo.
  double normalizer = 1;
};

// Everything per completion token is flat, in the order of PackedSequences' completion tokens.
struct TrainBatch {
  PackedSequences sequences;
  std::vector<double> advantages;  // per token
  std::vector<uint8_t> mask;       // per token; 0 leaves a token out of the loss
  // Log-probs of the policy that sampled. Empty: the current ones, detached (on-policy).
  std::vector<double> oldLogprobs;
  std::vector<double> refLogprobs;        // only with beta != 0
  std::vector<double> importanceWeights;  // optional; multiplies each token's policy loss
  std::optional<DropoutKey> dropout;
};

struct AccumulateResult {
  double loss = 0;               // this micro-batch's share of the step's loss
  double klSum = 0;              // over unmasked tokens
  double entropySum = 0;         // over unmasked tokens
  double tokens = 0;             // unmasked tokens
  std::vector<double> logprobs;  // per token, of the current policy at `temperature`
  std::vector<double> entropies;
  // Per sequence: share of clipped tokens (TRL's clip_ratio metrics; cispo's in clippedHigh;
  // vespo's phi in vespoPhi).
  std::vector<double> clippedLow, clippedHigh, vespoPhi;
};

// Activations of a micro-batch up to this many bytes are kept for backward; above it each layer
// keeps its input alone and is run again. So it is also for a single sequence whose activations do
// not fit into memory.
constexpr int64_t kDefaultKeepBytes = int64_t{256} << 20;

// Adds the gradient of this micro-batch's loss to the policy's gradients. When log-probs or loss
// are not finite, throws kNotFinite; then, and after any other exception, the gradients are as
// before the call.
AccumulateResult accumulate(Policy& policy, const TrainBatch& batch, const LossSettings& loss,
                            const Cancel& cancel, int64_t keepBytes = kDefaultKeepBytes);

struct StepOptions {
  double learningRate = 0;
  double weightDecay = 0;
  double maxGradNorm = 0;  // 0: no clipping
};

struct StepResult {
  double gradNorm = 0;   // before clipping
  bool applied = false;  // false: the norm is not finite; parameters and state are unchanged
};

// One AdamW step over the accumulated gradients, which are cleared either way.
StepResult step(Policy& policy, const StepOptions& options);
void zeroGradients(Policy& policy);
// The accumulated gradients, by parameter name (tests and diagnosis).
std::vector<std::pair<std::string, at::Tensor>> gradients(const Policy& policy);

}  // namespace acoer
