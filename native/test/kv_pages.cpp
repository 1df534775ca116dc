// Who may take pages of the KV cache, and that what is decoded does not show it.
#include "generate/kv_pages.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "generate/kv_cache.h"
#include "generate_support.h"

namespace acoer::check {
namespace {

ACOER_TEST(kv_pages_are_given_as_they_are_reached) {
  KvPages pages(64);
  pages.enter(0, {.held = 1, .most = 3});
  pages.enter(1, {.held = 2, .most = 2});
  ACOER_CHECK(pages.of(0).size() == 1 && pages.of(1).size() == 2 && pages.used() == 3);
  ACOER_CHECK(pages.reach(0, 64, 5) && pages.of(0).size() == 1);
  ACOER_CHECK(pages.reach(0, 65, 5) && pages.of(0).size() == 2 && pages.of(0)[1] == 3);
  ACOER_CHECK(pages.reach(0, 1000, 5) && pages.of(0).size() == 3);  // never more than its most
  pages.leave(1);
  ACOER_CHECK(pages.sequences() == 1 && pages.most() == 3);
  pages.move(0, 1);
  ACOER_CHECK(pages.of(0).empty() && pages.of(1).size() == 3);
  pages.enter(0, {.held = 2, .most = 2});
  ACOER_CHECK(pages.of(0)[0] == 1 && pages.of(0)[1] == 2 && pages.used() == 5);
}

// Until one has ended, each counts with the most it may hold; then with what they come to hold.
ACOER_TEST(kv_pages_admit_by_expected_length) {
  KvPages pages(64);
  const KvPages::Claim claim{.held = 1, .most = 10};
  ACOER_CHECK(pages.admits({claim, claim}, 20) && !pages.admits({claim, claim}, 19));
  pages.enter(0, claim);
  pages.enter(1, claim);
  ACOER_CHECK(!pages.admits({claim}, 20));
  ACOER_CHECK(pages.reach(0, 2 * 64, 20));
  pages.leave(0);  // 2 pages by the one that ended and 1 by the other: 3 expected
  ACOER_CHECK(pages.admits({claim, claim, claim, claim, claim}, 20));
  ACOER_CHECK(!pages.admits({claim, claim, claim, claim, claim, claim}, 20));
  // By what it is expected to hold it fits, but then neither could reach its end.
  ACOER_CHECK(pages.admits({claim}, 11) && !pages.admits({claim}, 10));
}

// A sequence waits where its page could leave none that can end.
ACOER_TEST(kv_pages_leave_a_way_out) {
  KvPages pages(64);
  pages.enter(0, {.held = 1, .most = 4});
  pages.enter(1, {.held = 1, .most = 4});
  const int64_t limit = 6;
  ACOER_CHECK(pages.reach(0, 2 * 64, limit));
  ACOER_CHECK(pages.reach(1, 2 * 64, limit));   // 2 and 2, 2 left: either can end
  ACOER_CHECK(pages.reach(0, 3 * 64, limit));   // 3 and 2, 1 left: the first can
  ACOER_CHECK(!pages.reach(1, 3 * 64, limit));  // 3 and 3, none left: neither could
  ACOER_CHECK(pages.of(1).size() == 2);
  ACOER_CHECK(pages.reach(0, 4 * 64, limit));
  pages.leave(0);
  ACOER_CHECK(pages.reach(1, 4 * 64, limit));
}

// Sequences of random lengths, many more than fit at their most: all end, and never is more given
// than there is.
ACOER_TEST(kv_pages_never_run_into_a_deadlock) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % uint64_t(n)); };
    const int64_t limit = 8 + below(30), most = 1 + below(8);
    KvPages pages(1);
    struct Sequence {
      int64_t length = 0, done = 0;  // done: 0 in an empty slot
    };
    std::vector<Sequence> slots;
    int64_t waiting = 60, rounds = 0;
    for (; waiting > 0 || pages.sequences() > 0; ++rounds) {
      ACOER_CHECK(rounds < 60 * 8);
      const KvPages::Claim claim{.held = 1, .most = most};
      while (waiting > 0 && pages.admits({claim}, limit)) {
        auto empty = std::find_if(slots.begin(), slots.end(), [](auto& s) { return s.done == 0; });
        if (empty == slots.end()) empty = slots.insert(slots.end(), Sequence{});
        *empty = {1 + below(most), 1};
        pages.enter(empty - slots.begin(), claim);
        waiting -= 1;
      }
      int64_t held = 0;
      for (size_t s = 0; s < slots.size(); ++s) {
        Sequence& sequence = slots[s];
        if (sequence.done == 0) continue;
        if (sequence.done == sequence.length) {
          pages.leave(static_cast<int64_t>(s));
          sequence.done = 0;
        } else if (pages.reach(static_cast<int64_t>(s), sequence.done + 1, limit)) {
          sequence.done += 1;
        }
        held += sequence.done;
      }
      ACOER_CHECK(held <= limit && pages.used() <= limit);
    }
  }
}

// Answers that may be long and mostly are not, in a cache that holds few long ones.
std::vector<GenerateRequest> mostlyShort(const Model& model) {
  std::vector<GenerateRequest> requests;
  for (uint64_t i = 0; i < 12; ++i) {
    GenerateRequest request =
        makeRequest(randomIds(model.spec, static_cast<int64_t>(20 + 13 * i), i), 1 + i % 4, 300);
    for (int32_t id = 0; id < 20; ++id) request.stopIds.push_back(id);
    request.seed = 40 + i;
    requests.push_back(request);
  }
  return requests;
}

// More decode at a time than could all reach their last position, and each draws the same tokens,
// bit for bit, as in a cache that has room for all.
ACOER_TEST(kv_pages_do_not_show_in_tokens) {
  for (const bool packed : {true, false}) {
    ModelSpec spec = tinySpec();
    if (!packed) spec.intermediateSize = 4096;  // too large for rows apart
    const auto model = randomModel(spec, at::kCPU, at::kFloat, 61);
    const auto requests = mostlyShort(*model);
    const Generated roomy = collect(*model, requests);
    const int64_t perPosition = KvCache::bytesPerPosition(model->spec, model->dtype);
    for (const int64_t positions : {760, 1200, 2400}) {
      GenerateOptions options;
      options.kvBytes = positions * perPosition;
      const Generated tight = collect(*model, requests, options);
      ACOER_CHECK(tight.stats.peakSlots > positions / 464 && tight.stats.peakSlots < 30);
      ACOER_CHECK(tight.sequences.size() == roomy.sequences.size());
      for (const auto& [key, sequence] : tight.sequences) {
        checkSame(sequence, roomy.sequences.at(key), 0);
      }
    }
  }
}

}  // namespace
}  // namespace acoer::check
