"""Part `check`: everything of correctness on a device."""
import pathlib
import shutil

from machine import ROOT
from running import run

# Small shapes: a sanitizer makes a kernel tens of times slower.
SANITIZED_KERNELS = ['any_row_count', 'attention_lengths_fp32', 'sampler_options', 'sampler_marks', 'dropout_bf16',
                     'advance', 'backward_bf16', 'log_probs_bf16', 'head_norm_bf16', 'adamw']
SANITIZED_ENGINE = ['device_generation', 'device_gradients_bfloat16']
# On a CPU the emulator runs the kernels; these take seconds.
CPU_KERNELS = ['norm_any_row_count', 'swiglu_any_row_count', 'rotate_any_row_count', 'adamw', 'advance']
CPU_ENGINE = ['device_score_float32', 'device_gradients_float32', 'device_resume', 'device_generation']


def entry(name, outcome):
    return {'name': name, 'passed': outcome.passed, 'seconds': round(outcome.seconds, 1), 'result': outcome.summary(),
            'log': pathlib.Path(outcome.log).name}


def left_out(name, reason):
    return {'name': name, 'passed': None, 'seconds': 0, 'result': f'not run: {reason}', 'log': None}


def sanitizers(device, build, logs):
    programs = {
        'kernels': [build / 'acoer-check-kernels', '--device', device, *SANITIZED_KERNELS],
        'engine': [build / 'acoer-check', '--device', device, *SANITIZED_ENGINE],
    }
    # Without the caching allocator every tensor has bounds of its own.
    env = {'PYTORCH_NO_CUDA_MEMORY_CACHING': '1'}
    for tool, names in (('memcheck', ('kernels', 'engine')), ('racecheck', ('kernels',))):
        for name in names:
            title = f'compute-sanitizer {tool}: {name}'
            if device == 'cpu':
                yield left_out(title, 'there is no GPU')
            elif shutil.which('compute-sanitizer') is None:
                yield left_out(title, 'compute-sanitizer is not installed; it comes with the CUDA toolkit')
            else:
                words = ['compute-sanitizer', '--tool', tool, '--error-exitcode', '3', *programs[name]]
                yield entry(title, run(words, logs / f'{tool}-{name}.log', 130, env))


def jest(device, libtorch, logs):
    title = 'golden tests of the addon (Jest)'
    if shutil.which('node') is None or not (ROOT / 'node_modules').is_dir():
        return left_out(title, 'Node or node_modules are not there')
    if device == 'cpu':
        return left_out(title, 'npm test runs them on a CPU')
    env = {'LIBTORCH': str(libtorch), 'ACOER_TEST_DEVICE': device, 'NODE_OPTIONS': '--experimental-vm-modules'}
    script = 'node scripts/setup.mjs && npx jest test/native/golden'
    return entry(title, run(['bash', '-c', f'cd "{ROOT}" && {script}'], logs / 'jest.log', 400, env))


def check(device, libtorch, build, logs):
    """Yields one result after the other: {name, passed (None: not run), seconds, result, log}."""
    cpu = device == 'cpu'
    title = 'engine against fp64 (acoer-check)'
    if (build / 'acoer-check').exists():
        engine = [build / 'acoer-check', '--device', device, *(CPU_ENGINE if cpu else [])]
        yield entry(title, run(engine, logs / 'check.log', 240))
    else:
        yield left_out(title, 'it was built with --quick')
    kernels = [build / 'acoer-check-kernels', '--device', device, *(CPU_KERNELS if cpu else [])]
    yield entry('kernels against fp64 (acoer-check-kernels)', run(kernels, logs / 'kernels.log', 200))
    yield from sanitizers(device, build, logs)
    yield jest(device, libtorch, logs)
