# acoer-check, the tests of the core; acoer-check-kernels, those of the kernels on a device; acoer-measure.

file(GLOB CHECK_SOURCES CONFIGURE_DEPENDS test/*.cpp)
add_executable(acoer-check ${CHECK_SOURCES})
target_link_libraries(acoer-check PRIVATE acoer_core)
# Nearly every test needs it, and it takes most of the compiler's time.
target_precompile_headers(acoer-check PRIVATE <ATen/ATen.h>)
acoer_copy_kernels(acoer-check)
# The CUDA kernels on a CPU. They read the same bytes as vectors and as elements, as they may in CUDA.
set_source_files_properties(test/emulated_gpu.cpp PROPERTIES
  COMPILE_OPTIONS "-fno-strict-aliasing;-Wno-unknown-pragmas"
  INCLUDE_DIRECTORIES "${CMAKE_CURRENT_SOURCE_DIR}/cuda;${CMAKE_CURRENT_SOURCE_DIR}/test/emu"
  SKIP_PRECOMPILE_HEADERS ON)
# The published package has neither the tests' fixtures nor native/fuzz.
if(EXISTS "${CMAKE_SOURCE_DIR}/../test/fixtures/native")
  target_compile_definitions(acoer-check PRIVATE ACOER_FIXTURES="${CMAKE_SOURCE_DIR}/../test/fixtures/native")
endif()
if(EXISTS "${CMAKE_SOURCE_DIR}/fuzz/replay.cpp")
  target_sources(acoer-check PRIVATE
    fuzz/input.cpp fuzz/tables.cpp fuzz/replay.cpp)
  target_include_directories(acoer-check PRIVATE fuzz test)
  target_compile_definitions(acoer-check PRIVATE ACOER_FUZZ_INPUTS="${CMAKE_SOURCE_DIR}/fuzz")
endif()

# The emulator's tests of the kernels, with the kernels on a device. The program replaces operator new, which a
# sanitizer does, too. Kernels read the same bytes as vectors and as elements: no strict aliasing.
if(NOT ACOER_SANITIZE)
  file(GLOB KERNEL_CHECK_SOURCES CONFIGURE_DEPENDS test/device/*.cpp test/emu/*.cpp)
  list(FILTER KERNEL_CHECK_SOURCES EXCLUDE REGEX "emu/(main|emulator)\\.cpp$")
  add_executable(acoer-check-kernels ${KERNEL_CHECK_SOURCES})
  target_include_directories(acoer-check-kernels PRIVATE test/emu cuda)
  target_compile_options(acoer-check-kernels PRIVATE -fno-strict-aliasing -Wno-unknown-pragmas)
  target_link_libraries(acoer-check-kernels PRIVATE acoer_core)
  set_target_properties(acoer-check-kernels PROPERTIES ENABLE_EXPORTS ON)  # names of kernels, by dladdr
  acoer_copy_kernels(acoer-check-kernels)
endif()

file(GLOB MEASURE_SOURCES CONFIGURE_DEPENDS test/measure/*.cpp)
add_executable(acoer-measure ${MEASURE_SOURCES} test/device_models.cpp)
target_link_libraries(acoer-measure PRIVATE acoer_core)
target_precompile_headers(acoer-measure PRIVATE <ATen/ATen.h>)
acoer_copy_kernels(acoer-measure)
