"""Compiles a CUDA source to machine code with NVIDIA's run-time compiler, which pip packages for CUDA 12 have and nvcc
they have not.

    nvrtc.py LIBRARY SOURCE OUT FLAG...

Prints the compiler's messages. Exit code: 0, 1 if it does not compile.
"""
import ctypes
import pathlib
import sys

# The compiler has no headers of the C++ library; these have what the kernels take from them.
HEADERS = {
    'cstdint': '''
typedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t; typedef unsigned short uint16_t;
typedef int int32_t; typedef unsigned int uint32_t; typedef long long int64_t; typedef unsigned long long uint64_t;
typedef unsigned long long uintptr_t;
''',
    'cstddef': 'typedef decltype(sizeof(0)) size_t;\n',
    'cmath': '''
#define INFINITY __int_as_float(0x7f800000)
namespace std { using ::fmax; using ::isfinite; using ::ldexp; using ::log; }
''',
    'cfloat': '#define FLT_MAX 3.402823466e+38f\n',
}


def text_of(program, library, kind):
    """What the compiler has to say (`ProgramLog`) or has made (`CUBIN`)."""
    size = ctypes.c_size_t()
    require(getattr(library, f'nvrtcGet{kind}Size')(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    require(getattr(library, f'nvrtcGet{kind}')(program, buffer))
    return buffer.raw


def require(result):
    if result != 0:
        sys.exit(f'nvrtc: error {result}')


def strings(texts):
    return (ctypes.c_char_p * len(texts))(*[text.encode() for text in texts])


def main():
    path, source, out, *flags = sys.argv[1:]
    library = ctypes.CDLL(path)
    program = ctypes.c_void_p()
    headers = [f'#pragma once\n{text}' for text in HEADERS.values()]
    require(library.nvrtcCreateProgram(ctypes.byref(program), pathlib.Path(source).read_bytes(),
                                       pathlib.Path(source).name.encode(), len(headers), strings(headers),
                                       strings(list(HEADERS))))
    failed = library.nvrtcCompileProgram(program, len(flags), strings(flags))
    print(text_of(program, library, 'ProgramLog').rstrip(b'\0\n').decode(errors='replace'))
    if failed:
        sys.exit(1)
    pathlib.Path(out).write_bytes(text_of(program, library, 'CUBIN'))


if __name__ == '__main__':
    main()
