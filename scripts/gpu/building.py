"""Part `build`: core, checks and measurements with cmake."""
import os
import shutil

from machine import ROOT
from running import run

ENGINE_CHECK = 'acoer-check'
OTHERS = ('acoer-check-kernels', 'acoer-measure')


def is_built(build):
    return all((build / program).exists() for program in OTHERS)


def build(folder, libtorch, logs, core=None, quick=False):
    """{passed, seconds, warnings}. `core`: libacoer_core.a of another build, instead of compiling it. `quick`: without
    the engine's tests, which take longest to compile.
    """
    words = ['cmake', '-S', ROOT / 'native', '-B', folder, f'-DLIBTORCH={libtorch}', '-DACOER_ADDON=OFF',
             '-DACOER_CHECK=ON', f"-DACOER_CORE={core.resolve() if core else ''}"]
    if shutil.which('ninja'):
        words[1:1] = ['-G', 'Ninja']
    configured = run(words, logs / 'configure.log', 120)
    if not configured.passed:
        print(configured.text)
        return {'passed': False, 'seconds': configured.seconds, 'warnings': 0}
    jobs = os.environ.get('CMAKE_BUILD_PARALLEL_LEVEL') or len(os.sched_getaffinity(0))
    targets = OTHERS if quick else (ENGINE_CHECK, *OTHERS)
    built = run(['cmake', '--build', folder, '--parallel', str(jobs), '--target', *targets], logs / 'build.log', 570)
    if not built.passed:
        print('\n'.join(built.text.splitlines()[-40:]))
    return {'passed': built.passed, 'seconds': configured.seconds + built.seconds,
            'warnings': built.text.count('warning:')}
