# acoer-null-cuda: checks of the core's CUDA side on a machine without a GPU (docs/gpu.md). libtorch must be a
# CUDA build. NVIDIA's libraries are not needed, only the headers of the CUDA toolkit.
if(NOT EXISTS "${LIBTORCH}/lib/libtorch_cuda.so")
  message(FATAL_ERROR "null-cuda needs a CUDA build of libtorch, and ${LIBTORCH} is a CPU build")
endif()
if(ACOER_NO_CUDA_BECAUSE)
  message(FATAL_ERROR "null-cuda needs libacoer_cuda.so, and ${ACOER_NO_CUDA_BECAUSE}")
endif()

# The stand-ins, generated from the functions that this libtorch uses of each library.
set(STAND_INS "${CMAKE_BINARY_DIR}/stand-ins")
execute_process(COMMAND node "${CMAKE_CURRENT_LIST_DIR}/stand-ins.mjs" "${LIBTORCH}/lib" "${STAND_INS}/source"
  OUTPUT_VARIABLE STAND_IN_LINES OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+" STAND_IN_LINES "${STAND_IN_LINES}")
string(REPLACE ";" " " STAND_IN_LINES "${STAND_IN_LINES}")
separate_arguments(STAND_IN_LINES)
list(LENGTH STAND_IN_LINES count)
math(EXPR last "${count} - 1")
foreach(i RANGE 0 ${last} 2)
  math(EXPR j "${i} + 1")
  list(GET STAND_IN_LINES ${i} name)
  list(GET STAND_IN_LINES ${j} soname)
  set(target stand_in_${name})
  add_library(${target} SHARED "${STAND_INS}/source/${name}.cpp")
  if(EXISTS "${CMAKE_CURRENT_LIST_DIR}/${name}.cpp")
    target_sources(${target} PRIVATE "${CMAKE_CURRENT_LIST_DIR}/${name}.cpp")
    target_include_directories(${target} SYSTEM PRIVATE ${ACOER_CUDA_HEADERS})
    target_compile_options(${target} PRIVATE -Wall -Wextra -Wno-unused-parameter)
  endif()
  file(SIZE "${STAND_INS}/source/${name}.map" map_bytes)
  if(map_bytes GREATER 0)
    target_link_options(${target} PRIVATE "-Wl,--version-script=${STAND_INS}/source/${name}.map")
  endif()
  set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME "${soname}" SUFFIX ""
    LIBRARY_OUTPUT_DIRECTORY "${STAND_INS}")
endforeach()

# The same program twice: alone, as on a machine without the CUDA toolkit, and next to libacoer_cuda.so.
file(GLOB NULL_CUDA_CHECKS CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/check_*.cpp")
add_executable(acoer-null-cuda ${NULL_CUDA_CHECKS} test/main.cpp test/device_models.cpp)
target_include_directories(acoer-null-cuda PRIVATE "${CMAKE_CURRENT_LIST_DIR}" test)
target_link_libraries(acoer-null-cuda PRIVATE acoer_core)
target_link_options(acoer-null-cuda PRIVATE -Wl,--allow-shlib-undefined)
set_target_properties(acoer-null-cuda PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bare")
acoer_copy_kernels(acoer-null-cuda)
file(COPY "${KERNELS_FATBIN}" "${KERNELS_OLDER}" DESTINATION "${CMAKE_BINARY_DIR}")
add_custom_command(TARGET acoer-null-cuda POST_BUILD
  COMMAND ${CMAKE_COMMAND} -E copy $<TARGET_FILE:acoer-null-cuda> "${CMAKE_BINARY_DIR}/acoer-null-cuda")
