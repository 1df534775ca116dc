// The only file that includes napi.h, so that the whole addon sees the same settings. NAPI_VERSION
// and NODE_ADDON_API_CPP_EXCEPTIONS are defined in CMakeLists.txt.
#pragma once

// Nothing can be thrown into an environment that is being torn down. Without this definition,
// node-addon-api aborts the process when it tries.
#ifndef NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS
#define NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS
#endif

#include <napi.h>
