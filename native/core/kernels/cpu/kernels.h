// The CPU kernels of decoding, compiled once per instruction set and selected at run time. They
// work on raw pointers, row by row, and are single-threaded: callers split the rows over threads.
//
// T is the type in memory (float, double, Bf16); sums are in Acc<T> (float, double, float). A row's
// result does not depend on which other rows are computed with it, bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace acoer::kernels {

struct Bf16 {
  uint16_t bits;
};

template <class T>
using Acc = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Keys are stored in tiles of this many positions, [L / 16, K, 16], so that the scores of adjacent
// positions are adjacent in a vector.
constexpr int64_t kKeyTile = 16;

// A cache's elements are of type C: T itself, or int8_t, codes from -127 to 127 with a scale for
// each position of each head, by which they are multiplied (kv_cache.h).
template <class T, class C>
constexpr bool kIsQuantized = !std::is_same_v<T, C>;

// The least scale, that of a head of zeros: its reciprocal is finite.
constexpr float kLeastScale = 1e-30f;

// The first `count` positions of a sequence, if it shares them with others: they are here, as
// [J, count, K] in the layouts of a cache, and its pages begin with the position after them.
template <class C>
struct SharedPositions {
  const C* keys_JLK = nullptr;  // tiled
  const C* values_JLK = nullptr;
  const float* keyScales_JL = nullptr;  // null unless the cache is quantised
  const float* valueScales_JL = nullptr;
  int64_t count = 0;  // a multiple of kKeyTile
};

// The attention of one layer in one step. Row r of qkv is q|k|v of the token at position[r] of the
// sequence whose positions lie in pages[r], in order, each of them full before the next begins.
template <class T, class C>
struct AttentionArgs {
  T* qkv_NE = nullptr;
  C* keys_SJLK = nullptr;  // of S pages; tiled, see kKeyTile
  C* values_SJLK = nullptr;
  float* keyScales_SJL = nullptr;  // null unless the cache is quantised
  float* valueScales_SJL = nullptr;
  T* out_NHK = nullptr;
  const int32_t* page_NT = nullptr;
  const int32_t* position_N = nullptr;
  const SharedPositions<C>* shared_N = nullptr;  // null: no row shares any
  int64_t rows = 0;                              // N
  int64_t heads = 0, kvHeads = 0, headDim = 0;
  int64_t pagesPerRow = 1;    // T
  int64_t pagePositions = 0;  // L: that a page has room for, a multiple of kKeyTile
  // Only for writeHeads:
  const T* qNorm_K = nullptr;  // null: no norm of queries
  const T* kNorm_K = nullptr;  // null: no norm of keys
  const Acc<T>* cos_PK = nullptr;
  const Acc<T>* sin_PK = nullptr;
  double eps = 0;
};

// `heads` rows of `width` values for each of `tokens`; strides are in values.
template <class T>
struct Rows {
  T* data = nullptr;
  int64_t tokens = 0, heads = 0, width = 0;
  int64_t tokenStride = 0, headStride = 0;
  T* row(int64_t token, int64_t head) const {
    return data + token * tokenStride + head * headStride;
  }
};

// y = rotate(x * weight / rms(x)).
template <class T>
struct RmsRotation {
  const T* weight = nullptr;  // [width]; null: no norm
  const T* cos = nullptr;     // [tokens, width]; null: no rotation
  const T* sin = nullptr;
  double eps = 0;
};

// What its backward reads besides dL/dy.
template <class T>
struct RmsRotationTape {
  Rows<const T> x;
  const Acc<T>* inverseRms = nullptr;  // 1 / rms(x) [tokens * heads]; unread without a weight
  const T* residual = nullptr;         // added to dL/dx, and laid out like it; may be null
};

// What reads and writes a cache of elements of type C.
template <class T, class C>
struct CacheKernels {
  // Head norm, if any, and RoPE on q and k, in place; then k and v go to the cache, and the row's
  // become what is read back from there. Rows [begin, end).
  void (*writeHeads)(const AttentionArgs<T, C>& args, int64_t begin, int64_t end);
  // out = softmax(q k^T / sqrt(K)) v over positions 0..position[r]; items [begin, end) of (kv head,
  // row), so that rows which see the same keys follow each other while a cache holds those.
  void (*attend)(const AttentionArgs<T, C>& args, int64_t begin, int64_t end);
};

