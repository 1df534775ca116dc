// Named tensors in files. TypeScript reads and writes the headers of safetensors and GGUF files
// (src/models) and tells where each tensor is stored; this reads tensors into memory, fills files
// whose header is there, and writes whole safetensors files.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/cancel.h"

namespace acoer {

struct StoredTensor {
  std::string name;
  int64_t file = 0;   // index into TensorTable::files
  std::string dtype;  // as safetensors names it: "BF16", "F32", ...; or ggml's "Q8_0"
  std::vector<int64_t> shape;
  int64_t begin = 0, end = 0;  // bytes from the start of the file
  // Above 0: the rows are of so many heads, and those of a head alternate between its first and
  // second half, as ggml rotates Llama's queries and keys.
  int64_t heads = 0;
};

struct StoredFile {
  int descriptor = -1;  // open for reading while the table is in use; closed by the caller
  std::string path;     // for messages
};

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

struct TensorTable {
  std::vector<StoredFile> files;
  std::vector<StoredTensor> tensors;
};

// Reads the tensors of a table by name, with pread, so that a file that shrinks meanwhile causes an
// error and not a signal.
class TensorReader {
 public:
  // Checks that every name occurs once and that every tensor ends within the actual size of its
  // file. Throws kBadFile, or kBadArgument for a table without files or a tensor in none of them.
  explicit TensorReader(const TensorTable& table);

  const std::map<std::string, const StoredTensor*>& tensors() const { return tensors_; }
  const std::string& pathOf(const StoredTensor& tensor) const;
  // "PATH lacks" or "PATH and the other shards lack": the start of a message.
  std::string lacks() const;

  // The tensor `name`, which can be read into a tensor of `shape` and type `wanted`. Throws
  // kBadFile if it is missing or not of a floating type (or, for int64, not I64), kBadShape if the
  // shapes differ.
  const StoredTensor& check(const std::string& name, c10::ArrayRef<int64_t> shape,
                            at::ScalarType wanted) const;
  // Throws kBadFile if there are tensors besides `wanted`, which `owner` does not have.
  void checkNoOthers(const std::set<std::string>& wanted, const std::string& owner) const;
  // Fills `out`, a CPU tensor (any strides), converting the type. Throws what check() throws.
  void read(const std::string& name, const at::Tensor& out, const Cancel& cancel) const;
  // Fills `out` with the rows from `first` on of a tensor that check() has let pass; whole heads.
  void readRows(const StoredTensor& tensor, int64_t first, const at::Tensor& out,
                const Cancel& cancel) const;

 private:
  void checkPlace(const StoredTensor& tensor, const std::vector<int64_t>& fileSizes) const;
  void readBytes(const StoredFile& file, int64_t from, int64_t count, char* out,
                 const Cancel& cancel) const;

  const std::vector<StoredFile>& files_;
  std::map<std::string, const StoredTensor*> tensors_;
};

// `rows` (fp32) as a type stores them: the bytes, and what they say, in fp32. Throws kBadArgument
// for a type that cannot be written, rows that are not of its whole blocks, or a number that it
// cannot hold; `name` is for the message.
struct Encoded {
  at::Tensor bytes, numbers;
};
Encoded encoded(const std::string& name, const std::string& dtype, const at::Tensor& rows);

// Fills places in a file that exists.
class TensorWriter {
 public:
  // Throws kBadFile if the file cannot be opened.
  explicit TensorWriter(const std::string& path);
  ~TensorWriter();
  TensorWriter(const TensorWriter&) = delete;
  TensorWriter& operator=(const TensorWriter&) = delete;

  // Writes fp32 `rows`, those from `first` on of `place`, and returns what they say as stored.
  // Throws kBadFile, and what encoded() throws.
  at::Tensor write(const StoredTensor& place, int64_t first, const at::Tensor& rows) const;

 private:
  int descriptor_;
  std::string path_;
};

// Writes the tensors (copied to the CPU one at a time) with metadata {"format": "pt"}, wider types
// first and then by name, like the reference writer. Names must not need JSON escapes. Tensors
// without numbers (of the meta device) get their place and are not written; another call without
// `isNew`, of the same names, shapes and types, fills it. Throws kBadFile.
void writeSafetensors(const std::string& path, const NamedTensors& tensors, bool isNew = true);

}  // namespace acoer
