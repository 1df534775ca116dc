// Included by one .cpp per instruction set, inside namespace acoer::kernels::<set>, after
// kVectorBytes and kRowBlock are defined. It uses GCC's vector types instead of intrinsics, so that
// one source serves every instruction set. No standard header may be included here: it would be
// compiled for the wrong set.

// clang-format off: the order matters
#include "cpu_kernels_vector_body.h"
#include "cpu_kernels_gemm_body.h"
#include "cpu_kernels_norms_body.h"
#include "cpu_kernels_rows_body.h"
#include "cpu_kernels_attention_body.h"
#include "cpu_kernels_sampler_body.h"
#include "bf16_products_body.h"
// clang-format on

template <class T>
constexpr RowKernels<T> rowTable() {
  return {rmsRotate<T>, rmsRotateBackward<T>, writeHeads<T>, attend<T>,
          swiglu<T>,    swigluBackward<T>};
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
          productTable<VectorTile<WideningStep>>()};
}

#undef ACOER_INLINE
