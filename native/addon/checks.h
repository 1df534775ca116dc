// What must hold of arguments before the core sees them, so that no misuse reaches a kernel.
// Throws kBadArgument or kBadShape with a sentence; plain structs only.
#pragma once

#include "generate.h"
#include "train.h"

namespace acoer {

// Offsets, lengths and prompt lengths agree; at least one sequence.
void checkSequences(const PackedSequences& sequences);
void checkVocabulary(const std::vector<int32_t>& ids, const ModelConfig& config, const char* what);
void checkTrainBatch(const TrainBatch& batch);
void checkLoss(const LossSettings& loss, const TrainBatch& batch);
void checkTemperature(double temperature);  // > 0
void checkStep(const StepOptions& options);
void checkRequest(const GenerateRequest& request, const ModelConfig& config);

}  // namespace acoer
