#include <ATen/core/Tensor.h>

#include "engine_wrap.h"
#include "model/lora.h"
#include "ops/ops.h"
#include "to_js.h"

namespace acoer {
namespace calls {
namespace {

PolicyFacts factsOf(int64_t handle, const Policy& policy) {
  PolicyFacts facts{handle, policy.options, {}, 0};
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

template <void (*restore)(Policy&, const TensorTable&)>
Request restoreFrom(const Info&, const Fields& args) {
  return {.work = onPolicy(args, [tensors = readTensorTable(args.object("tensors"))](
                                     Policy& policy, CallContext&) { restore(policy, tensors); })};
}

}  // namespace
}  // namespace calls

const std::vector<EngineCall> kPolicyCalls{
    {"createPolicy", calls::createPolicy},
    {"loadAdapter", calls::loadAdapter},
    {"disposePolicy", calls::disposePolicy},
    {"forward", calls::forward},
    {"backward", calls::backward},
    {"step", calls::step},
    {"zeroGradients", calls::zeroGradients},
    {"gradients", calls::gradients},
    {"savePolicy", calls::savePolicy},
    {"saveOptimizer", calls::saveOptimizer},
    {"restorePolicy", calls::restoreFrom<restorePolicy>},
    {"restoreOptimizer", calls::restoreFrom<restoreOptimizer>},
};

}  // namespace acoer
