#include "ops/projection.h"

#include <ATen/ATen.h>

namespace acoer {

namespace {

// What the adapter of a target reads: x, times its mask under dropout.
struct AdapterInput {
  at::Tensor input_TI, mask_TI;
};

AdapterInput adapterInput(const Projection& p, Target target, const at::Tensor& x_TI) {
  if (!p.dropout) return {x_TI, {}};
  const at::Tensor mask_TI = dropoutMask(*p.dropout, p.layer, target, x_TI.size(1), x_TI.options());
  return {x_TI * mask_TI, mask_TI};
}

// y += scale (x A^T) B^T, to the columns of each pair.
void addPairs(const LoraTape& tape, const at::Tensor& y_TO) {
  for (const LoraTape::Group& group : tape.groups) {
    int64_t first = 0;  // of the pair's columns in down
    for (const auto& [pair, target, firstRow, rows] : group.members) {
      const int64_t rank = pair->rank();
      Matrix::forProducts(pair->b_OR.detach().to(y_TO.scalar_type()))
          .forwardInto(y_TO.narrow(1, firstRow, rows), group.down_TG.narrow(1, first, rank),
                       {.add = true, .scale = pair->scale});
      first += rank;
    }
  }
}

}  // namespace

void GradientSink::add(const at::Tensor& leaf, const at::Tensor& gradient) {
  Held& held = held_[leaf.unsafeGetTensorImpl()];
  if (held.gradient.defined()) {
    held.gradient.add_(gradient);
  } else {
    held = {leaf, gradient.to(leaf.scalar_type()).contiguous()};
  }
}

at::Tensor GradientSink::buffer(const at::Tensor& leaf) {
  Held& held = held_[leaf.unsafeGetTensorImpl()];
  if (!held.gradient.defined()) held = {leaf, at::zeros_like(leaf.detach())};
  return held.gradient;
}

at::Tensor GradientSink::held(const at::Tensor& leaf) const {
  const auto found = held_.find(leaf.unsafeGetTensorImpl());
  return found == held_.end() ? at::Tensor() : found->second.gradient;
}

LoraTape loraTape(const Projection& p, const at::Tensor& x_TI) {
  LoraTape tape;
  for (const AdaptedRows& adapted : p.adapted) {
    if (tape.groups.empty() || p.dropout) {
      const auto [input_TI, mask_TI] = adapterInput(p, adapted.target, x_TI);
      tape.groups.push_back({.input_TI = input_TI, .mask_TI = mask_TI});
    }
    tape.groups.back().members.push_back(adapted);
  }
  for (LoraTape::Group& group : tape.groups) {
    std::vector<at::Tensor> parts;
    for (const AdaptedRows& m : group.members) parts.push_back(m.pair->a_RI.detach());
    const at::Tensor all = parts.size() == 1 ? parts[0] : at::cat(parts);
    group.a = Matrix::forProducts(all.to(x_TI.scalar_type()));
    group.down_TG = group.a.forward(group.input_TI);
    if (p.dropout && remakesMasks(*p.dropout)) group.input_TI = group.mask_TI = at::Tensor();
  }
  return tape;
}

at::Tensor projectForward(const Projection& p, const at::Tensor& x_TI, LoraTape* tape) {
  at::Tensor y_TO = at::empty({x_TI.size(0), p.weight.outputs()}, x_TI.options());
  p.weight.forwardInto(y_TO, x_TI, {.bias_O = p.bias_O, .kernels = p.kernels});
  if (p.merged && !tape) return y_TO;
  LoraTape made = loraTape(p, x_TI);
  if (!p.merged) addPairs(made, y_TO);
  if (tape) *tape = std::move(made);
  return y_TO;
}

at::Tensor projectBackward(const Projection& p, const at::Tensor& dy_TO, const at::Tensor& x_TI,
                           const LoraTape& tape, GradientSink& sink, bool needsInput) {
  at::Tensor dx_TI = needsInput ? p.weight.backward(dy_TO, p.kernels) : at::Tensor();
  if (p.trainWeight) {
    sink.add(p.weight.plain(), weightGradient(dy_TO, x_TI));
    if (p.bias_O.defined()) sink.add(p.bias_O, dy_TO.sum(0));
  }
  for (const LoraTape::Group& group : tape.groups) {
    const auto [input_TI, mask_TI] = group.input_TI.defined()
                                         ? AdapterInput{group.input_TI, group.mask_TI}
                                         : adapterInput(p, group.members[0].target, x_TI);
    const at::Tensor dDown_TG = at::empty_like(group.down_TG);
    int64_t first = 0;  // of the pair's columns in down, and of its rows in a
    for (const auto& [pair, target, firstRow, rows] : group.members) {
      const int64_t rank = pair->rank();
      const at::Tensor dBlock_TO = dy_TO.narrow(1, firstRow, rows);
      Matrix::forProducts(pair->b_OR.detach().to(x_TI.scalar_type()))
          .backwardInto(dDown_TG.narrow(1, first, rank), dBlock_TO, {.scale = pair->scale});
      at::Tensor dB_OR = weightGradient(dBlock_TO, group.down_TG.narrow(1, first, rank));
      sink.add(pair->b_OR, dB_OR.mul_(pair->scale));
      first += rank;
    }
    const at::Tensor dA_GI = weightGradient(dDown_TG, input_TI);
    first = 0;
    for (const AdaptedRows& member : group.members) {
      const int64_t rank = member.pair->rank();
      sink.add(member.pair->a_RI, dA_GI.narrow(0, first, rank));
      first += rank;
    }
    if (!needsInput || p.merged) continue;
    if (mask_TI.defined()) {
      dx_TI.addcmul_(group.a.backward(dDown_TG), mask_TI);
    } else {
      group.a.backwardInto(dx_TI, dDown_TG, {.add = true});
    }
  }
  return dx_TI;
}

}  // namespace acoer
