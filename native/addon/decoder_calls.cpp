// An open decoder: one long call on the engine thread, and the requests that reach it meanwhile.
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "engine_wrap.h"
#include "to_js.h"

namespace acoer {

// What JavaScript tells an open decoder while it runs. Written on the JavaScript thread and emptied
// on the engine thread.
class Inbox {
 public:
  struct Content {
    std::vector<HandledRequest> requests;
    std::vector<int64_t> cancelled;
    bool closed = false;
    bool isEmpty() const { return requests.empty() && cancelled.empty() && !closed; }
  };

  void add(std::vector<HandledRequest>&& requests) {
    put([&] {
      for (HandledRequest& request : requests) content_.requests.push_back(std::move(request));
    });
  }
  void cancel(int64_t request) {
    put([&] { content_.cancelled.push_back(request); });
  }
  void close() {
    put([&] { content_.closed = true; });
  }

  // Everything since the last call. `wait`: until there is something, or the call is cancelled.
  Content take(bool wait, const Cancel& call) {
    std::unique_lock lock(mutex_);
    // Cancelling a call raises a flag only, so it is looked at from time to time.
    while (wait && content_.isEmpty() && !call.requested()) wake_.wait_for(lock, kLookEvery);
    Content taken = std::move(content_);
    content_ = {};
    return taken;
  }

 private:
  static constexpr std::chrono::milliseconds kLookEvery{20};

  template <class Change>
  void put(const Change& change) {
    {
      const std::lock_guard lock(mutex_);
      change();
    }
    wake_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  Content content_;
};

namespace {

struct DecoderArgs {
  int64_t model = 0;
  std::vector<std::optional<int64_t>> policies{};
  OpenDecoder open{};
  GenerateOptions options{};
  std::shared_ptr<Inbox> inbox{};
};

Arrivals arrivalsOf(Inbox::Content&& content, const Session& session) {
  Arrivals arrivals{
      .requests = {}, .cancelled = std::move(content.cancelled), .closed = content.closed};
  for (HandledRequest& handled : content.requests) {
    try {
      handled.request.policy = session.policyOrBase(handled.policy);
      arrivals.requests.emplace_back(std::move(handled.request));
    } catch (const EngineError& error) {
      arrivals.requests.emplace_back(error);
    }
  }
  return arrivals;
}

Pack runDecoder(DecoderArgs args, CallContext& call) {
  const Model& model = *call.session.model(args.model);
  for (const auto& handle : args.policies) {
    args.open.policies.push_back(call.session.policyOrBase(handle));
  }
  args.open.onOpen = [&call] {
    call.emit([](Napi::Env env) { return decoderEvent(env, "open"); });
  };
  args.open.arrivals = [&](bool wait) {
    return arrivalsOf(args.inbox->take(wait, call.cancel), call.session);
  };
  args.open.onRefused = [&call](int64_t request, const EngineError& error) {
    call.emit([request, error](Napi::Env env) {
      return refusedEvent(env, request, toError(env, error));
    });
  };
  args.options.onTokens = [&call](NewTokens&& tokens) { call.emit(packed(std::move(tokens))); };
  const auto emit = [&call](GeneratedSequence&& sequence) {
    call.emit([sequence = std::move(sequence)](Napi::Env env) {
      auto event = decoderEvent(env, "sequence");
      event["sequence"] = toJs(env, sequence);
      return event;
    });
  };
  const GenerateStats stats = decodeArrivals(model, args.open, args.options, emit, call.cancel);
  call.cancel.check();  // unfinished sequences were emitted; the call itself is rejected
  return packed(stats);
}

}  // namespace

Napi::Value EngineWrap::openDecoder(const Info& info) {
  return runner_->start(info.This(), [this, &info] {
    const Fields fields(info[0], "args");
    DecoderArgs args{.model = fields.count("model"), .policies = fields.handles("policies")};
    args.open.positions = fields.integer("positions");
    args.open.keepBytes = fields.integer("keepBytes");
    args.options = readDecoding(fields);
    if (!info[1].IsFunction()) fail(ErrorCode::kBadArgument, "onEvent must be a function");
    const int64_t job = fields.count("job");
    args.inbox = std::make_shared<Inbox>();
    std::erase_if(inboxes_, [](const auto& entry) { return entry.second.expired(); });
    inboxes_[job] = args.inbox;
    return Request{
        .job = job,
        .callback = Napi::Persistent(info[1].As<Napi::Function>()),
        .work = [args = std::move(args)](CallContext& call) { return runDecoder(args, call); }};
  });
}

std::shared_ptr<Inbox> EngineWrap::inboxOf(int64_t job) {
  const auto found = inboxes_.find(job);
  auto inbox = found == inboxes_.end() ? nullptr : found->second.lock();
  if (inbox == nullptr) fail(ErrorCode::kDisposed, "the decoder was closed");
  return inbox;
}

Napi::Value EngineWrap::addRequests(const Info& info) {
  return guarded(info.Env(), [&] {
    const Fields args(info[0], "args");
    std::vector<HandledRequest> requests;
    for (const Fields& request : args.objects("requests")) {
      requests.push_back(readRequest(request));
      requests.back().request.streams = args.boolean("streams");
    }
    inboxOf(args.count("job"))->add(std::move(requests));
    return info.Env().Undefined();
  });
}

Napi::Value EngineWrap::cancelRequest(const Info& info) {
  return guarded(info.Env(), [&] {
    const Fields args(info[0], "args");
    inboxOf(args.count("job"))->cancel(args.count("request"));
    return info.Env().Undefined();
  });
}

Napi::Value EngineWrap::closeDecoder(const Info& info) {
  return guarded(info.Env(), [&] {
    const Fields args(info[0], "args");
    inboxOf(args.count("job"))->close();
    return info.Env().Undefined();
  });
}

}  // namespace acoer