template <class T>
struct RowKernels {
  // Tokens [from, to). `inverseRms` may be null.
  void (*rmsRotate)(const RmsRotation<T>& f, const Rows<const T>& x, const Rows<T>& y,
                    Acc<T>* inverseRms, int64_t from, int64_t to);
  // Writes dL/dx; adds to `dWeight` [width] if it is not null.
  void (*rmsRotateBackward)(const RmsRotation<T>& f, const RmsRotationTape<T>& tape,
                            const Rows<const T>& dy, const Rows<T>& dx, Acc<T>* dWeight,
                            int64_t from, int64_t to);
  CacheKernels<T, T> cache;
  CacheKernels<T, int8_t> int8Cache;
  // out[r, :width] = silu(gateUp[r, :width]) * gateUp[r, width:].
  void (*swiglu)(const T* gateUp, T* out, int64_t rows, int64_t width);
  // dL/dgateUp from dL/dout.
  void (*swigluBackward)(const T* gateUp, const T* dy, T* dGateUp, int64_t rows, int64_t width);
};

template <class T>
struct LogitSums {
  double max = 0;       // of the logits
  double sum = 0;       // Z = sum of exp(z), z = (logit - max) * invTemperature
  double weighted = 0;  // sum of z * exp(z)
};

// For float and double only.
template <class T>
struct MathKernels {
  int64_t panelWidth;  // columns of y computed from one panel of packed weights
  // packed[p][k][c] = scale * w[p * panelWidth + c][k], zero beyond `columns`.
  void (*pack)(const T* w, int64_t ldw, int64_t columns, int64_t depth, T scale, T* packed);
  // The same of w^T: packed[p][k][c] = scale * w[k][p * panelWidth + c].
  void (*packTransposed)(const T* w, int64_t ldw, int64_t columns, int64_t depth, T scale,
                         T* packed);
  // y [rows, columns] (+)= x [rows, depth] times what `pack` packed.
  void (*gemm)(const T* x, int64_t ldx, const T* packed, T* y, int64_t ldy, int64_t rows,
               int64_t columns, int64_t depth, bool add);
  // The same with x given as [depth, rows].
  void (*gemmTransposed)(const T* x, int64_t ldx, const T* packed, T* y, int64_t ldy, int64_t rows,
                         int64_t columns, int64_t depth, bool add);
  // Causal attention in training, a block of rows at a time; row r sees count + r positions, and
  // `width`, a multiple of kKeyTile, is the room for scores. In place: softmax, zero elsewhere.
  void (*softmaxRows)(T* scores, int64_t ld, int64_t rows, int64_t count, int64_t width);
  // In place: dL/dscores from dL/dsoftmax.
  void (*softmaxRowsBackward)(const T* softmax, T* d, int64_t ld, int64_t rows, int64_t count,
                              int64_t width);
  // blockSums[i] receives the part of `sum` that comes from the i-th kLogitBlock logits.
  LogitSums<T> (*logitSums)(const T* logits, int64_t count, double invTemperature,
                            double* blockSums);
  // out[i] = exp((logits[i] - max) * invTemperature): the terms of logitSums, bit for bit.
  void (*logitExps)(const T* logits, int64_t count, double max, double invTemperature, double* out);
  // The softmax of logits * invTemperature, in place or, if `narrowed` is not null, there; then
  // `logits` holds exponentials. Sums are in T within kLogitBlock logits.
  LogitSums<T> (*softmaxLogits)(T* logits, int64_t count, double invTemperature, Bf16* narrowed);
};
constexpr int64_t kLogitBlock = 512;

// Throws kBadArgument if ACOER_CPU_KERNELS names kernels that this machine does not have.
void checkKernelChoice();

// Whether this processor has instructions for products of bf16, as the library's bf16 kernels want.
bool hasBf16Products();

// Whether products of bf16 are computed by AMX's tiles here.
bool usesTiles();

template <class T>
const RowKernels<T>& rowKernels();  // float, double, Bf16
template <class T, class C>
const CacheKernels<T, C>& cacheKernels() {
  if constexpr (kIsQuantized<T, C>) {
    return rowKernels<T>().int8Cache;
  } else {
    return rowKernels<T>().cache;
  }
}
template <class T>
const MathKernels<T>& mathKernels();  // float, double

}  // namespace acoer::kernels
