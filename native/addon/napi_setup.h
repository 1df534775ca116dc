// The one place that includes napi.h, so that every file of the addon sees the same settings. The
// definitions NAPI_VERSION and NODE_ADDON_API_CPP_EXCEPTIONS come from CMakeLists.txt.
#pragma once

// While an environment is being torn down nothing can be thrown into it; without this
// node-addon-api aborts the process when that is tried.
#ifndef NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS
#define NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS
#endif

#include <napi.h>
