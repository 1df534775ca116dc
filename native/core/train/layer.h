// One decoder layer over a packed batch: forward, and a hand-written backward.
#pragma once

#include <optional>

#include "ops/attention.h"
#include "ops/norm.h"
#include "ops/projection.h"

namespace acoer {

// What all parts of a pass multiply by.
struct PassWeights {
  Weights weights;      // the policy's or the base's
  bool merged = false;  // they hold the adapters (adapters.h)
};
PassWeights passWeights(const Model& model, const Policy* policy,
                        const std::optional<DropoutKey>& dropout);

// Shared by all layers of a pass.
struct LayerPass : PassWeights {
  const Model& model;
  const Policy* policy;  // null: the base
  PackedLayout layout;
  Angles angles;
  std::optional<DropoutPlan> dropout;
};
LayerPass makeLayerPass(const Model& model, const Policy* policy, const PassWeights& weights,
                        const PackedSequences& batch, const std::optional<DropoutKey>& dropout);

// What backward needs. A tape with only `x_TD` is a checkpoint: the rest is recomputed.
struct LayerTape {
  at::Tensor x_TD;
  Normed inputNorm, postNorm;
  at::Tensor qkv_TE;
  at::Tensor qInverseRms, kInverseRms;
  AttentionTape attention;
  at::Tensor attended_TQ;  // [T, H*K]
  at::Tensor middle_TD;    // x + attention block
  at::Tensor gateUp_T2F;
  at::Tensor activated_TF;
  LoraTape qkvLora, oLora, gateUpLora, downLora;
};

// Fills `tape` from x without computing the layer's output. Call with grad mode off.
void layerRecompute(const LayerPass& pass, size_t layer, const at::Tensor& x_TD, LayerTape& tape);

// [T, D] -> [T, D]. Fills `tape` if it is not null. Call with grad mode off.
at::Tensor layerForward(const LayerPass& pass, size_t layer, const at::Tensor& x_TD,
                        LayerTape* tape);

// dL/dx from dL/dy; undefined unless `needsInput`. Consumes the tape.
at::Tensor layerBackward(const LayerPass& pass, size_t layer, LayerTape& tape,
                         const at::Tensor& dy_TD, GradientSink& sink, bool needsInput);

// An estimate, before it is filled, of the bytes that a full tape of one layer takes for this
// batch.
int64_t layerTapeBytes(const LayerPass& pass);

// Append the tensors that `pass` or `tape` holds, including undefined ones. A pass owns weights
// only if they are merged.
void listTensors(const LayerPass& pass, std::vector<at::Tensor>& tensors);
void listTensors(const LayerTape& tape, std::vector<at::Tensor>& tensors);

}  // namespace acoer
