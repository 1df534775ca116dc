#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/cpu/dispatch.h"
#include "ops/attention.h"

namespace acoer {
namespace {

// Rows, and keys, that are multiplied together: a block of scores stays in the nearest cache.
constexpr int64_t kBlock = 32;
// Beyond this the scores of a block of rows and the keys of a head fill the cache. The library's
// attention in bf16 is slower still: a whole prompt of 4,096 tokens takes it a third longer.
constexpr int64_t kLongest = 512, kLongestBf16 = 4096;

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
  SequenceAttention(const SequenceRows& sequence, int64_t headDim, bool backward)
      : length_(sequence.length),
        shared_(sequence.shared),
        headDim_(headDim),
        backward_(backward),
        width_(blocksOf(length_) * kBlock),
        panel_((headDim + math_.panelWidth - 1) / math_.panelWidth * math_.panelWidth),
        scale_(static_cast<T>(1 / std::sqrt(static_cast<double>(headDim)))),
        byKey_(scratch(width_ * headDim)),
        byValue_(scratch(width_ * (backward ? headDim : panel_))),
        keysAcross_(scratch(backward ? width_ * panel_ : 0)),
        scores_(scratch(kBlock * width_)),
        slopes_(scratch(backward ? kBlock * width_ : 0)),
        rows_(scratch(backward ? kBlock * panel_ : 0)) {}

  // Keys and values are those of all tokens, queries and outputs those of the sequence's own.
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
    forEachBlock(length_ - shared_, [&](int64_t first, int64_t rows) {
      computeWeights(q, first, rows);
      forEachBlock(keysOf(first, rows), [&](int64_t from, int64_t count) {
        math_.gemm(&scores_[at(from)], width_, &byValue_[at(from * panel_)], out.row(first), out.ld,
                   rows, headDim_, count, from > 0);
      });
    });
  }

  // Adds to dk and dv, writes dq.
  void backward(const HeadRows<T>& q, const HeadRows<T>& dOut, const HeadRows<T>& dq,
                const HeadRows<T>& dk, const HeadRows<T>& dv) {
    forEachBlock(length_ - shared_, [&](int64_t first, int64_t rows) {
      computeWeights(q, first, rows);
      math_.packTransposed(dOut.row(first), dOut.ld, headDim_, rows, T(1), rows_.get());
      forEachBlock(keysOf(first, rows), [&](int64_t from, int64_t count) {
        math_.gemm(dOut.row(first), dOut.ld, &byValue_[at(from * headDim_)], &slopes_[at(from)],
                   width_, rows, paddedKeys(count), headDim_, false);
        math_.gemmTransposed(&scores_[at(from)], width_, rows_.get(), dv.row(from), dv.ld, count,
                             headDim_, rows, true);
      });
      math_.softmaxRowsBackward(scores_.get(), slopes_.get(), width_, rows, shared_ + first + 1,
                                blocksOf(keysOf(first, rows)) * kBlock);
      math_.packTransposed(q.row(first), q.ld, headDim_, rows, scale_, rows_.get());
      forEachBlock(keysOf(first, rows), [&](int64_t from, int64_t count) {
        math_.gemm(&slopes_[at(from)], width_, &keysAcross_[at(from * panel_)], dq.row(first),
                   dq.ld, rows, headDim_, count, from > 0);
        math_.gemmTransposed(&slopes_[at(from)], width_, rows_.get(), dk.row(from), dk.ld, count,
                             headDim_, rows, true);
      });
    });
  }

 private:
  using Scratch = std::unique_ptr<T[]>;
  static Scratch scratch(int64_t size) {
    return std::make_unique_for_overwrite<T[]>(static_cast<size_t>(size));
  }
  static size_t at(int64_t i) { return static_cast<size_t>(i); }

  template <class Visit>
  static void forEachBlock(int64_t length, const Visit& visit) {
    for (int64_t from = 0; from < length; from += kBlock) {
      visit(from, std::min(kBlock, length - from));
    }
  }

  // Those of the packed blocks in which the keys of rows [first, first + rows) lie.
  int64_t keysOf(int64_t first, int64_t rows) const {
    return std::min(length_, blocksOf(shared_ + first + rows) * kBlock);
  }

  // Panels are whole, so whole vectors of scores are written.
  int64_t paddedKeys(int64_t count) const {
    return (count + math_.panelWidth - 1) / math_.panelWidth * math_.panelWidth;
  }

  // softmax(q k^T / sqrt(K)) of rows [first, first + rows) in scores_.
  void computeWeights(const HeadRows<T>& q, int64_t first, int64_t rows) {
    forEachBlock(keysOf(first, rows), [&](int64_t from, int64_t count) {
      math_.gemm(q.row(first), q.ld, &byKey_[at(from * headDim_)], &scores_[at(from)], width_, rows,
                 paddedKeys(count), headDim_, false);
    });
    math_.softmaxRows(scores_.get(), width_, rows, shared_ + first + 1,
                      blocksOf(keysOf(first, rows)) * kBlock);
  }

  const kernels::MathKernels<T>& math_ = kernels::mathKernels<T>();
  int64_t length_, shared_, headDim_;
  bool backward_;
  int64_t width_, panel_;
  T scale_;
  // For each block of keys: k to multiply queries by, v (forward: to multiply weights by; backward:
  // to multiply dOut by), and k to multiply the scores' gradients by.
  Scratch byKey_, byValue_, keysAcross_;
  Scratch scores_, slopes_;  // [kBlock, width_]
  Scratch rows_;             // packed: a block of dOut, then of q
};

