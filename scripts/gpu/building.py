"""Part `build`: core, checks and measurements with cmake."""
import os
import re
import shutil

from machine import ROOT
from running import run

ENGINE_CHECK = 'acoer-check'
OTHERS = ('acoer-check-kernels', 'acoer-measure')
# native/cuda/cuda.cmake: what makes memoryLimitBytes work on a GPU.
LIMIT_LIBRARY = 'acoer_cuda'


def is_built(build):
    return all((build / program).exists() for program in OTHERS)


def without_limit_library(configured):
    """Why cmake leaves libacoer_cuda.so out; None where it builds it."""
    left_out = re.search(r'libacoer_cuda\.so is left out: (.*)', configured)
    return left_out.group(1).strip() if left_out else None


def build(folder, libtorch, logs, clock, core=None, quick=False):
    """{passed, seconds, warnings, limitLibrary: "built" or why not}. `core`: libacoer_core.a of another build, instead
    of compiling it. `quick`: without the engine's tests, which take longest to compile.
    """
    words = ['cmake', '-S', ROOT / 'native', '-B', folder, f'-DLIBTORCH={libtorch}', '-DACOER_ADDON=OFF',
             '-DACOER_CHECK=ON', f"-DACOER_CORE={core.resolve() if core else ''}"]
    if shutil.which('ninja'):
        words[1:1] = ['-G', 'Ninja']
    configured = run(words, logs / 'configure.log', min(120, clock.left()))
    if not configured.passed:
        return failed('cmake could not configure the build', configured, configured.seconds)
    without = without_limit_library(configured.text)
    targets = [*([] if quick else [ENGINE_CHECK]), *OTHERS, *([] if without else [LIMIT_LIBRARY])]
    jobs = os.environ.get('CMAKE_BUILD_PARALLEL_LEVEL') or len(os.sched_getaffinity(0))
    built = run(['cmake', '--build', folder, '--parallel', str(jobs), '--target', *targets], logs / 'build.log',
                clock.left())
    seconds = configured.seconds + built.seconds
    if not built.passed:
        why = f'the build did not end in {clock.limit:.0f} s (--limit)' if built.status is None else 'the build failed'
        return failed(why, built, seconds)
    return {'passed': True, 'seconds': seconds, 'warnings': built.text.count('warning:'),
            'limitLibrary': without or 'built'}


def failed(why, outcome, seconds):
    tail = outcome.text.splitlines()[-40:]
    print('\n'.join(tail))
    return {'passed': False, 'seconds': seconds, 'warnings': outcome.text.count('warning:'), 'result': why,
            'tail': tail}
