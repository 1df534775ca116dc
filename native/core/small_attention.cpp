#include "small_attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "cpu_dispatch.h"

namespace acoer {
namespace {

// Rows, and keys, that are multiplied together: a block of scores stays in the nearest cache.
constexpr int64_t kBlock = 32;
// Beyond this the scores of a block of rows and the keys of a head fill the cache.
constexpr int64_t kLongest = 512;

int64_t blocksOf(int64_t length) { return (length + kBlock - 1) / kBlock; }

// The rows of one head of a sequence in x [T, heads, K].
template <class T>
struct HeadRows {
  T* data;
  int64_t ld;
  T* row(int64_t i) const { return data + i * ld; }
};

template <class T>
HeadRows<T> headRows(const at::Tensor& x_THK, int64_t row, int64_t head) {
  auto* data = static_cast<T*>(x_THK.data_ptr());
  return {data + row * x_THK.stride(0) + head * x_THK.stride(1), x_THK.stride(0)};
}

// The work on one sequence: packed keys and values of a kv head, scores of a block of rows.
template <class T>
class SequenceAttention {
 public:
  SequenceAttention(int64_t length, int64_t headDim, bool backward)
      : length_(length),
        headDim_(headDim),
        backward_(backward),
        width_(blocksOf(length) * kBlock),
        panel_((headDim + math_.panelWidth - 1) / math_.panelWidth * math_.panelWidth),
        scale_(static_cast<T>(1 / std::sqrt(static_cast<double>(headDim)))),
        byKey_(static_cast<size_t>(width_ * headDim)),
        byValue_(static_cast<size_t>(width_ * (backward ? headDim : panel_))),
        keysAcross_(static_cast<size_t>(backward ? width_ * panel_ : 0)),
        scores_(static_cast<size_t>(kBlock * width_)),
        slopes_(static_cast<size_t>(backward ? kBlock * width_ : 0)),
        rows_(static_cast<size_t>(backward ? kBlock * panel_ : 0)) {}

  void pack(const HeadRows<T>& k, const HeadRows<T>& v) {
    forEachBlock(length_, [&](int64_t from, int64_t count) {
      math_.pack(k.row(from), k.ld, count, headDim_, scale_, &byKey_[at(from * headDim_)]);
      if (!backward_) {
        return math_.packTransposed(v.row(from), v.ld, headDim_, count, T(1),
                                    &byValue_[at(from * panel_)]);
      }
      math_.pack(v.row(from), v.ld, count, headDim_, T(1), &byValue_[at(from * headDim_)]);
      math_.packTransposed(k.row(from), k.ld, headDim_, count, scale_,
                           &keysAcross_[at(from * panel_)]);
    });
  }

  void forward(const HeadRows<T>& q, const HeadRows<T>& out) {
    forEachBlock(length_, [&](int64_t first, int64_t rows) {
      computeWeights(q, first, rows);
      forEachBlock(first + rows, [&](int64_t from, int64_t count) {
        math_.gemm(&scores_[at(from)], width_, &byValue_[at(from * panel_)], out.row(first), out.ld,
                   rows, headDim_, count, from > 0);
      });
    });
  }

  // Adds to dk and dv, writes dq.
  void backward(const HeadRows<T>& q, const HeadRows<T>& dOut, const HeadRows<T>& dq,
                const HeadRows<T>& dk, const HeadRows<T>& dv) {
    forEachBlock(length_, [&](int64_t first, int64_t rows) {
      computeWeights(q, first, rows);
      math_.packTransposed(dOut.row(first), dOut.ld, headDim_, rows, T(1), rows_.data());
      forEachBlock(first + rows, [&](int64_t from, int64_t count) {
        math_.gemm(dOut.row(first), dOut.ld, &byValue_[at(from * headDim_)], &slopes_[at(from)],
                   width_, rows, paddedKeys(count), headDim_, false);
        math_.gemmTransposed(&scores_[at(from)], width_, rows_.data(), dv.row(from), dv.ld, count,
                             headDim_, rows, true);
      });
      math_.softmaxRowsBackward(scores_.data(), slopes_.data(), width_, rows, first + 1,
                                first + kBlock);
      math_.packTransposed(q.row(first), q.ld, headDim_, rows, scale_, rows_.data());
      forEachBlock(first + rows, [&](int64_t from, int64_t count) {
        math_.gemm(&slopes_[at(from)], width_, &keysAcross_[at(from * panel_)], dq.row(first),
                   dq.ld, rows, headDim_, count, from > 0);
        math_.gemmTransposed(&slopes_[at(from)], width_, rows_.data(), dk.row(from), dk.ld, count,
                             headDim_, rows, true);
      });
    });
  }

