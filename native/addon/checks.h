// What must hold of arguments before the core sees them, so that no misuse reaches a kernel.
// Throws kBadArgument or kBadShape with a sentence; plain structs only.
#pragma once

#include "adamw.h"
#include "generate.h"

namespace acoer {

void checkStep(const StepOptions& options);
void checkRequest(const GenerateRequest& request, const ModelSpec& spec);

}  // namespace acoer
