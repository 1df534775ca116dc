#include "input.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>

namespace acoer::fuzz {

MemoryFile::MemoryFile(std::string_view bytes) : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
  require(descriptor_ >= 0, std::string("memfd_create: ") + std::strerror(errno));
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    require(written > 0, std::string("writing to a memfd: ") + std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

MemoryFile::~MemoryFile() { ::close(descriptor_); }

Input::Input(std::string_view bytes) {
  size_t end = bytes.find(kSeparator);
  std::istringstream head{std::string(bytes.substr(0, end))};
  for (std::string line; std::getline(head, line);) readLine(line);
  while (end != std::string_view::npos) {
    bytes.remove_prefix(end + kSeparator.size());
    end = bytes.find(kSeparator);
    files_.push_back(std::make_unique<MemoryFile>(bytes.substr(0, end)));
    table.files.push_back({files_.back()->descriptor(), "input"});
  }
}

void Input::readLine(const std::string& line) {
  std::istringstream words(line);
  std::string kind;
  words >> kind;
  if (kind == "spec") {
    int64_t tied = 0, type = 0;
    for (int64_t* size :
         {&spec.vocabSize, &spec.hiddenSize, &spec.intermediateSize, &spec.numLayers,
          &spec.numHeads, &spec.numKvHeads, &spec.headDim, &spec.maxPositions, &tied, &type}) {
      words >> *size;
    }
    spec.tieWordEmbeddings = tied != 0;
    dtype = type == 1 ? at::kBFloat16 : type == 2 ? at::kDouble : at::kFloat;
  } else if (kind == "lora") {
    int64_t targets = 0;
    words >> lora.rank >> targets;
    for (size_t t = 0; t < kNumTargets; ++t) lora.targets[t] = targets >> t & 1;
  } else if (kind == "tensor") {
    StoredTensor tensor;
    words >> tensor.name >> tensor.file >> tensor.dtype >> tensor.begin >> tensor.end;
    for (int64_t size = 0; words >> size;) tensor.shape.push_back(size);
    table.tensors.push_back(std::move(tensor));
  }
}

bool accepted(const std::function<void()>& read) {
  try {
    read();
    return true;
  } catch (const EngineError& error) {
    const ErrorCode code = error.code();
    if (code != ErrorCode::kBadFile && code != ErrorCode::kBadShape &&
        code != ErrorCode::kBadArgument) {
      throw;
    }
    require(std::strlen(error.what()) > 0, "a rejection gives a reason");
    return false;
  }
}

}  // namespace acoer::fuzz
