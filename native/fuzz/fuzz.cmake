# The libFuzzer targets. They are built from the readers alone and without OpenMP, so that a run is
# single-threaded and reproducible. Only clang has the engine (-fsanitize=fuzzer).
if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
  message(FATAL_ERROR "ACOER_FUZZ needs clang: cmake -DCMAKE_CXX_COMPILER=clang++")
endif()

set(FUZZ_CORE base/device base/error base/host base/stored_tensors kernels/cpu/panels kernels/gpu/kernels model/lora
  model/model model/policy model/policy_files train/adamw)
list(TRANSFORM FUZZ_CORE REPLACE "(.+)" "core/\\1.cpp")
add_library(acoer_readers STATIC ${FUZZ_CORE} fuzz/input.cpp fuzz/tables.cpp)
target_include_directories(acoer_readers SYSTEM PUBLIC
  "${LIBTORCH}/include" "${LIBTORCH}/include/torch/csrc/api/include")
target_include_directories(acoer_readers PUBLIC core fuzz)
target_compile_options(acoer_readers PUBLIC -Wall -Wextra -Wno-unused-parameter ${SANITIZE}
  -fno-omit-frame-pointer -O1 -g1)
target_compile_options(acoer_readers PRIVATE -fsanitize=fuzzer-no-link)
target_link_options(acoer_readers PUBLIC ${SANITIZE})
target_link_libraries(acoer_readers PUBLIC torch_cpu torch_c10 ${CMAKE_DL_LIBS} pthread)

foreach(target Tensors Model Adapter Restore)
  string(TOLOWER ${target} lower)
  add_executable(fuzz-${lower} fuzz/engine.cpp)
  target_compile_definitions(fuzz-${lower} PRIVATE ACOER_FUZZ_TARGET=fuzz${target})
  target_link_options(fuzz-${lower} PRIVATE -fsanitize=fuzzer)
  target_link_libraries(fuzz-${lower} PRIVATE acoer_readers)
endforeach()