 private:
  static size_t at(int64_t i) { return static_cast<size_t>(i); }

  template <class Visit>
  static void forEachBlock(int64_t length, const Visit& visit) {
    for (int64_t from = 0; from < length; from += kBlock) {
      visit(from, std::min(kBlock, length - from));
    }
  }

  // Panels are whole, so whole vectors of scores are written.
  int64_t paddedKeys(int64_t count) const {
    return (count + math_.panelWidth - 1) / math_.panelWidth * math_.panelWidth;
  }

  // softmax(q k^T / sqrt(K)) of rows [first, first + rows) in scores_.
  void computeWeights(const HeadRows<T>& q, int64_t first, int64_t rows) {
    forEachBlock(first + rows, [&](int64_t from, int64_t count) {
      math_.gemm(q.row(first), q.ld, &byKey_[at(from * headDim_)], &scores_[at(from)], width_, rows,
                 paddedKeys(count), headDim_, false);
    });
    math_.softmaxRows(scores_.data(), width_, rows, first + 1, first + kBlock);
  }

  const kernels::MathKernels<T>& math_ = kernels::mathKernels<T>();
  int64_t length_, headDim_;
  bool backward_;
  int64_t width_, panel_;
  T scale_;
  // Of each block of keys: k to multiply queries by, v (forward: to multiply weights by; backward:
  // to multiply dOut by), and k to multiply the scores' gradients by.
  std::vector<T> byKey_, byValue_, keysAcross_;
  std::vector<T> scores_, slopes_;  // [kBlock, width_]
  std::vector<T> rows_;             // packed: a block of dOut, then of q
};

// Calls `visit` with the packed work of each sequence and kv head, the sequence's first row, and
// each head of the group, in parallel.
template <class T, class Visit>
void forEachHead(const at::Tensor& q_THK, const at::Tensor& k_TJK, const at::Tensor& v_TJK,
                 const PackedLayout& layout, bool backward, const Visit& visit) {
  const auto sequences = static_cast<int64_t>(layout.offsets.size()) - 1;
  const int64_t kvHeads = k_TJK.size(1), group = q_THK.size(1) / kvHeads;
  at::parallel_for(0, sequences * kvHeads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const auto b = static_cast<size_t>(item / kvHeads);
      const int64_t j = item % kvHeads, row = layout.offsets[b];
      SequenceAttention<T> attention(layout.offsets[b + 1] - row, q_THK.size(2), backward);
      attention.pack(headRows<T>(k_TJK, row, j), headRows<T>(v_TJK, row, j));
      for (int64_t h = j * group; h < (j + 1) * group; ++h) visit(attention, row, h, j);
    }
  });
}

}  // namespace

bool isSmallAttention(const at::Tensor& q_THK, const PackedLayout& layout) {
  if (!q_THK.is_cpu() || !hasMathType(q_THK)) return false;
  return std::all_of(layout.buckets.begin(), layout.buckets.end(),
                     [](const AttentionBucket& bucket) { return bucket.length <= kLongest; });
}

at::Tensor smallAttention(const at::Tensor& q_THK, const at::Tensor& k_TJK, const at::Tensor& v_TJK,
                          const PackedLayout& layout) {
  const at::Tensor out_THK = at::empty(q_THK.sizes(), q_THK.options());
  withMathType(q_THK, [&](auto type) {
    using T = decltype(type);
    forEachHead<T>(q_THK, k_TJK, v_TJK, layout, /*backward=*/false,
                   [&](auto& attention, int64_t row, int64_t h, int64_t) {
                     attention.forward(headRows<T>(q_THK, row, h), headRows<T>(out_THK, row, h));
                   });
  });
  return out_THK;
}

AttentionGradients smallAttentionBackward(const at::Tensor& q_THK, const at::Tensor& k_TJK,
                                          const at::Tensor& v_TJK, const at::Tensor& dOut_THK,
                                          const PackedLayout& layout) {
  const AttentionGradients d{at::empty(q_THK.sizes(), q_THK.options()),
                             at::zeros(k_TJK.sizes(), k_TJK.options()),
                             at::zeros(v_TJK.sizes(), v_TJK.options())};
  withMathType(q_THK, [&](auto type) {
    using T = decltype(type);
    forEachHead<T>(q_THK, k_TJK, v_TJK, layout, /*backward=*/true,
                   [&](auto& attention, int64_t row, int64_t h, int64_t j) {
                     attention.backward(headRows<T>(q_THK, row, h), headRows<T>(dOut_THK, row, h),
                                        headRows<T>(d.q_THK, row, h), headRows<T>(d.k_TJK, row, j),
                                        headRows<T>(d.v_TJK, row, j));
                   });
  });
  return d;
}

}  // namespace acoer
