// acoer-check replays the inputs that the fuzzers keep: those that reached new code and those that
// were findings.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "check.h"
#include "targets.h"

namespace acoer::check {
namespace {

ACOER_TEST(fuzz_inputs_are_read_or_refused) {
  for (const fuzz::Target& target : fuzz::kTargets) {
    int inputs = 0;
    for (const char* kind : {"corpus", "regressions"}) {
      const auto folder = std::filesystem::path(ACOER_FUZZ_INPUTS) / kind / target.name;
      if (!std::filesystem::exists(folder)) continue;
      for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        try {
          std::ostringstream text;
          text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
          target.run(text.str());
        } catch (const std::exception& error) {
          failCheck(entry.path().c_str(), 0, error.what());
        }
        ++inputs;
      }
    }
    ACOER_CHECK(inputs > 0);
  }
}

}  // namespace
}  // namespace acoer::check
