#include "engine_wrap.h"
#include "to_js.h"

namespace acoer {

// loadModel(args: { spec: NativeModelSpec; weights: NativeTensorTable; dtype: Dtype;
//                   job: number }): Promise<NativeModelInfo>
Napi::Value EngineWrap::loadModel(const Info& info) {
  return start(info, [this](const Fields& args) {
    LoadModelOptions options{readModelSpec(args.object("spec")),
                             readTensorTable(args.object("weights")), device_,
                             readDtype(args, "dtype")};
    return Request{.job = args.count("job"),
                   .work = [this, options = std::move(options)](CallContext& call) -> Pack {
                     const auto model = acoer::loadModel(options, call.cancel);
                     ModelFacts facts{call.session.add(model), model->spec,           model->dtype,
                                      model->device.str(),     model->parameterCount, model->bytes};
                     return accounted(call.session,
                                      [facts](Napi::Env env) { return toJs(env, facts); });
                   }};
  });
}

// disposeModel(args: { model: ModelId }): Promise<void>
Napi::Value EngineWrap::disposeModel(const Info& info) {
  return start(info, [this](const Fields& args) {
    return Request{.work = [this, model = args.count("model")](CallContext& call) -> Pack {
      call.session.disposeModel(model);
      return accounted(call.session, [](Napi::Env env) { return env.Undefined(); });
    }};
  });
}

namespace {

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
  const auto emit = [&call](GeneratedSequence&& sequence) {
    call.emit([sequence = std::move(sequence)](Napi::Env env) { return toJs(env, sequence); });
  };
  if (call.report) {
    args.options.onProgress = [&call](GenerateProgress&& progress) {
      call.report([progress = std::move(progress)](Napi::Env env) { return toJs(env, progress); });
    };
  }
  const GenerateStats stats = acoer::generate(model, requests, args.options, emit, call.cancel);
  call.cancel.check();  // unfinished sequences were emitted; the call itself is rejected
  return [stats](Napi::Env env) { return toJs(env, stats); };
}

}  // namespace

// generate(
//   args: { model: ModelId; requests: NativeGenerateRequest[]; maxSlots: number; kvBytes: number;
//           job: number; progressEveryMs?: number },
//   onSequence: (sequence: NativeSequence) => void,
//   onProgress?: (progress: NativeGenerateProgress) => void,
// ): Promise<NativeGenerateStats>
Napi::Value EngineWrap::generate(const Info& info) {
  return start(info, [&info](const Fields& fields) {
    GenerateArgs args{.model = fields.count("model")};
    for (const Fields& request : fields.objects("requests")) {
      args.requests.push_back(readRequest(request));
    }
    args.options.maxSlots = fields.integer("maxSlots");
    args.options.kvBytes = fields.integer("kvBytes");
    if (!info[2].IsUndefined()) {
      if (!info[2].IsFunction()) fail(ErrorCode::kBadArgument, "onProgress must be a function");
      args.options.progressEveryMs = fields.number("progressEveryMs");
    }
    if (!info[1].IsFunction()) fail(ErrorCode::kBadArgument, "onSequence must be a function");
    Request request{
        .job = fields.count("job"),
        .callback = Napi::Persistent(info[1].As<Napi::Function>()),
        .work = [args = std::move(args)](CallContext& call) { return runGenerate(args, call); }};
    if (!info[2].IsUndefined()) request.onProgress = Napi::Persistent(info[2].As<Napi::Function>());
    return request;
  });
}

// score(args: NativeSequences & { model: ModelId; policy: PolicyId | null; temperature: number;
//                                 job: number }): Promise<NativeTokenValues>
Napi::Value EngineWrap::score(const Info& info) {
  return start(info, [](const Fields& args) {
    return Request{.job = args.count("job"),
                   .work = [sequences = readSequences(args),
                            temperature = args.number("temperature"), handle = args.count("model"),
                            policy = readHandle(args, "policy")](CallContext& call) -> Pack {
                     const Model& model = *call.session.model(handle);
                     ScoreResult result = acoer::score(model, call.session.policyOrBase(policy),
                                                       sequences, temperature, call.cancel);
                     return
                         [result = std::move(result)](Napi::Env env) { return toJs(env, result); };
                   }};
  });
}

}  // namespace acoer
