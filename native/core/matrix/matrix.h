// Weight matrices and all products with them. In which form a matrix lies in memory is known in
// this room alone: a new form is a member of Matrix::Form, a case in matrix.cpp and its products.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "matrix/quantised.h"

namespace acoer {

class GpuKernels;
class QuantisedScratch;

// What forwardInto() and backwardInto() do with the product.
struct Into {
  bool add = false;     // to what the target holds
  double scale = 1;     // times the product
  at::Tensor bias_O{};  // forward only: to this instead, and rounded once; undefined: none
  // Quantised matrices only: our CUDA kernels for them; null: without them.
  const GpuKernels* kernels = nullptr;
};
// Fills the rows of y with the bias, if there is one. Whether the product is to be added to y.
bool startFrom(const at::Tensor& y_TO, const Into& into);
// y (+)= scale x W by the library, also where GPU kernels are emulated on a CPU: it is what a CUDA
// graph records. y may be fp32 although x and W are bf16, if it is neither scaled nor added to.
void libraryProductInto(at::Tensor y, const at::Tensor& x, const at::Tensor& w, bool add,
                        double scale);

// W [O, I]. Copies share its memory.
class Matrix {
 public:
  enum class Form {
    kPlain,   // row after row; multiplied by the library or, if small, by our own products
    kPanels,  // bf16 on a CPU: in panels (panels.h), and there is no plain copy
    kPacked,  // fp32 or fp64 on a CPU: plain, and packed once for many forward products
              // (small_products.h), whose rows do not depend on each other
    kNf4,     // 4 or 8 bits a weight (quantised.h), and there is no plain copy: products are those
    kInt8,    // of the dequantised weights, rounded to type()
  };

  Matrix() = default;  // undefined
  explicit Matrix(at::Tensor w_OI);
  // As a model keeps it: on `device`, and on a CPU in panels if it is bf16 and of whole panels.
  // Takes over the memory of `w_OI`, which must not be used afterwards.
  static Matrix ofModel(const at::Tensor& w_OI, at::Device device);
  // As products read it fastest if they are few: in panels of its own where it is bf16 on a CPU.
  static Matrix forProducts(const at::Tensor& w_OI);
  // A quantised one, which is multiplied with rows of `type`. `scratch`: that of the model's
  // others; null: one of its own.
  Matrix(Quantised quantised, at::ScalarType type,
         std::shared_ptr<QuantisedScratch> scratch = nullptr);
  // The same matrix in another form, in memory of its own. Panels stay what they are, and quantised
  // ones, too, unless they are packed: then these are the dequantised weights.
  Matrix in(Form form) const;

  bool defined() const { return memory_.defined(); }
  bool isSame(const Matrix& other) const { return memory_.is_same(other.memory_); }
  Form form() const { return form_; }
  int64_t outputs() const { return outputs_; }  // O
  int64_t inputs() const { return inputs_; }    // I
  at::ScalarType type() const { return type_; }
  at::Device device() const { return memory_.device(); }
  // The memory of W: where it is moved or trained; of a quantised one the codes.
  const at::Tensor& memory() const { return memory_; }
  int64_t bytes() const;  // that it takes, quantised with its scales
  // W as a tensor [O, I]. Throws kInternal for a matrix in panels and for a quantised one.
  const at::Tensor& plain() const;
  // Its weights as a tensor [O, I] of type(): plain() where there is one, else a copy.
  at::Tensor values() const;
  bool isQuantised() const { return quantised_ != nullptr; }
  // Null if it is not.
  const Quantised* quantised() const { return quantised_.get(); }

  // Products are computed with grad mode off. x, dx [T, I] and y, dy [T, O] are of W's type; their
  // rows may be parts of longer rows.

  // y = x W^T. `wide`: in fp32 although x and W are bf16.
  at::Tensor forward(const at::Tensor& x_TI, bool wide = false) const;
  // y (+)= scale x W^T; y may be fp32 although x and W are bf16, if it is neither scaled nor added
  // to (in panels it may be).
  void forwardInto(const at::Tensor& y_TO, const at::Tensor& x_TI, const Into& into = {}) const;
  // dx = dy W.
  at::Tensor backward(const at::Tensor& dy_TO, const GpuKernels* kernels = nullptr) const;
  // dx (+)= scale dy W; dx may also be of backwardType().
  void backwardInto(const at::Tensor& dx_TI, const at::Tensor& dy_TO, const Into& into = {}) const;
  // The most precise type that backwardInto() sums in and writes: fp32 for bf16 in panels.
  at::ScalarType backwardType() const;

  // Rows W[ids], [N, I].
  at::Tensor rows(const at::Tensor& ids_N) const;
  // The same into `rows_NI`; takes no memory where W is plain.
  void rowsInto(const at::Tensor& rows_NI, const at::Tensor& ids_N) const;
  // Row W[id] to host memory; W must be on a CPU.
  void copyRow(int64_t id, void* out) const;

 private:
  // In panels, in memory or on the way into a product: bf16 on a CPU.
  bool multipliesPanels() const;
  void quantisedForward(const at::Tensor& y_TO, const at::Tensor& x_TI, double scale,
                        bool add) const;
  void quantisedBackward(const at::Tensor& dx_TI, const at::Tensor& dy_TO, double scale,
                         bool add) const;
  int64_t dequantisedAtATime() const;  // rows
  // Whether the kernels of a product, if there are any, take this matrix.
  bool multipliesOnGpu(const Into& into) const;

  Form form_ = Form::kPlain;
  at::Tensor memory_;                           // plain, panels or codes
  at::Tensor packed_;                           // kPacked only
  std::shared_ptr<const Quantised> quantised_;  // kNf4 and kInt8 only
  std::shared_ptr<QuantisedScratch> scratch_;   // for them on a card
  at::ScalarType type_ = at::kFloat;
  int64_t outputs_ = 0, inputs_ = 0;
};

// dW = dy^T x, [O, I]; in fp32 for bf16 on a CPU, where the library's bf16 product is slower.
at::Tensor weightGradient(const at::Tensor& dy_TO, const at::Tensor& x_TI);

}  // namespace acoer