// One head of a sequence in x: its rows where they lie, or a copy if some belong to an earlier one.
template <class T>
class WholeHead {
 public:
  WholeHead(const at::Tensor& x_THK, const SequenceRows& sequence, int64_t head)
      : own_(headRows<T>(x_THK, sequence.own, head)),
        prefix_(headRows<T>(x_THK, sequence.prefix, head)),
        shared_(sequence.shared),
        headDim_(x_THK.size(2)),
        copied_(static_cast<size_t>(shared_ > 0 ? sequence.length * headDim_ : 0)) {}

  HeadRows<T> rows() { return shared_ > 0 ? HeadRows<T>{copied_.data(), headDim_} : own_; }

  void copyIn() {
    for (int64_t t = 0; t < copiedRows(); ++t) {
      std::copy_n(source(t), headDim_, rows().row(t));
    }
  }
  void addOut() {
    for (int64_t t = 0; t < copiedRows(); ++t) {
      T* const to = source(t);
      const T* const from = rows().row(t);
      for (int64_t i = 0; i < headDim_; ++i) to[i] += from[i];
    }
  }

 private:
  int64_t copiedRows() const { return std::ssize(copied_) / headDim_; }
  T* source(int64_t t) const { return t < shared_ ? prefix_.row(t) : own_.row(t - shared_); }

  HeadRows<T> own_, prefix_;
  int64_t shared_, headDim_;
  std::vector<T> copied_;
};

// Calls `visit` with each sequence and kv head, in parallel but for sequences that share rows.
void forEachKvHead(const PackedLayout& layout, int64_t kvHeads,
                   const std::function<void(const SequenceRows& sequence, int64_t j)>& visit) {
  std::vector<size_t> starts;
  for (size_t b = 0; b < layout.sequences.size(); ++b) {
    if (layout.sequences[b].shared == 0) starts.push_back(b);
  }
  starts.push_back(layout.sequences.size());
  const int64_t items = (std::ssize(starts) - 1) * kvHeads;
  at::parallel_for(0, items, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const auto run = static_cast<size_t>(item / kvHeads);
      for (size_t b = starts[run]; b < starts[run + 1]; ++b) {
        visit(layout.sequences[b], item % kvHeads);
      }
    }
  });
}

}  // namespace

bool isSmallAttention(at::Device device, at::ScalarType type, int64_t longest) {
  return device.is_cpu() && longest <= (type == at::kBFloat16 ? kLongestBf16 : kLongest);
}

at::Tensor smallAttention(const Heads& heads, const PackedLayout& layout) {
  const at::Tensor &q_THK = heads.q_THK, &k_TJK = heads.k_TJK, &v_TJK = heads.v_TJK;
  const at::Tensor out_THK = at::empty(q_THK.sizes(), q_THK.options());
  const int64_t kvHeads = k_TJK.size(1), group = q_THK.size(1) / kvHeads;
  withMathType(q_THK, [&](auto type) {
    using T = decltype(type);
    forEachKvHead(layout, kvHeads, [&](const SequenceRows& sequence, int64_t j) {
      WholeHead<T> k(k_TJK, sequence, j), v(v_TJK, sequence, j);
      k.copyIn();
      v.copyIn();
      SequenceAttention<T> attention(sequence, q_THK.size(2), /*backward=*/false);
      attention.pack(k.rows(), v.rows());
      for (int64_t h = j * group; h < (j + 1) * group; ++h) {
        attention.forward(headRows<T>(q_THK, sequence.own, h),
                          headRows<T>(out_THK, sequence.own, h));
      }
    });
  });
  return out_THK;
}

Heads smallAttentionBackward(const Heads& heads, const at::Tensor& dOut_THK,
                             const PackedLayout& layout) {
  const at::Tensor &q_THK = heads.q_THK, &k_TJK = heads.k_TJK, &v_TJK = heads.v_TJK;
  const Heads d{at::empty(q_THK.sizes(), q_THK.options()),
                at::zeros(k_TJK.sizes(), k_TJK.options()),
                at::zeros(v_TJK.sizes(), v_TJK.options())};
  const int64_t kvHeads = k_TJK.size(1), group = q_THK.size(1) / kvHeads;
  withMathType(q_THK, [&](auto type) {
    using T = decltype(type);
    forEachKvHead(layout, kvHeads, [&](const SequenceRows& sequence, int64_t j) {
      WholeHead<T> k(k_TJK, sequence, j), v(v_TJK, sequence, j);
      k.copyIn();
      v.copyIn();
      SequenceAttention<T> attention(sequence, q_THK.size(2), /*backward=*/true);
      attention.pack(k.rows(), v.rows());
      WholeHead<T> dk(d.k_TJK, sequence, j), dv(d.v_TJK, sequence, j);
      for (int64_t h = j * group; h < (j + 1) * group; ++h) {
        const int64_t row = sequence.own;
        attention.backward(headRows<T>(q_THK, row, h), headRows<T>(dOut_THK, row, h),
                           headRows<T>(d.q_THK, row, h), dk.rows(), dv.rows());
      }
      dk.addOut();
      dv.addOut();
    });
  });
  return d;
}

}  // namespace acoer
