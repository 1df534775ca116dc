// Included by one .cpp per instruction set, inside namespace acoer::kernels::<set>, after
// kVectorBytes and kRowBlock are defined. It uses GCC's vector types instead of intrinsics, so that
// one source serves every instruction set. No standard header may be included here: it would be
// compiled for the wrong set.

// clang-format off: the order matters
#include "kernels/cpu/vector_body.h"
#include "kernels/cpu/gemm_body.h"
#include "kernels/cpu/norms_body.h"
#include "kernels/cpu/rows_body.h"
#include "kernels/cpu/attention_body.h"
#include "kernels/cpu/sampler_body.h"
#include "kernels/cpu/quantised_body.h"
#include "kernels/cpu/bf16_products_body.h"
// clang-format on

template <class T>
constexpr RowKernels<T> rowTable() {
  return {rmsRotate<T>,
          rmsRotateBackward<T>,
          {writeHeads<T, T>, attend<T, T>},
          {writeHeads<T, int8_t>, attend<T, int8_t>},
          swiglu<T>,
          swigluBackward<T>};
}
template <class T>
constexpr MathKernels<T> mathTable() {
  return {kLanes<T>,     pack<T>,         packTransposed<T>,      gemm<T, false>,
          gemm<T, true>, softmaxRows<T>,  softmaxRowsBackward<T>, logitSums<T>,
          logitExps<T>,  softmaxLogits<T>};
}
constexpr KernelSet makeSet(const char* name) {
  return {name,
          /*bf16Products=*/false,
          rowTable<float>(),
          rowTable<double>(),
          rowTable<Bf16>(),
          mathTable<float>(),
          mathTable<double>(),
          {dequantise<float>, dequantise<Bf16>},
          productTable<VectorTile<WideningStep>>()};
}

#undef ACOER_INLINE
