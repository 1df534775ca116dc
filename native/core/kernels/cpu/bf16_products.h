// Products with a bf16 matrix, mostly weights that lie in panels, compiled once per instruction set
// and selected at run time. Sums are fp32, added in the order of the columns, and a row's result
// does not depend on which other rows are computed with it, bit for bit.
//
// A panel holds 16 rows of W [O, I], two columns at a time: [I / 2, 16, 2], zero where O or I ends.
// AMX and AVX-512-BF16 multiply this form as it is; elsewhere a pair is split into two fp32 vectors
// by a shift and a mask, with AVX-512 once for many rows. Panels lie in the order in which they are
// multiplied: in groups of kBlockPanels, the group's first kBlockPairs pairs of every panel, then
// the next ones.
#pragma once

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/quantised.h"

namespace acoer::kernels {

constexpr int64_t kPanelRows = 16;
constexpr int64_t kPanelLine = 2 * kPanelRows;  // numbers of one pair of columns

// Products are computed in blocks that the caches hold: kBlockPanels panels by kBlockPairs pairs of
// columns of W, for kBlockRows rows of x.
constexpr int64_t kBlockPanels = 16, kBlockPairs = 256, kBlockRows = 640;
constexpr int64_t kBlockColumns = kBlockPanels * kPanelRows;
constexpr int64_t kMostTileRows = 32;

// Where pair `pair` of panel `panel` begins, in numbers, of `panels` panels of `pairs` pairs.
constexpr int64_t panelPlace(int64_t panels, int64_t pairs, int64_t panel, int64_t pair) {
  const int64_t group = panel / kBlockPanels, block = pair / kBlockPairs;
  const int64_t panelsLeft = panels - group * kBlockPanels, pairsLeft = pairs - block * kBlockPairs;
  const int64_t inGroup = panelsLeft < kBlockPanels ? panelsLeft : kBlockPanels;
  const int64_t inBlock = pairsLeft < kBlockPairs ? pairsLeft : kBlockPairs;
  return (group * kBlockPanels * pairs + block * kBlockPairs * inGroup +
          panel % kBlockPanels * inBlock + pair % kBlockPairs) *
         kPanelLine;
}

// What a thread needs while it multiplies: 1.5 MB, or 1.0 with bf16 instructions, which leave
// `widened` unused.
struct ProductScratch {
  alignas(64) float sums[kBlockRows * kBlockColumns];
  alignas(64) Bf16 turned[kBlockPanels * kBlockPairs * kPanelLine];
  alignas(64) float widened[kBlockPanels * kBlockPairs * kPanelLine];
  // A tile's rows of x in the type that the set multiplies.
  alignas(64) unsigned char x[kMostTileRows * kBlockPairs * 2 * sizeof(float)];
  // Rows of a quantised W in bf16.
  alignas(64) Bf16 rows[kPanelRows * kBlockPairs * 2];
};

struct ProductArgs {
  const Bf16* x = nullptr;
  int64_t ldx = 0;
  const Bf16* w = nullptr;  // panels; for `plain` rows, ldw apart
  int64_t ldw = 0;
  const QuantisedWeight* quantised = nullptr;  // instead of w
  void* y = nullptr;                           // float if `wide`, else Bf16
  int64_t ldy = 0;
  bool wide = false;
  float scale = 1;
  bool add = false;                 // to what y holds, before the sum is rounded
  int64_t rows = 0;                 // of x and y
  int64_t outputs = 0, inputs = 0;  // O and I
};

// Computes columns [16 first, 16 last) of y.
using Product = void (*)(const ProductArgs&, int64_t first, int64_t last, ProductScratch*);

struct ProductKernels {
  Product forward;   // y (+)= scale x W^T: x [rows, I], y [rows, O]
  Product backward;  // y (+)= scale x W:   x [rows, O], y [rows, I]
  Product plain;     // the same of a W that does not lie in panels
  // As forward and backward, of a quantised W: its blocks are brought into panels as they are
  // multiplied.
  Product quantisedForward, quantisedBackward;
};
const ProductKernels& productKernels();

}  // namespace acoer::kernels
