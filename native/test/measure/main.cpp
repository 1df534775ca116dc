// acoer-measure [--device NAME] [--tiny] [--repeats N]: times decoding, training and a whole step
// at Qwen3-1.7B's shape with random weights, and what the device can do at most. One JSON object a
// line on the standard output, as soon as it is known; the repeats go through all workloads in
// turn, so that a slow minute affects all alike. scripts/gpu-check runs it. Exit code: 0, 1 after
// an error, 2 for bad usage.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "base/device.h"
#include "kernels/gpu/kernels.h"
#include "measure.h"

namespace acoer::measure {
namespace {

struct Options {
  std::string device = "cuda";
  bool tiny = false;
  int repeats = 3;
};

// Texts here hold no character below a space.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

long long number(int64_t value) { return static_cast<long long>(value); }

void printFacts(const Subject& subject) {
  const DeviceFacts facts = deviceFacts(subject.device);
  const bool gpu = !subject.device.is_cpu();
  const bool own = gpu && gpuKernels(subject.device).kernels != nullptr;
  const ModelSpec& spec = subject.model->spec;
  std::printf(
      "{\"kind\": \"facts\", \"device\": %s, \"name\": %s, \"totalBytes\": %lld, \"cuda\": %s, "
      "\"kernels\": \"%s\", \"kernelsReason\": %s, \"shape\": {\"vocabSize\": %lld, "
      "\"hiddenSize\": %lld, \"intermediateSize\": %lld, \"numLayers\": %lld, \"numHeads\": %lld, "
      "\"numKvHeads\": %lld, \"headDim\": %lld}, \"loraRank\": %lld, \"bytesPerElement\": 2}\n",
      quoted(facts.device).c_str(), quoted(facts.name).c_str(), number(facts.totalBytes),
      quoted(cudaVersion()).c_str(), own ? "acoer" : "aten",
      quoted(gpu ? gpuKernels(subject.device).reason : "a CPU runs no CUDA kernel").c_str(),
      number(spec.vocabSize), number(spec.hiddenSize), number(spec.intermediateSize),
      number(spec.numLayers), number(spec.numHeads), number(spec.numKvHeads), number(spec.headDim),
      number(subject.policy->options.rank));
}

void printCeilings(const Subject& subject) {
  const Ceilings found = ceilings(subject);
  std::printf(
      "{\"kind\": \"ceilings\", \"copyBytesPerSecond\": %.6g, \"matmulFlopsPerSecond\": %.6g}\n",
      found.copyBytesPerSecond, found.matmulFlopsPerSecond);
}

void printDecode(const Decode& decode) {
  std::printf("{\"kind\": \"decode\", \"rows\": %lld, \"context\": %lld, \"steps\": %lld, ",
              number(decode.rows), number(decode.context), number(decode.steps));
  if (decode.skipped.empty()) {
    std::printf("\"seconds\": %.6g}\n", decode.seconds);
  } else {
    std::printf("\"skipped\": %s}\n", quoted(decode.skipped).c_str());
  }
}

void printTraining(const Training& pass) {
  std::printf(
      "{\"kind\": \"train\", \"sequences\": %lld, \"promptTokens\": %lld, \"completionTokens\": "
      "%lld, \"seconds\": %.6g}\n",
      number(pass.sequences), number(pass.promptTokens), number(pass.completionTokens),
      pass.seconds);
}

void printStep(const Step& step) {
  std::printf(
      "{\"kind\": \"step\", \"sequences\": %lld, \"promptTokens\": %lld, \"completionTokens\": "
      "%lld, \"rolloutSeconds\": %.6g, \"trainSeconds\": %.6g, \"optimizerSeconds\": %.6g}\n",
      number(step.sequences), number(step.promptTokens), number(step.completionTokens),
      step.rolloutSeconds, step.trainSeconds, step.optimizerSeconds);
}

void run(const Options& options) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // each line counts, whatever follows
  const c10::Device device = resolveDevice(options.device);
  computeOn(device);
  const Subject subject = makeSubject(device, options.tiny);
  printFacts(subject);
  const std::vector<int64_t> rows =
      options.tiny ? std::vector<int64_t>{1, 3} : std::vector<int64_t>{1, 16, 96};
  const std::vector<int64_t> contexts =
      options.tiny ? std::vector<int64_t>{40, 72} : std::vector<int64_t>{64, 1024, 4096};
  decode(subject, rows[1], contexts[0]);  // warm-up
  train(subject);
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    printCeilings(subject);
    for (const int64_t context : contexts) {
      for (const int64_t n : rows) printDecode(decode(subject, n, context));
    }
    printTraining(train(subject));
    printCeilings(subject);
  }
  printStep(step(subject));
  for (const KernelTime& kernel : kernelTimes(subject)) {
    std::printf("{\"kind\": \"kernel\", \"name\": %s, \"bytes\": %.6g, \"seconds\": %.6g}\n",
                quoted(kernel.name).c_str(), kernel.bytes, kernel.seconds);
  }
}

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--tiny") {
      options.tiny = true;
    } else if (argument == "--device" && i + 1 < argc) {
      options.device = argv[++i];
    } else if (argument == "--repeats" && i + 1 < argc) {
      options.repeats = std::max(1, std::atoi(argv[++i]));
    } else {
      std::fprintf(stderr, "acoer-measure: unknown argument %s\n", argv[i]);
      return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace acoer::measure

int main(int argc, char** argv) {
  acoer::measure::Options options;
  if (!acoer::measure::parse(argc, argv, options)) return 2;
  try {
    acoer::measure::run(options);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "acoer-measure: %s\n", error.what());
    return 1;
  }
}
