#include <ATen/core/Tensor.h>

#include "engine_wrap.h"
#include "model/lora.h"
#include "ops/ops.h"
#include "to_js.h"

namespace acoer {
namespace {

Pack nothing() {
  return [](Napi::Env env) { return env.Undefined(); };
}

PolicyFacts takePolicy(Session& session, int64_t model, const std::shared_ptr<Policy>& policy) {
  return {session.add(model, policy), policy->options,
          policy->isLora() ? loraMatrices(policy->model->spec, policy->options)
                           : std::vector<LoraMatrix>(),
          policyParameterCount(*policy)};
}

}  // namespace

// createPolicy(args: NativePolicyOptions & { model: ModelId }): Promise<NativePolicyInfo>
Napi::Value EngineWrap::createPolicy(const Info& info) {
  return start(info, [this](const Fields& args) {
    const PolicyOptions options = readPolicyOptions(args);
    return Request{.work = [this, options, model = args.count("model")](CallContext& call) -> Pack {
      const auto policy = acoer::createPolicy(call.session.model(model), options);
      const PolicyFacts facts = takePolicy(call.session, model, policy);
      return accounted(call.session, [facts](Napi::Env env) { return toJs(env, facts); });
    }};
  });
}

// loadAdapter(args: { model: ModelId; options: NativePolicyOptions; tensors: NativeTensorTable }):
//   Promise<NativePolicyInfo>
Napi::Value EngineWrap::loadAdapter(const Info& info) {
  return start(info, [this](const Fields& args) {
    return Request{
        .work = [this, model = args.count("model"),
                 options = readPolicyOptions(args.object("options")),
                 tensors = readTensorTable(args.object("tensors"))](CallContext& call) -> Pack {
          const auto policy = acoer::loadAdapter(call.session.model(model), options, tensors);
          const PolicyFacts facts = takePolicy(call.session, model, policy);
          return accounted(call.session, [facts](Napi::Env env) { return toJs(env, facts); });
        }};
  });
}

// disposePolicy(args: { policy: PolicyId }): Promise<void>
Napi::Value EngineWrap::disposePolicy(const Info& info) {
  return start(info, [this](const Fields& args) {
    return Request{.work = [this, policy = args.count("policy")](CallContext& call) -> Pack {
      call.session.disposePolicy(policy);
      return accounted(call.session, nothing());
    }};
  });
}

// forward(args: NativeSequences & { policy: PolicyId; temperature: number;
//                                   dropoutSeed: bigint | null; job: number }):
//   Promise<NativeTokenValues>
Napi::Value EngineWrap::forward(const Info& info) {
  return start(info, [](const Fields& args) {
    return Request{.job = args.count("job"),
                   .work = [sequences = readSequences(args),
                            temperature = args.number("temperature"), dropout = readDropout(args),
                            policy = args.count("policy")](CallContext& call) -> Pack {
                     ScoreResult result = acoer::forward(call.session.policy(policy), sequences,
                                                         temperature, dropout, call.cancel);
                     // Not accounted(): a garbage collection could not free the tape, which is
                     // short-lived anyway.
                     return
                         [result = std::move(result)](Napi::Env env) { return toJs(env, result); };
                   }};
  });
}

// backward(args: { policy: PolicyId; dLogprobs: Float64Array; job: number }): Promise<void>
Napi::Value EngineWrap::backward(const Info& info) {
  return start(info, [](const Fields& args) {
    return Request{.job = args.count("job"),
                   .work = [dLogprobs = args.doubles("dLogprobs"),
                            policy = args.count("policy")](CallContext& call) {
                     acoer::backward(call.session.policy(policy), dLogprobs, call.cancel);
                     return nothing();
                   }};
  });
}

// step(args: { policy: PolicyId; learningRate: number; weightDecay: number; maxGradNorm: number }):
//   Promise<NativeStepResult>
Napi::Value EngineWrap::step(const Info& info) {
  return start(info, [](const Fields& args) {
    const StepOptions options{args.number("learningRate"), args.number("weightDecay"),
                              args.number("maxGradNorm")};
    return Request{.work = [options, policy = args.count("policy")](CallContext& call) -> Pack {
      const StepResult result = acoer::step(call.session.policy(policy), options);
      return [result](Napi::Env env) { return toJs(env, result); };
    }};
  });
}

// zeroGradients(args: { policy: PolicyId }): Promise<void>
Napi::Value EngineWrap::zeroGradients(const Info& info) {
  return start(info, [](const Fields& args) {
    return Request{.work = [policy = args.count("policy")](CallContext& call) {
      acoer::zeroGradients(call.session.policy(policy));
      return nothing();
    }};
  });
}

// gradients(args: { policy: PolicyId }): Promise<TensorTable>
Napi::Value EngineWrap::gradients(const Info& info) {
  return start(info, [](const Fields& args) {
    return Request{.work = [policy = args.count("policy")](CallContext& call) -> Pack {
      std::vector<TensorFacts> tensors;
      for (const auto& [name, gradient] : acoer::gradients(call.session.policy(policy))) {
        tensors.push_back({name, gradient.sizes().vec(), toDoubles(gradient)});
      }
      return [tensors = std::move(tensors)](Napi::Env env) { return toJs(env, tensors); };
    }};
  });
}

// savePolicy(args: { policy: PolicyId; path: string; dtype: Dtype | null }): Promise<void>
Napi::Value EngineWrap::savePolicy(const Info& info) {
  return start(info, [](const Fields& args) {
    return Request{.work = [policy = args.count("policy"), path = args.text("path"),
                            dtype = args.isNull("dtype")
                                        ? at::ScalarType::Undefined
                                        : readDtype(args, "dtype")](CallContext& call) {
      acoer::savePolicy(call.session.policy(policy), path, dtype);
      return nothing();
    }};
  });
}

// saveOptimizer(args: { policy: PolicyId; path: string }): Promise<void>
Napi::Value EngineWrap::saveOptimizer(const Info& info) {
  return start(info, [](const Fields& args) {
    return Request{
        .work = [policy = args.count("policy"), path = args.text("path")](CallContext& call) {
          acoer::saveOptimizer(call.session.policy(policy), path);
          return nothing();
        }};
  });
}

Napi::Value EngineWrap::restore(const Info& info, void (*act)(Policy&, const TensorTable&)) {
  return start(info, [act](const Fields& args) {
    return Request{.work = [act, policy = args.count("policy"),
                            tensors = readTensorTable(args.object("tensors"))](CallContext& call) {
      act(call.session.policy(policy), tensors);
      return nothing();
    }};
  });
}

// restorePolicy(args: { policy: PolicyId; tensors: NativeTensorTable }): Promise<void>
Napi::Value EngineWrap::restorePolicy(const Info& info) {
  return restore(info, acoer::restorePolicy);
}

// restoreOptimizer(args: { policy: PolicyId; tensors: NativeTensorTable }): Promise<void>
Napi::Value EngineWrap::restoreOptimizer(const Info& info) {
  return restore(info, acoer::restoreOptimizer);
}

}  // namespace acoer
