"""Facts of the machine and of what was built, for the record of a run."""
import datetime
import os
import pathlib
import platform
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Missing(Exception):
    """A requirement is not there; the message says how to get it."""


def output_of(*command):
    """Standard output of a command; empty if it does not run."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ''


def libtorch_folder(device):
    """Folder with include/ and lib/: LIBTORCH, else python3's torch. Raises Missing."""
    folder = os.environ.get('LIBTORCH', '')
    if not folder:
        import importlib.util
        spec = importlib.util.find_spec('torch')
        folder = spec.submodule_search_locations[0] if spec else ''
    path = pathlib.Path(folder)
    if not folder or not (path / 'lib/libtorch_cpu.so').exists():
        raise Missing('no libtorch found; set LIBTORCH to a folder with include/ and lib/, or install torch for python3.')
    if device != 'cpu' and not (path / 'lib/libtorch_cuda.so').exists():
        raise Missing(f'{path} is a CPU build of libtorch; set LIBTORCH to a CUDA build.')
    return path


def torch_version(libtorch):
    for place in ('headeronly', 'csrc/api/include/torch'):
        header = libtorch / 'include/torch' / place / 'version.h'
        if header.exists():
            numbers = dict(re.findall(r'#define TORCH_VERSION_(MAJOR|MINOR|PATCH) (\d+)', header.read_text()))
            if len(numbers) == 3:
                return '{MAJOR}.{MINOR}.{PATCH}'.format(**numbers)
    return 'unknown'


def require(device):
    """Raises Missing unless what every part needs is there."""
    if shutil.which('cmake') is None:
        raise Missing('cmake is missing; install it with your package manager (cmake >= 3.18).')
    if device != 'cpu' and shutil.which('nvidia-smi') is None:
        raise Missing('nvidia-smi is missing, so there is no NVIDIA driver; use --device cpu to try the scripts without a GPU.')


def card(device):
    """What nvidia-smi says of the card."""
    index = device.partition(':')[2] or '0'
    fields = ('name', 'driver_version', 'memory.total', 'compute_cap', 'compute_mode')
    row = output_of('nvidia-smi', '-i', index, '--query-gpu=' + ','.join(fields), '--format=csv,noheader')
    values = [value.strip() for value in row.split(',')]
    if len(values) != len(fields):
        raise Missing(f'nvidia-smi knows no GPU {index}.')
    return dict(zip(('name', 'driver', 'memory', 'computeCapability', 'computeMode'), values))


def processor():
    for line in pathlib.Path('/proc/cpuinfo').read_text().splitlines():
        if line.startswith('model name'):
            return line.partition(':')[2].strip()
    return platform.machine()


def commit_of(given):
    """What these sources are: `given` where git does not know it, as in a copy of the tree."""
    found = output_of('git', 'rev-parse', '--short', 'HEAD')
    if not found:
        return given or 'unknown'
    changed = bool(output_of('git', 'status', '--porcelain', '--untracked-files=no'))
    return found + (' with changes' if changed else '')


def facts(device, libtorch, commit):
    """`commit`: as the user gives it, used where there is no git."""
    release = re.search(r'release ([\d.]+)', output_of('nvcc', '--version'))
    return {
        'date': datetime.datetime.now(datetime.timezone.utc).strftime('%Y-%m-%dT%H:%MZ'),
        'commit': commit_of(commit),
        'device': device,
        'card': {'name': processor()} if device == 'cpu' else card(device),
        'libtorch': torch_version(libtorch),
        'nvcc': release.group(1) if release else None,
        'compiler': output_of('c++', '--version').partition('\n')[0],
        'cpus': len(os.sched_getaffinity(0)),
    }
