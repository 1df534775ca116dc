// Converts JavaScript arguments to plain structs. Everything is copied, and every message names the
// field. Only JavaScript types are checked here: the core checks which values are allowed.
#pragma once

#include <napi.h>

#include <optional>
#include <string>
#include <vector>

#include "generate/generate.h"
#include "model/exported.h"
#include "ops/packed.h"
#include "train/shards.h"

namespace acoer {

// Reads the fields of one object. `name` identifies the object in messages, e.g. "requests[2]".
class Fields {
 public:
  Fields(Napi::Value value, std::string name);

  double number(const char* key) const;
  int64_t integer(const char* key) const;
  int64_t count(const char* key) const;  // a non-negative integer
  bool boolean(const char* key) const;
  std::string text(const char* key) const;
  uint64_t seed(const char* key) const;  // bigint
  std::vector<int32_t> int32s(const char* key) const;
  std::vector<double> doubles(const char* key) const;
  std::vector<std::string> texts(const char* key) const;
  std::vector<int64_t> sizes(const char* key) const;  // an array of non-negative integers
  std::vector<std::optional<int64_t>> handles(const char* key) const;  // numbers or null
  bool isNull(const char* key) const;
  bool has(const char* key) const { return !get(key).IsUndefined(); }
  Fields object(const char* key) const;
  std::vector<Fields> objects(const char* key) const;

  // "<name>.<key>", for messages.
  std::string at(const char* key) const { return name_ + "." + key; }

 private:
  Napi::Value get(const char* key) const { return object_.Get(key); }
  Napi::Array array(const char* key, const char* typeName) const;
  template <class T, class Read>
  std::vector<T> list(const char* key, const char* typeName, const Read& read) const;
  Napi::TypedArray typed(const char* key, napi_typedarray_type type, const char* typeName) const;

  Napi::Object object_;
  std::string name_;
};

// A request whose policy is still a handle: handles are looked up on the engine thread.
struct HandledRequest {
  GenerateRequest request;
  std::optional<int64_t> policy;
};

std::optional<int64_t> readHandle(const Fields& fields, const char* key);
at::ScalarType readDtype(const Fields& fields, const char* key);
// May be null.
Quantization readQuantization(const Fields& fields, const char* key);
KernelFamily readKernelFamily(const Fields& fields, const char* key);
Sharded readSharded(const Fields& fields, const char* key);
Moment readMoment(const Fields& fields, const char* key);
PackedSequences readSequences(const Fields& fields);
// Reads dropoutSeed, which may be null.
std::optional<DropoutKey> readDropout(const Fields& fields);
PolicyOptions readPolicyOptions(const Fields& fields);
HandledRequest readRequest(const Fields& fields);
// How sequences are decoded together.
GenerateOptions readDecoding(const Fields& fields);
ModelSpec readModelSpec(const Fields& fields);
TensorTable readTensorTable(const Fields& fields);
ExportOptions readExportOptions(const Fields& fields);

}  // namespace acoer
