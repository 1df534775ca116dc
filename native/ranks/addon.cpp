// The exports of ranks.node: NativeRanks in src/ranks/native.ts. An addon of its own, so that runs
// of one process never load it.
#include <c10/util/Logging.h>

#include "group.h"
#include "store.h"

static Napi::Object initialise(Napi::Env env, Napi::Object exports) {
  // Reads TORCH_CPP_LOG_LEVEL, which only Python's start-up does otherwise: a lost peer is told in
  // one sentence, not in frames of C++.
  c10::initLogging();
  acoer::ranks::watchReach(env);
  exports["Store"] = acoer::ranks::Store::define(env);
  exports["Group"] = acoer::ranks::Group::define(env);
  return exports;
}

NODE_API_MODULE(ranks, initialise)
