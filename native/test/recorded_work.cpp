#include "recorded_work.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <cstring>

#include "base/error.h"
#include "device_memory.h"

namespace acoer::check {
namespace {

// The key that libtorch keeps for tests of a mode: while it is on, every operation of the thread
// comes to recordOperation first.
constexpr auto kRecording = c10::DispatchKey::TESTING_ONLY_GenericMode;

thread_local std::unique_ptr<RecordedWork> recording;

// An argument of an operation, as a graph keeps it.
struct Operand {
  c10::IValue value;  // unless it is a tensor
  bool isTensor = false;
  void* data = nullptr;
  std::vector<int64_t> sizes, strides;
  at::TensorOptions options;

  explicit Operand(const c10::IValue& argument) {
    isTensor = argument.isTensor() && argument.toTensor().defined();
    if (!isTensor) {
      value = argument;
      return;
    }
    const at::Tensor& tensor = argument.toTensor();
    data = tensor.data_ptr();
    sizes = tensor.sizes().vec();
    strides = tensor.strides().vec();
    options = tensor.options();
  }
  c10::IValue made() const {
    return isTensor ? c10::IValue(at::from_blob(data, sizes, strides, options)) : value;
  }
};

bool sharesMemory(const at::Tensor& result, const std::vector<c10::IValue>& arguments) {
  for (const c10::IValue& argument : arguments) {
    if (argument.isTensor() && argument.toTensor().is_alias_of(result)) return true;
  }
  return false;
}

// Views take no part in a graph, and what is neither a view nor written into existing memory has
// been allocated for it.
void runView(const c10::OperatorHandle& operation, torch::jit::Stack& stack) {
  const size_t count = operation.schema().arguments().size();
  const std::vector<c10::IValue> arguments(stack.end() - static_cast<std::ptrdiff_t>(count),
                                           stack.end());
  operation.callBoxed(stack);
  const size_t results = operation.schema().returns().size();
  for (auto result = stack.end() - static_cast<std::ptrdiff_t>(results); result != stack.end();
       ++result) {
    const bool isNew =
        result->isTensor() ? !sharesMemory(result->toTensor(), arguments) : result->isTensorList();
    if (isNew) recording->refuse("its work allocates memory: " + operation.schema().name());
  }
}

// The results of an operation that writes are the arguments that it writes.
std::vector<c10::IValue> writtenArguments(const c10::FunctionSchema& schema,
                                          const std::vector<c10::IValue>& arguments) {
  std::vector<c10::IValue> written;
  for (const c10::Argument& result : schema.returns()) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      const c10::AliasInfo* info = schema.arguments()[i].alias_info();
      if (info == nullptr || result.alias_info() == nullptr ||
          info->beforeSets() != result.alias_info()->beforeSets()) {
        continue;
      }
      written.push_back(arguments[i]);
      break;
    }
  }
  return written;
}

void recordOperation(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard running(kRecording);
  const c10::FunctionSchema& schema = operation.schema();
  if (!schema.is_mutable()) return runView(operation, *stack);
  const size_t count = schema.arguments().size();
  std::vector<c10::IValue> arguments(stack->end() - static_cast<std::ptrdiff_t>(count),
                                     stack->end());
  torch::jit::drop(*stack, count);
  for (c10::IValue& result : writtenArguments(schema, arguments)) {
    stack->push_back(std::move(result));
  }
  RecordedWork::Step step{.name = schema.name(), .run = {}, .blocks = {}};
  std::vector<Operand> operands;
  for (const c10::IValue& argument : arguments) {
    if (argument.isTensorList()) recording->refuse("a list of tensors: " + schema.name());
    operands.emplace_back(argument);
    if (const uint64_t block = memoryBlockOf(operands.back().data)) step.blocks.push_back(block);
  }
  step.run = [operation, operands = std::move(operands)] {
    torch::jit::Stack again;
    for (const Operand& operand : operands) again.push_back(operand.made());
    operation.callBoxed(again);
  };
  recording->add(std::move(step));
}

// CUDA's product of bf16 matrices in fp32, which a CPU's libtorch has not.
at::Tensor& widenedProduct(const at::Tensor& self, const at::Tensor& other, at::ScalarType type,
                           at::Tensor& out) {
  return at::mm_out(out, self.to(type), other.to(type));
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&recordOperation>());
}
TORCH_LIBRARY_IMPL(aten, CPU, library) { library.impl("mm.dtype_out", &widenedProduct); }

}  // namespace

void RecordedWork::refuse(const std::string& why) {
  if (refusal_.empty()) refusal_ = why;
}

void RecordedWork::replay() const {
  for (const Step& step : steps_) {
    for (const uint64_t block : step.blocks) {
      if (memoryBlockLives(block)) continue;
      fail(ErrorCode::kDevice, "a graph uses memory that has been freed: " + step.name);
    }
    step.run();
  }
}

bool isRecording() { return recording != nullptr; }

void beginRecording() {
  recording = std::make_unique<RecordedWork>();
  c10::impl::tls_set_dispatch_key_included(kRecording, true);
}

std::unique_ptr<RecordedWork> endRecording() {
  c10::impl::tls_set_dispatch_key_included(kRecording, false);
  return std::move(recording);
}

void recordLaunch(const char* name, const void* args, size_t bytes,
                  std::function<void(const void* args)> run) {
  std::vector<uint64_t> words((bytes + 7) / 8);
  std::memcpy(words.data(), args, bytes);
  RecordedWork::Step step{.name = name, .run = {}, .blocks = {}};
  // Structs hold their pointers at multiples of eight bytes.
  for (const uint64_t word : words) {
    if (const uint64_t block = memoryBlockOf(reinterpret_cast<const void*>(word))) {
      step.blocks.push_back(block);
    }
  }
  step.run = [words = std::move(words), run = std::move(run)] { run(words.data()); };
  recording->add(std::move(step));
}

}  // namespace acoer::check
