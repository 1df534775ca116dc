// The kernels of scoring and training.
#include <ATen/ATen.h>

#include "ops/gpu_ops.h"
#include "selfcheck/figures.h"

namespace acoer {
namespace {

constexpr int64_t kTokens = 17;

at::Tensor wide(const at::Tensor& x) { return x.defined() ? x.to(at::kFloat) : x; }

// Norms of rows, forward with and without what is added before, and backward.
void checkNorms(Figures& figures) {
  const double eps = figures.spec().rmsNormEps;
  const int64_t D = figures.spec().hiddenSize;
  const at::Tensor weight_D = figures.normal({D}, 1, 0.1), delta_TD = figures.normal({kTokens, D});
  at::Tensor x_TD = figures.normal({kTokens, D});
  for (const bool adds : {false, true}) {
    figures.begin(figures.typed("norm"));
    const Guarded x(x_TD), y({kTokens, D}, figures.dtype(), figures.device()),
        inverse({kTokens, 1}, at::kFloat, figures.device());
    startNorm(figures.kernels(), x.tensor(), adds ? delta_TD : at::Tensor(), weight_D, eps,
              {y.tensor(), inverse.tensor()});
    const at::Tensor sum = adds ? wide(x_TD) + wide(delta_TD) : wide(x_TD);
    const Normed exact = rmsRotateByTensorOps(sum, wide(weight_D), eps, {});
    figures.expectNear(y, exact.y);
    figures.expectNear(inverse, exact.inverseRms);
    figures.expectNear(x, sum);

    figures.begin(figures.typed("norm_backward"));
    const at::Tensor dy_TD = figures.normal({kTokens, D});
    const at::Tensor residual = adds ? delta_TD : at::Tensor();
    const Guarded dx({kTokens, D}, figures.dtype(), figures.device());
    const at::Tensor exactDx = at::empty({kTokens, D}, at::device(figures.device()));
    const NormInputs inputs{x_TD,
                            rmsRotateByTensorOps(wide(x_TD), wide(weight_D), eps, {}).inverseRms,
                            weight_D,
                            {},
                            {}};
    gpuRmsRotateBackward(&figures.kernels(), dy_TD, inputs, residual, dx.tensor());
    rmsRotateBackward(nullptr, wide(dy_TD), {wide(x_TD), inputs.inverseRms, wide(weight_D), {}, {}},
                      wide(residual), exactDx);
    figures.expectNear(dx, exactDx);
  }
}

// Heads as a view of the fused projection, [T, heads, K].
struct HeadBlock {
  int64_t first, heads;  // columns in heads
  bool normed;
};

void checkHeads(Figures& figures, const HeadBlock& block) {
  const ModelSpec& spec = figures.spec();
  const int64_t K = spec.headDim, E = spec.qkvRows();
  const auto view = [&](const at::Tensor& qkv_TE) {
    return qkv_TE.narrow(1, block.first * K, block.heads * K).unflatten(1, {block.heads, K});
  };
  const at::Tensor weight_K = block.normed ? figures.normal({K}, 1, 0.1) : at::Tensor();
  const at::Tensor turns_TK = figures.normalIn(at::kFloat, {kTokens, K / 2});
  const auto angles = [&](bool sine) {
    const at::Tensor half = sine ? turns_TK.sin() : turns_TK.cos();
    return at::cat({half, half}, 1).to(figures.dtype());
  };
  const Angles given{angles(false), angles(true)};
  const Angles exactAngles{wide(given.cos_TK), wide(given.sin_TK)};
  const at::Tensor qkv_TE = figures.normal({kTokens, E}), wideQkv_TE = wide(qkv_TE);

  figures.begin(figures.typed("head_norm"));
  const Guarded y({kTokens, block.heads, K}, figures.dtype(), figures.device()),
      inverse({kTokens, block.heads, 1}, at::kFloat, figures.device());
  const Normed exact =
      rmsRotateByTensorOps(view(wideQkv_TE), wide(weight_K), spec.rmsNormEps, exactAngles);
  startHeadNorm(figures.kernels(), view(qkv_TE), weight_K, spec.rmsNormEps, given,
                {y.tensor(), block.normed ? inverse.tensor() : at::Tensor()});
  figures.expectNear(y, exact.y);
  if (block.normed) figures.expectNear(inverse, exact.inverseRms);

  figures.begin(figures.typed("head_norm_backward"));
  const at::Tensor dy_THK = figures.normal({kTokens, block.heads, K});
  const Guarded d({kTokens, E}, figures.dtype(), figures.device());
  const at::Tensor exactD_TE = at::empty({kTokens, E}, wideQkv_TE.options());
  gpuRmsRotateBackward(&figures.kernels(), dy_THK,
                       {view(qkv_TE), exact.inverseRms, weight_K, given, {}}, {}, view(d.tensor()));
  rmsRotateBackward(nullptr, wide(dy_THK),
                    {view(wideQkv_TE), exact.inverseRms, wide(weight_K), exactAngles, {}}, {},
                    view(exactD_TE));
  figures.expectUntouched(d);
  figures.expectNear(view(d.tensor()), view(exactD_TE));
  const int64_t written = kTokens * block.heads * K;
  if ((~d.tensor().isnan()).sum().item<int64_t>() != written) {
    figures.addFault("writes to other heads");
  }
}

void checkSwiglu(Figures& figures) {
  const int64_t F = figures.spec().intermediateSize;
  const at::Tensor gateUp_T2F = figures.normal({kTokens, 2 * F}),
                   dy_TF = figures.normal({kTokens, F});
  figures.begin(figures.typed("swiglu"));
  const Guarded act({kTokens, F}, figures.dtype(), figures.device());
  startSwiglu(figures.kernels(), gateUp_T2F, act.tensor());
  figures.expectNear(act, swigluForward(nullptr, wide(gateUp_T2F)));
  figures.begin(figures.typed("swiglu_backward"));
  const Guarded d({kTokens, 2 * F}, figures.dtype(), figures.device());
  startSwigluBackward(figures.kernels(), dy_TF, gateUp_T2F, d.tensor());
  figures.expectNear(d, swigluBackward(nullptr, wide(dy_TF), wide(gateUp_T2F)));
}

void checkLogProbs(Figures& figures) {
  constexpr int64_t kRows = 3;
  constexpr double kTemperature = 0.7;
  figures.begin(figures.typed("log_probs"));
  const int64_t V = figures.spec().vocabSize;
  const at::Tensor logits_CV = figures.normalIn(at::kFloat, {kRows, V});
  const at::Tensor targets_C =
      at::tensor(std::vector<int64_t>{0, V / 2, V - 1}).to(figures.device());
  const Guarded logprobs({kRows}, at::kFloat, figures.device()),
      entropies({kRows}, at::kFloat, figures.device()),
      narrow({kRows, V}, figures.dtype(), figures.device()), given(logits_CV);
  // In fp32 the probabilities take the place of the logits, as in training.
  const Guarded& probs = figures.dtype() == at::kFloat ? given : narrow;
  if (!gpuLogProbs(&figures.kernels(), given.tensor(), targets_C, kTemperature,
                   {logprobs.tensor(), entropies.tensor(), probs.tensor()})) {
    return;
  }
  const at::Tensor exact_CV = at::log_softmax(logits_CV.to(at::kDouble) / kTemperature, 1);
  const at::Tensor exactProbs_CV = exact_CV.exp();
  for (const Guarded* result : {&logprobs, &entropies}) figures.expectUntouched(*result);
  constexpr double kOfFloats = 1e-5;  // both are fp32 in every model
  figures.expectNear(logprobs.tensor(), exact_CV.gather(1, targets_C.unsqueeze(1)).squeeze(1),
                     kOfFloats);
  figures.expectNear(entropies.tensor(), -(exact_CV * exactProbs_CV).sum(1), kOfFloats);
  figures.expectNear(probs, exactProbs_CV);
}

}  // namespace

void checkTraining(Figures& figures) {
  const ModelSpec& spec = figures.spec();
  if (spec.hiddenSize % 8 == 0) checkNorms(figures);
  if (spec.headDim == 64 || spec.headDim == 96 || spec.headDim == 128) {
    checkHeads(figures, {0, spec.numHeads, spec.qkNorm});
    checkHeads(figures, {spec.numHeads, spec.numKvHeads, spec.qkNorm});
  }
  if (spec.intermediateSize % 8 == 0) checkSwiglu(figures);
  checkLogProbs(figures);
}

}  // namespace acoer
