#include "train/layer.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "ops/adapters.h"
#include "ops/ops.h"
#include "ops/rope.h"

namespace acoer {

namespace {

Projection makeProjection(const LayerPass& pass, size_t layer, const FusedMatrix& fused) {
  Projection p;
  p.weight = pass.weights.layers[layer].*fused.weights;
  p.layer = static_cast<int64_t>(layer);
  p.kernels = pass.model.kernelsOf(KernelFamily::kQuantised);
  if (!pass.policy) return p;
  p.trainWeight = !pass.policy->isLora();
  if (pass.policy->isLora()) {
    p.adapted = adaptedRows(*pass.policy, layer, fused);
    p.merged = pass.merged;
  }
  if (pass.dropout) p.dropout = &*pass.dropout;
  return p;
}

struct LayerProjections {
  Projection qkv, o, gateUp, down;
};

LayerProjections projections(const LayerPass& pass, size_t layer) {
  LayerProjections all{makeProjection(pass, layer, kFusedQkv), makeProjection(pass, layer, kFusedO),
                       makeProjection(pass, layer, kFusedGateUp),
                       makeProjection(pass, layer, kFusedDown)};
  all.qkv.bias_O = pass.weights.layers[layer].qkvBias_E;
  return all;
}

// What the backward of a norm reads, and where the gradient of its weight goes.
NormInputs normInputs(const LayerPass& pass, const at::Tensor& x, const at::Tensor& inverseRms,
                      const at::Tensor& weight, GradientSink& sink, const Angles& angles = {}) {
  const bool trained = pass.policy && !pass.policy->isLora() && weight.defined();
  return {x, inverseRms, weight, angles, trained ? sink.buffer(weight) : at::Tensor()};
}

at::Tensor attentionForward(const LayerPass& pass, const LayerWeights& w, const at::Tensor& qkv_TE,
                            LayerTape* tape) {
  const ModelSpec& spec = pass.model.spec;
  const GpuKernels* kernels = pass.model.kernelsOf(KernelFamily::kTraining);
  const Heads heads = splitHeads(spec, qkv_TE);
  const Normed q = rmsRotate(kernels, heads.q_THK, w.qNorm_K, spec.rmsNormEps, pass.angles);
  const Normed k = rmsRotate(kernels, heads.k_TJK, w.kNorm_K, spec.rmsNormEps, pass.angles);
  if (tape) {
    tape->qInverseRms = q.inverseRms;
    tape->kInverseRms = k.inverseRms;
  }
  return attention({q.y, k.y, heads.v_TJK}, pass.layout, tape ? &tape->attention : nullptr)
      .flatten(1);
}

// dL/dqkv [T, E] from the gradient of the attended heads [T, H*K].
at::Tensor attentionInputBackward(const LayerPass& pass, const LayerWeights& w, LayerTape& tape,
                                  const at::Tensor& dAttended_TQ, GradientSink& sink) {
  const ModelSpec& spec = pass.model.spec;
  const GpuKernels* kernels = pass.model.kernelsOf(KernelFamily::kTraining);
  const Heads d = attentionBackward(
      tape.attention, dAttended_TQ.unflatten(1, {spec.numHeads, spec.headDim}), pass.layout);
  tape.attention = {};
  const at::Tensor dqkv_TE = at::empty_like(tape.qkv_TE);
  const Heads target = splitHeads(spec, dqkv_TE), raw = splitHeads(spec, tape.qkv_TE);
  rmsRotateBackward(kernels, d.q_THK,
                    normInputs(pass, raw.q_THK, tape.qInverseRms, w.qNorm_K, sink, pass.angles), {},
                    target.q_THK);
  rmsRotateBackward(kernels, d.k_TJK,
                    normInputs(pass, raw.k_TJK, tape.kInverseRms, w.kNorm_K, sink, pass.angles), {},
                    target.k_TJK);
  target.v_TJK.copy_(d.v_TJK);
  return dqkv_TE;
}

bool drops(const Policy* policy, const std::optional<DropoutKey>& dropout) {
  return dropout && policy && policy->isLora() && policy->options.dropout > 0;
}

// Other attention than our own takes whole sequences; dropout's masks differ between them.
bool sharesPrompts(const Model& model, const PackedSequences& batch, bool dropping) {
  int64_t longest = 0;
  for (size_t b = 0; b < batch.promptLengths.size(); ++b) {
    longest = std::max(longest, batch.offsets[b + 1] - batch.offsets[b]);
  }
  return !dropping && isSmallAttention(model.device, model.dtype, longest);
}

// A layer up to the input of its last linear.
struct LayerInner {
  at::Tensor middle_TD, activated_TF;
};

LayerInner runInner(const LayerPass& pass, const LayerWeights& w, const LayerProjections& p,
                    const at::Tensor& x_TD, LayerTape* tape) {
  const double eps = pass.model.spec.rmsNormEps;
  const GpuKernels* kernels = pass.model.kernelsOf(KernelFamily::kTraining);
  Normed inputNorm = rmsRotate(kernels, x_TD, w.inputNorm_D, eps);
  const at::Tensor qkv_TE = projectForward(p.qkv, inputNorm.y, tape ? &tape->qkvLora : nullptr);
  const at::Tensor attended_TQ = attentionForward(pass, w, qkv_TE, tape);
  // The block's output, and from the norm on the residual stream.
  const at::Tensor middle_TD = projectForward(p.o, attended_TQ, tape ? &tape->oLora : nullptr);
  Normed postNorm = addAndNorm(kernels, middle_TD, x_TD, w.postNorm_D, eps);
  const at::Tensor gateUp_T2F =
      projectForward(p.gateUp, postNorm.y, tape ? &tape->gateUpLora : nullptr);
  const at::Tensor activated_TF = swigluForward(kernels, gateUp_T2F);
  if (tape) {
    tape->x_TD = x_TD;
    tape->inputNorm = std::move(inputNorm);
    tape->postNorm = std::move(postNorm);
    tape->qkv_TE = qkv_TE;
    tape->attended_TQ = attended_TQ;
    tape->middle_TD = middle_TD;
    tape->gateUp_T2F = gateUp_T2F;
    tape->activated_TF = activated_TF;
  }
  return {middle_TD, activated_TF};
}

}  // namespace

PassWeights passWeights(const Model& model, const Policy* policy,
                        const std::optional<DropoutKey>& dropout) {
  if (!policy) return {model.weights};
  if (!policy->isLora() || drops(policy, dropout) || !mergesAdapters(model)) {
    return {policy->weights()};
  }
  return {mergedWeights(*policy), /*merged=*/true};
}

LayerPass makeLayerPass(const Model& model, const Policy* policy, const PassWeights& weights,
                        const PackedSequences& batch, const std::optional<DropoutKey>& dropout) {
  const bool dropping = drops(policy, dropout);
  LayerPass pass{weights, model,
                 policy,  makeLayout(batch, model.device, sharesPrompts(model, batch, dropping)),
                 {},      std::nullopt};
  const RopeTable table = ropeTable(model.spec, pass.layout.longest, model.device, model.dtype);
  pass.angles.cos_TK = table.cos_PK.to(model.dtype).index_select(0, pass.layout.positions_T);
  pass.angles.sin_TK = table.sin_PK.to(model.dtype).index_select(0, pass.layout.positions_T);
  if (dropping) {
    pass.dropout = makeDropoutPlan(batch, *dropout, policy->options.dropout,
                                   model.kernelsOf(KernelFamily::kDropout), model.device);
  }
  return pass;
}

at::Tensor layerForward(const LayerPass& pass, size_t layer, const at::Tensor& x_TD,
                        LayerTape* tape) {
  const LayerProjections p = projections(pass, layer);
  const LayerInner inner = runInner(pass, pass.weights.layers[layer], p, x_TD, tape);
  at::Tensor y_TD = projectForward(p.down, inner.activated_TF, tape ? &tape->downLora : nullptr);
  return y_TD.add_(inner.middle_TD);
}

void layerRecompute(const LayerPass& pass, size_t layer, const at::Tensor& x_TD, LayerTape& tape) {
  const LayerProjections p = projections(pass, layer);
  const LayerInner inner = runInner(pass, pass.weights.layers[layer], p, x_TD, &tape);
  tape.downLora = loraTape(p.down, inner.activated_TF);
}

at::Tensor layerBackward(const LayerPass& pass, size_t layer, LayerTape& tape,
                         const at::Tensor& dy_TD, GradientSink& sink, bool needsInput) {
  const LayerWeights& w = pass.weights.layers[layer];
  const LayerProjections p = projections(pass, layer);
  const GpuKernels* kernels = pass.model.kernelsOf(KernelFamily::kTraining);
  const at::Tensor dActivated_TF =
      projectBackward(p.down, dy_TD, tape.activated_TF, tape.downLora, sink);
  const at::Tensor dGateUp_T2F = swigluBackward(kernels, dActivated_TF, tape.gateUp_T2F);
  const at::Tensor dPost_TD =
      projectBackward(p.gateUp, dGateUp_T2F, tape.postNorm.y, tape.gateUpLora, sink);
  const at::Tensor dMiddle_TD = at::empty_like(tape.middle_TD);
  rmsRotateBackward(kernels, dPost_TD,
                    normInputs(pass, tape.middle_TD, tape.postNorm.inverseRms, w.postNorm_D, sink),
                    dy_TD, dMiddle_TD);
  const at::Tensor dAttended_TQ =
      projectBackward(p.o, dMiddle_TD, tape.attended_TQ, tape.oLora, sink);
  const at::Tensor dqkv_TE = attentionInputBackward(pass, w, tape, dAttended_TQ, sink);
  const at::Tensor dInput_TD =
      projectBackward(p.qkv, dqkv_TE, tape.inputNorm.y, tape.qkvLora, sink, needsInput);
  if (!needsInput) return {};
  const at::Tensor dx_TD = at::empty_like(tape.x_TD);
  rmsRotateBackward(kernels, dInput_TD,
                    normInputs(pass, tape.x_TD, tape.inputNorm.inverseRms, w.inputNorm_D, sink),
                    dMiddle_TD, dx_TD);
  return dx_TD;
}

int64_t layerTapeBytes(const LayerPass& pass) {
  const ModelSpec& spec = pass.model.spec;
  int64_t perToken =
      4 * spec.hiddenSize + spec.qkvRows() + spec.qRows() + 3 * spec.intermediateSize;
  if (pass.dropout && !remakesMasks(*pass.dropout)) {
    // Each adapter keeps its masked input and the mask.
    for (int target = 0; target < kNumTargets; ++target) {
      if (!pass.policy->options.targets[static_cast<size_t>(target)]) continue;
      perToken += 2 * targetShape(spec, static_cast<Target>(target)).in;
    }
  }
  const int64_t perPaddedRow = spec.qkvRows() + spec.qRows();
  return (perToken * pass.layout.tokens + perPaddedRow * pass.layout.paddedRows) *
         static_cast<int64_t>(c10::elementSize(pass.model.dtype));
}

void listTensors(const LayerPass& pass, std::vector<at::Tensor>& tensors) {
  const PackedLayout& l = pass.layout;
  tensors.insert(tensors.end(),
                 {l.toPadded_P, l.toPacked_T, l.isPadding_P, l.ids_T, l.positions_T, l.completion_N,
                  l.targets_N, pass.angles.cos_TK, pass.angles.sin_TK});
  if (pass.dropout) tensors.push_back(pass.dropout->onDevice_2T);
  if (!pass.merged) return;
  for (size_t layer = 0; layer < pass.weights.layers.size(); ++layer) {
    for (const FusedMatrix& fused : kFusedMatrices) {
      const Matrix& w = pass.weights.layers[layer].*fused.weights;
      const Matrix& own = pass.model.weights.layers[layer].*fused.weights;
      if (!w.isSame(own)) tensors.push_back(w.memory());
    }
  }
}

void listTensors(const LayerTape& tape, std::vector<at::Tensor>& tensors) {
  tensors.insert(tensors.end(),
                 {tape.x_TD, tape.inputNorm.y, tape.inputNorm.inverseRms, tape.postNorm.y,
                  tape.postNorm.inverseRms, tape.qkv_TE, tape.qInverseRms, tape.kInverseRms,
                  tape.attended_TQ, tape.middle_TD, tape.gateUp_T2F, tape.activated_TF});
  const AttentionTape& attention = tape.attention;
  const Heads& own = attention.own;
  tensors.insert(tensors.end(), {own.q_THK, own.k_TJK, own.v_TJK});
  for (const AttentionTape::Call& call : attention.calls) {
    tensors.insert(tensors.end(), {call.q, call.k, call.v, call.out});
  }
  for (const LoraTape* lora : {&tape.qkvLora, &tape.oLora, &tape.gateUpLora, &tape.downLora}) {
    for (const LoraTape::Group& group : lora->groups) {
      tensors.insert(tensors.end(),
                     {group.input_TI, group.mask_TI, group.a.memory(), group.down_TG});
    }
  }
}

}  // namespace acoer
