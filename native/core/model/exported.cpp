#include "model/exported.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "model/lora.h"

namespace acoer {

namespace {

// Numbers that are in memory at a time, several times over.
constexpr int64_t kPart = int64_t{1} << 24;

struct Update {
  at::Tensor a_RI, b_OR;
  double scale = 0;
};

class Adapter {
 public:
  explicit Adapter(const ExportOptions& options) : options_(options) {
    if (options.adapter.files.empty()) return;
    reader_.emplace(options.adapter);
    for (const LoraMatrix& matrix : options.matrices) {
      byWeight_.emplace(weightOf(matrix), &matrix);
    }
  }

  // Of the weight `name` of `shape`, if it is adapted.
  std::optional<Update> updateOf(const std::string& name, const std::vector<int64_t>& shape,
                                 const Cancel& cancel) const {
    const auto found = byWeight_.find(name);
    if (found == byWeight_.end()) return std::nullopt;
    const LoraMatrix& matrix = *found->second;
    const auto rank = static_cast<double>(matrix.rank);
    Update update{at::empty({matrix.rank, shape.at(1)}, at::kFloat),
                  at::empty({shape.at(0), matrix.rank}, at::kFloat),
                  matrix.alpha / (options_.rankStabilized ? std::sqrt(rank) : rank)};
    const std::string pair = targetPath(matrix.layer, matrix.target);
    reader_->read(pair + ".lora_A.weight", update.a_RI, cancel);
    reader_->read(pair + ".lora_B.weight", update.b_OR, cancel);
    return update;
  }

 private:
  static std::string weightOf(const LoraMatrix& matrix) {
    static const std::string kPrefix = "base_model.model.";
    return targetPath(matrix.layer, matrix.target).substr(kPrefix.size()) + ".weight";
  }

  const ExportOptions& options_;
  std::optional<TensorReader> reader_;
  std::map<std::string, const LoraMatrix*> byWeight_;
};

double sumOfSquares(const at::Tensor& x) { return x.to(at::kDouble).square().sum().item<double>(); }

// Sums over the parts of a matrix; root mean squares once all have been added.
struct Sums {
  double weight = 0, update = 0, error = 0;
  int64_t unchanged = 0, numbers = 0;

  MergedMatrix of(const std::string& name) const {
    const auto all = static_cast<double>(numbers);
    return {name, std::sqrt(weight / all), std::sqrt(update / all), std::sqrt(error / all),
            static_cast<double>(unchanged) / all};
  }
};

// Rows from `first` on of what `place` stores.
void writePart(const TensorWriter& writer, const StoredTensor& place, int64_t first,
               const at::Tensor& part, const Update* update, Sums& sums) {
  if (update == nullptr) {
    writer.write(place, first, part);
    return;
  }
  const at::Tensor delta =
      at::mm(update->b_OR.narrow(0, first, part.size(0)), update->a_RI).mul_(update->scale);
  const at::Tensor sum = part + delta;
  const at::Tensor stored = writer.write(place, first, sum);
  sums.weight += sumOfSquares(part);
  sums.update += sumOfSquares(delta);
  sums.error += sumOfSquares(stored - sum);
  sums.unchanged += stored.eq(encoded(place.name, place.dtype, part).numbers).sum().item<int64_t>();
  sums.numbers += part.numel();
}

// Rows to take at a time: whole heads, where they are rearranged.
int64_t rowsAtATime(const StoredTensor& source, const StoredTensor& place) {
  if (c10::multiply_integers(place.shape) == 0) return 1;
  const int64_t rows = place.shape.empty() ? 1 : place.shape[0];
  const int64_t heads = std::max(place.heads, source.heads);
  const int64_t unit = heads > 0 ? rows / heads : 1;
  const int64_t unitNumbers = c10::multiply_integers(place.shape) / rows * unit;
  return std::max<int64_t>(1, kPart / unitNumbers) * unit;
}

}  // namespace

std::vector<MergedMatrix> exportWeights(const ExportOptions& options, const Cancel& cancel) {
  const at::NoGradGuard noGrad;
  const TensorReader weights(options.weights);
  const Adapter adapter(options);
  const TensorWriter writer(options.path);
  std::vector<MergedMatrix> merged;
  for (const StoredTensor& place : options.places) {
    const StoredTensor& source = weights.check(place.name, place.shape, at::kFloat);
    if (place.heads > 0 && place.shape.at(0) % (2 * place.heads) != 0) {
      fail(ErrorCode::kBadArgument, "the rows of ", place.name, " are not pairs of ", place.heads,
           " heads");
    }
    const std::optional<Update> update = adapter.updateOf(place.name, place.shape, cancel);
    const int64_t rows = place.shape.empty() ? 1 : place.shape[0];
    const int64_t step = rowsAtATime(source, place);
    std::vector<int64_t> shape = place.shape;
    Sums sums;
    for (int64_t first = 0; first < rows; first += step) {
      cancel.check();
      if (!shape.empty()) shape[0] = std::min(step, rows - first);
      const at::Tensor part = at::empty(shape, at::kFloat);
      weights.readRows(source, first, part, cancel);
      writePart(writer, place, first, part, update ? &*update : nullptr, sums);
    }
    if (update) merged.push_back(sums.of(place.name));
  }
  return merged;
}

}  // namespace acoer
