# The optional library libacoer_cuda.so: everything that needs CUDA's own headers. It is built if libtorch is
# a CUDA build and a matching CUDA toolkit is found. Without it the core runs on any device of libtorch, but
# cannot limit the memory of a GPU. It is put next to the binary that loads it at run time: acoer.node, or
# acoer-check in a build without the addon.

# "13" for a libtorch of CUDA 13.0; empty if its files do not tell.
function(acoer_libtorch_cuda_major result)
  set(major "")
  if(EXISTS "${LIBTORCH}/version.py")
    file(STRINGS "${LIBTORCH}/version.py" line REGEX "^cuda.*= '[0-9]+")
    string(REGEX MATCH "'([0-9]+)" matched "${line}")
    set(major "${CMAKE_MATCH_1}")
  elseif(EXISTS "${LIBTORCH}/build-version")
    file(READ "${LIBTORCH}/build-version" line)
    string(REGEX MATCH "\\+cu([0-9]+)[0-9]" matched "${line}")
    set(major "${CMAKE_MATCH_1}")
  endif()
  set(${result} "${major}" PARENT_SCOPE)
endfunction()

# Sets `result` to the reason why the library cannot be built, empty if it can. Sets ACOER_CUDA_HEADERS.
function(acoer_find_toolkit result)
  if(NOT EXISTS "${LIBTORCH}/lib/libtorch_cuda.so")
    set(${result} "this libtorch is a CPU build" PARENT_SCOPE)
    return()
  endif()
  find_package(CUDAToolkit QUIET)
  if(NOT CUDAToolkit_FOUND)
    set(${result} "no CUDA toolkit was found" PARENT_SCOPE)
    return()
  endif()
  acoer_libtorch_cuda_major(torch_major)
  if(torch_major AND NOT CUDAToolkit_VERSION_MAJOR STREQUAL torch_major)
    set(${result} "the toolkit is CUDA ${CUDAToolkit_VERSION_MAJOR}, but libtorch was built for CUDA ${torch_major}" PARENT_SCOPE)
    return()
  endif()
  set(ACOER_CUDA_HEADERS "${CUDAToolkit_INCLUDE_DIRS}" PARENT_SCOPE)
  set(${result} "" PARENT_SCOPE)
endfunction()

acoer_find_toolkit(ACOER_NO_CUDA_BECAUSE)
if(ACOER_NO_CUDA_BECAUSE)
  message(STATUS "libacoer_cuda.so is left out: ${ACOER_NO_CUDA_BECAUSE}")
  return()
endif()

add_library(torch_c10_cuda SHARED IMPORTED)
set_target_properties(torch_c10_cuda PROPERTIES IMPORTED_LOCATION "${LIBTORCH}/lib/libc10_cuda.so")

add_library(acoer_cuda SHARED cuda/limit.cpp)
target_include_directories(acoer_cuda SYSTEM PRIVATE "${LIBTORCH}/include" ${ACOER_CUDA_HEADERS})
target_link_libraries(acoer_cuda PRIVATE torch_c10_cuda torch_c10)
# libtorch finds NVIDIA's libraries itself, at run time.
target_link_options(acoer_cuda PRIVATE -Wl,--allow-shlib-undefined)
if(ACOER_ADDON)
  set_target_properties(acoer_cuda PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${ACOER_OUT}"
    BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "\$ORIGIN/libtorch")
else()
  set_target_properties(acoer_cuda PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")
endif()
