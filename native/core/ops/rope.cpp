#include "ops/rope.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "ops/ops.h"

namespace acoer {

namespace {

constexpr double kTurn = 2 * M_PI;

// Wavelengths beyond the original context are stretched by the factor, those far below it are kept,
// and those between are mixed.
at::Tensor llama3Frequencies(const at::Tensor& plain, const RopeScaling& scaling) {
  const double low = scaling.lowFrequencyFactor, high = scaling.highFrequencyFactor;
  const at::Tensor wavelength = plain.reciprocal() * kTurn;
  const at::Tensor isLong = wavelength > scaling.originalPositions / low;
  const at::Tensor isShort = wavelength < scaling.originalPositions / high;
  const at::Tensor stretched = at::where(isLong, plain / scaling.factor, plain);
  const at::Tensor keep =
      (wavelength.reciprocal() * scaling.originalPositions - low) / (high - low);
  const at::Tensor mixed = (1 - keep) * stretched / scaling.factor + keep * stretched;
  return at::where(at::logical_or(isLong, isShort), stretched, mixed);
}

// Which frequency, as an index that need not be whole, makes `turns` within the original context.
double yarnIndex(double turns, const ModelSpec& spec) {
  return static_cast<double>(spec.headDim) *
         std::log(spec.ropeScaling.originalPositions / (turns * kTurn)) /
         (2 * std::log(spec.ropeTheta));
}

// Frequencies with many turns in the original context are kept, those with few are divided by the
// factor, with a linear ramp between.
at::Tensor yarnFrequencies(const at::Tensor& periods, const ModelSpec& spec) {
  const RopeScaling& scaling = spec.ropeScaling;
  double first = yarnIndex(scaling.betaFast, spec), last = yarnIndex(scaling.betaSlow, spec);
  if (scaling.truncate) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, static_cast<double>(spec.headDim - 1));
  if (first == last) last += 0.001;  // no division by zero
  const at::Tensor index = at::arange(spec.headDim / 2, periods.options());
  const at::Tensor keep = 1 - ((index - first) / (last - first)).clamp(0, 1);
  return (periods * scaling.factor).reciprocal() * (1 - keep) + periods.reciprocal() * keep;
}

}  // namespace

at::Tensor ropeFrequencies(const ModelSpec& spec, at::ScalarType dtype) {
  const auto options = at::TensorOptions().dtype(dtype);
  const at::Tensor exponent = at::arange(0, spec.headDim, 2, options) / spec.headDim;
  const at::Tensor periods = at::pow(spec.ropeTheta, exponent);  // up to a full turn
  switch (spec.ropeScaling.kind) {
    case RopeScaling::Kind::kLlama3:
      return llama3Frequencies(periods.reciprocal(), spec.ropeScaling);
    case RopeScaling::Kind::kYarn:
      return yarnFrequencies(periods, spec);
    case RopeScaling::Kind::kNone:
      break;
  }
  return periods.reciprocal();
}

RopeTable ropeTable(const ModelSpec& spec, int64_t positions, at::Device device,
                    at::ScalarType dtype) {
  // Rounded as in transformers: frequency, product, cosine and its factor in fp32.
  const at::Tensor frequency = ropeFrequencies(spec, wideType(dtype));
  const at::Tensor angle = at::arange(positions, frequency.options()).unsqueeze(1) * frequency;
  const at::Tensor both_PK = at::cat({angle, angle}, 1);
  const double factor = spec.ropeScaling.attentionFactor;
  return {onDevice(at::cos(both_PK).mul_(factor), device),
          onDevice(at::sin(both_PK).mul_(factor), device)};
}

at::Tensor applyRope(const at::Tensor& x_THK, const at::Tensor& cos_TK, const at::Tensor& sin_TK) {
  const auto halves = x_THK.chunk(2, -1);
  const at::Tensor rotated = at::cat({-halves[1], halves[0]}, -1);
  return x_THK * cos_TK.unsqueeze(1) + rotated * sin_TK.unsqueeze(1);
}

}  // namespace acoer
