#include "engine_wrap.h"
#include "to_js.h"

namespace acoer {
namespace calls {
namespace {

Request loadModel(const Info&, const Fields& args) {
  auto spec = readModelSpec(args.object("spec"));
  auto weights = readTensorTable(args.object("weights"));
  const at::ScalarType dtype = readDtype(args, "dtype");
  return {.job = args.count("job"),
          .work =
              [spec, weights = std::move(weights), dtype](CallContext& call) {
                const auto model =
                    acoer::loadModel({spec, weights, call.session.device(), dtype}, call.cancel);
                return packed(ModelFacts{call.session.add(model), model->spec, model->dtype,
                                         model->device.str(), model->parameterCount, model->bytes});
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
  args.options.maxSlots = fields.integer("maxSlots");
  args.options.kvBytes = fields.integer("kvBytes");
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

}  // namespace
}  // namespace calls

const std::vector<EngineCall> kModelCalls{{"loadModel", calls::loadModel},
                                          {"disposeModel", calls::disposeModel},
                                          {"generate", calls::generate},
                                          {"score", calls::score},
                                          {"measureCeilings", calls::measureCeilings}};

}  // namespace acoer
