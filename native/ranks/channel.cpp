#include "channel.h"

namespace acoer::ranks {

using Held = std::shared_ptr<Reach>;

void watchReach(Napi::Env env) {
  auto* held = new Held(std::make_shared<Reach>());
  env.SetInstanceData<Held>(held);
  env.AddCleanupHook([reach = *held] {
    const std::lock_guard lock(reach->mutex);
    reach->gone = true;
  });
}

Channel::Channel(Napi::Env env, const Napi::Function& function, bool keepsAlive)
    : reach_(*env.GetInstanceData<Held>()), state_(std::make_shared<State>()) {
  state_->function = Napi::ThreadSafeFunction::New(env, function, "acoer-ranks", 0, 1);
  if (!keepsAlive) state_->function.Unref(env);
}

void Channel::release() {
  const std::lock_guard lock(reach_->mutex);
  if (!reach_->gone && !state_->released) state_->function.Release();
  state_->released = true;
}

}  // namespace acoer::ranks
