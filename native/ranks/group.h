// The collectives of a run over libtorch's Gloo. All ranks make the same calls in the same order.
#pragma once

#include "worker.h"

namespace acoer::ranks {

class Group : public Napi::ObjectWrap<Group> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit Group(const Napi::CallbackInfo& info) : ObjectWrap(info) {}

 private:
  struct Peers;  // what calls on the threads use; it may outlive this object
  Napi::Value open(const Napi::CallbackInfo& info);
  Napi::Value gather(const Napi::CallbackInfo& info);
  Napi::Value sum(const Napi::CallbackInfo& info);
  Napi::Value gatherInPlace(const Napi::CallbackInfo& info);
  Napi::Value watch(const Napi::CallbackInfo& info);
  Napi::Value part(const Napi::CallbackInfo& info);
  Napi::Value close(const Napi::CallbackInfo& info);

  std::shared_ptr<Peers> peers_;
  Worker worker_;
  Worker watcher_;
};

}  // namespace acoer::ranks
