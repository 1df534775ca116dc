// The calls that run on the engine thread: what each reads, does there and gives.
#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>

#include "engine_wrap.h"
#include "kernels/gpu/card.h"
#include "model/lora.h"
#include "ops/ops.h"
#include "to_js.h"

namespace acoer {
namespace calls {
namespace {

Request loadModel(const Info&, const Fields& args) {
  auto spec = readModelSpec(args.object("spec"));
  auto weights = readTensorTable(args.object("weights"));
  const at::ScalarType dtype = readDtype(args, "dtype");
  const Quantization quantization = readQuantization(args, "quantization");
  return {.job = args.count("job"),
          .work =
              [spec, weights = std::move(weights), dtype, quantization](CallContext& call) {
                const auto model = acoer::loadModel(
                    {spec, weights, call.session.device(), dtype, quantization}, call.cancel);
                return packed(ModelFacts{call.session.add(model), model->spec, model->dtype,
                                         model->quantization, model->device.str(),
                                         model->parameterCount, model->bytes});
              },
          .changesMemory = true};
}

Request disposeModel(const Info&, const Fields& args) {
  return {.work =
              [model = args.count("model")](CallContext& call) {
                call.session.disposeModel(model);
                return nothing();
              },
          .changesMemory = true};
}

// Both calls come before the first model's, so they set up the engine's thread.
const GpuKernels* kernelsOn(at::Device device) {
  computeOn(device);
  return gpuKernelsFor(device);
}

KernelFacts factsOfKernels(at::Device device) {
  if (kernelsOn(device) == nullptr) return {};
  const c10::DeviceGuard guard(device);
  return {gpuKernels(device).file.string(), deviceFacts(device).name, cardId(device),
          currentCard(loadedCudaRuntime()).driver};
}

Request kernelFacts(const Info&, const Fields&) {
  return {.work = [](CallContext& call) { return packed(factsOfKernels(call.session.device())); }};
}

Request checkKernels(const Info&, const Fields& args) {
  return {.work = [spec = readModelSpec(args.object("spec")), dtype = readDtype(args, "dtype"),
                   quantization = readQuantization(args, "quantization")](CallContext& call) {
    const at::Device device = call.session.device();
    const GpuKernels* kernels = kernelsOn(device);
    if (kernels == nullptr) fail(ErrorCode::kDevice, device.str(), " runs none of acoer's kernels");
    return packed(acoer::checkKernels({.kernels = *kernels,
                                       .spec = spec,
                                       .device = device,
                                       .dtype = dtype,
                                       .quantization = quantization}));
  }};
}

Request leaveOutKernels(const Info&, const Fields& args) {
  return {.work = [model = args.count("model"), family = readKernelFamily(args, "family"),
                   why = args.text("why")](CallContext& call) {
    Model& changed = *call.session.model(model);
    const bool used = changed.kernelsOf(family) != nullptr;
    changed.kernelFaults[family] = why;
    return Pack([used](Napi::Env env) { return Napi::Boolean::New(env, used); });
  }};
}

struct GenerateArgs {
  int64_t model = 0;
  std::vector<HandledRequest> requests{};
  GenerateOptions options{};
};

Pack runGenerate(GenerateArgs args, CallContext& call) {
  const Model& model = *call.session.model(args.model);
  std::vector<GenerateRequest> requests;
  for (HandledRequest& handled : args.requests) {
    handled.request.policy = call.session.policyOrBase(handled.policy);
    requests.push_back(std::move(handled.request));
  }
  if (call.report) {
    args.options.onProgress = [&call](GenerateProgress&& progress) {
      call.report(packed(std::move(progress)));
    };
  }
  const auto emit = [&call](GeneratedSequence&& done) { call.emit(packed(std::move(done))); };
  const GenerateStats stats = acoer::generate(model, requests, args.options, emit, call.cancel);
  call.cancel.check();  // unfinished sequences were emitted; the call itself is rejected
  return packed(stats);
}

Request generate(const Info& info, const Fields& fields) {
  GenerateArgs args{.model = fields.count("model")};
  for (const Fields& request : fields.objects("requests")) {
    args.requests.push_back(readRequest(request));
  }
  args.options = readDecoding(fields);
  if (fields.has("completeGroups")) {
    const std::vector<int32_t> complete = fields.int32s("completeGroups");
    args.options.completeGroups.assign(complete.begin(), complete.end());
  }
  const bool reports = !info[2].IsUndefined();
  if (reports) {
    if (!info[2].IsFunction()) fail(ErrorCode::kBadArgument, "onProgress must be a function");
    args.options.progressEveryMs = fields.number("progressEveryMs");
  }
  if (!info[1].IsFunction()) fail(ErrorCode::kBadArgument, "onSequence must be a function");
  Request request{
      .job = fields.count("job"),
      .callback = Napi::Persistent(info[1].As<Napi::Function>()),
      .work = [args = std::move(args)](CallContext& call) { return runGenerate(args, call); }};
  if (reports) request.onProgress = Napi::Persistent(info[2].As<Napi::Function>());
  return request;
}

Request score(const Info&, const Fields& args) {
  return {.job = args.count("job"),
          .work = [sequences = readSequences(args), temperature = args.number("temperature"),
                   handle = args.count("model"),
                   policy = readHandle(args, "policy")](CallContext& call) {
            const Model& model = *call.session.model(handle);
            return packed(acoer::score(model, call.session.policyOrBase(policy), sequences,
                                       temperature, call.cancel));
          }};
}

Request measureCeilings(const Info&, const Fields& args) {
  const at::ScalarType dtype = readDtype(args, "dtype");
  return {.job = args.count("job"), .work = [dtype](CallContext& call) {
            return packed(acoer::measureCeilings(call.session.device(), dtype, call.cancel));
          }};
}

Request exportWeights(const Info&, const Fields& args) {
  return {.job = args.count("job"), .work = [options = readExportOptions(args)](CallContext& call) {
            return packed(acoer::exportWeights(options, call.cancel));
          }};
}

PolicyFacts factsOf(int64_t handle, const Policy& policy) {
  PolicyFacts facts{handle, policy.options, {}, 0, policy.shardOffsets};
  if (policy.isLora()) facts.matrices = loraMatrices(policy.model->spec, policy.options);
  for (const Parameter& parameter : policy.parameters) {
    facts.parameterCount += parameter.value.numel();
  }
  return facts;
}

// A new policy on a model.
template <class Make>
Request newPolicy(const Fields& args, Make make) {
  return {.work =
              [make = std::move(make), model = args.count("model")](CallContext& call) {
                const std::shared_ptr<Policy> policy = make(call.session.model(model));
                return packed(factsOf(call.session.add(model, policy), *policy));
              },
          .changesMemory = true};
}

// Work on a policy.
template <class Act>
Work onPolicy(const Fields& args, Act act) {
  return [act = std::move(act), handle = args.count("policy")](CallContext& call) -> Pack {
    Policy& policy = call.session.policy(handle);
    if constexpr (std::is_void_v<decltype(act(policy, call))>) {
      act(policy, call);
      return nothing();
    } else {
      return packed(act(policy, call));
    }
  };
}

Request createPolicy(const Info&, const Fields& args) {
  return newPolicy(args, [options = readPolicyOptions(args)](const std::shared_ptr<Model>& model) {
    return acoer::createPolicy(model, options);
  });
}

Request loadAdapter(const Info&, const Fields& args) {
  return newPolicy(args, [options = readPolicyOptions(args.object("options")),
                          tensors = readTensorTable(args.object("tensors"))](
                             const std::shared_ptr<Model>& model) {
    return acoer::loadAdapter(model, options, tensors);
  });
}

Request disposePolicy(const Info&, const Fields& args) {
  return {.work =
              [policy = args.count("policy")](CallContext& call) {
                call.session.disposePolicy(policy);
                return nothing();
              },
          .changesMemory = true};
}

// Without changesMemory: a garbage collection could not free the tape, which is short-lived anyway.
Request forward(const Info&, const Fields& args) {
  return {.job = args.count("job"),
          .work = onPolicy(
              args, [sequences = readSequences(args), temperature = args.number("temperature"),
                     dropout = readDropout(args)](Policy& policy, CallContext& call) {
                return acoer::forward(policy, sequences, temperature, dropout, call.cancel);
              })};
}

Request backward(const Info&, const Fields& args) {
  return {.job = args.count("job"),
          .work = onPolicy(
              args, [dLogprobs = args.doubles("dLogprobs")](Policy& policy, CallContext& call) {
                acoer::backward(policy, dLogprobs, call.cancel);
              })};
}

Request step(const Info&, const Fields& args) {
  const StepOptions options{args.number("learningRate"), args.number("weightDecay"),
                            args.number("maxGradNorm")};
  return {.work = onPolicy(args, [options](Policy& policy, CallContext&) {
            return acoer::step(policy, options);
          })};
}

Request zeroGradients(const Info&, const Fields& args) {
  return {.work =
              onPolicy(args, [](Policy& policy, CallContext&) { acoer::zeroGradients(policy); })};
}

Request gradients(const Info&, const Fields& args) {
  return {.work = onPolicy(args, [](Policy& policy, CallContext&) {
            std::vector<TensorFacts> tensors;
            for (const auto& [name, gradient] : acoer::gradients(policy)) {
              tensors.push_back({name, gradient.sizes().vec(), toDoubles(gradient)});
            }
            return tensors;
          })};
}

// JavaScript gets the memory itself, once: an address must not be given to V8 twice.
template <class Lend>
Request lent(const Fields& args, Lend lend) {
  return {.work = [lend, handle = args.count("policy")](CallContext& call) -> Pack {
    Policy& policy = call.session.policy(handle);
    const bool first = !policy.gradientSums.host.defined();
    const at::Tensor numbers = lend(policy);
    return first ? sharedNumbers(numbers) : nothing();
  }};
}

Request gradientSums(const Info&, const Fields& args) { return lent(args, lendGradientSums); }

Request lendShard(const Info&, const Fields& args) {
  return lent(args, [what = readSharded(args, "what")](Policy& policy) {
    return acoer::lendShard(policy, what);
  });
}

Request takeWeights(const Info&, const Fields& args) {
  return {.work = onPolicy(args, [](Policy& policy, CallContext&) { acoer::takeWeights(policy); })};
}

Request savePolicy(const Info&, const Fields& args) {
  const auto dtype = args.isNull("dtype") ? at::ScalarType::Undefined : readDtype(args, "dtype");
  return {.work = onPolicy(args, [path = args.text("path"), dtype](Policy& policy, CallContext&) {
            acoer::savePolicy(policy, path, dtype);
          })};
}

Request saveOptimizer(const Info&, const Fields& args) {
  return {.work = onPolicy(args, [path = args.text("path")](Policy& policy, CallContext&) {
            acoer::saveOptimizer(policy, path);
          })};
}

Request saveMoment(const Info&, const Fields& args) {
  const Moment moment = readMoment(args, "moment");
  return {.work = onPolicy(args, [path = args.text("path"), moment](Policy& policy, CallContext&) {
            acoer::saveMoment(policy, path, moment);
          })};
}

template <void (*restore)(Policy&, const TensorTable&)>
Request restoreFrom(const Info&, const Fields& args) {
  return {.work = onPolicy(args, [tensors = readTensorTable(args.object("tensors"))](
                                     Policy& policy, CallContext&) { restore(policy, tensors); })};
}

}  // namespace
}  // namespace calls

const std::vector<EngineCall> kEngineCalls{
    {"loadModel", calls::loadModel},
    {"disposeModel", calls::disposeModel},
    {"kernelFacts", calls::kernelFacts},
    {"checkKernels", calls::checkKernels},
    {"leaveOutKernels", calls::leaveOutKernels},
    {"generate", calls::generate},
    {"score", calls::score},
    {"measureCeilings", calls::measureCeilings},
    {"exportWeights", calls::exportWeights},
    {"createPolicy", calls::createPolicy},
    {"loadAdapter", calls::loadAdapter},
    {"disposePolicy", calls::disposePolicy},
    {"forward", calls::forward},
    {"backward", calls::backward},
    {"step", calls::step},
    {"zeroGradients", calls::zeroGradients},
    {"gradients", calls::gradients},
    {"gradientSums", calls::gradientSums},
    {"lendShard", calls::lendShard},
    {"takeWeights", calls::takeWeights},
    {"savePolicy", calls::savePolicy},
    {"saveOptimizer", calls::saveOptimizer},
    {"saveMoment", calls::saveMoment},
    {"restorePolicy", calls::restoreFrom<restorePolicy>},
    {"restoreOptimizer", calls::restoreFrom<restoreOptimizer>},
};

}  // namespace acoer
