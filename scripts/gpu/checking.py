"""Part `check`: everything of correctness on a device, one process per test."""
import os
import shutil

from items import Item, entry, left_out, run_item, run_items
from machine import ROOT
from running import run

# Of the engine's tests, those that run on the device; the others are about the CPU and belong to `npm run test:all`.
ON_DEVICE = ('device_', 'gpu_kernels_')
# What answers most comes first: whether the fatbin loads and graphs are recorded, whether sampler and trainer agree,
# whether rows disturb each other.
FIRST = ['device_decodes_without_fallback', 'device_sampler_gap_float32', 'device_sampler_gap_bfloat16',
         'device_generation_same_in_any_batch_float32', 'device_score_float32', 'device_score_bfloat16',
         'device_gradients_float32', 'device_gradients_bfloat16', 'device_resume_float32']
# These want the card's memory for themselves.
ALONE = {'device_out_of_memory_leaves_everything_usable': None, 'device_full_step_qwen3_1p7b': 150}
# On a CPU the emulator runs the kernels; these take seconds.
CPU_KERNELS = ('norm_any_row_count', 'swiglu_any_row_count', 'rotate_any_row_count', 'adamw', 'advance')
CPU_ENGINE = ('device_score_float32', 'device_gradients_float32', 'device_resume', 'device_generation')


def program(build, name):
    return build / ('acoer-check-kernels' if name == 'kernels' else 'acoer-check')


def names_of(build, kind, logs):
    """(names of the program's tests, why there are none)."""
    path = program(build, kind)
    if not path.exists():
        return [], 'it was built with --quick'
    outcome = run([path, '--list'], logs / f'list-{kind}.log', 60)
    names = outcome.text.split()
    return (names, None) if outcome.passed and names else ([], f'its tests cannot be listed: {outcome.summary()}')


def judge_with_limit(outcome):
    """The memory-limit check passes without a limit where there is none to set; then it has checked nothing of it."""
    without = [line for line in outcome.text.splitlines() if 'without a limit:' in line]
    if outcome.passed and without:
        return None, f'everything but the limit: {without[0].strip()}'
    return outcome.passed, outcome.summary()


def engine_item(name, settings):
    words = [program(settings.build, 'engine'), '--device', settings.device, '--exact', name]
    if settings.threads:
        words[1:1] = ['--threads', str(settings.threads)]
    judge = {'judge': judge_with_limit} if name.startswith('device_out_of_memory') else {}
    return Item(f'engine: {name}', words, max(settings.test_limit, ALONE.get(name) or 0), **judge)


def kernel_item(name, settings):
    words = [program(settings.build, 'kernels'), '--device', settings.device, '--exact', name]
    return Item(f'kernels: {name}', words, settings.test_limit)


def launched_in(text):
    """Kernels that a process of acoer-check-kernels launched (its line `launched: a b c`)."""
    lines = [line.partition(':')[2].split() for line in text.splitlines() if line.startswith('launched:')]
    return {name for line in lines for name in line}


def every_kernel(launched, complete, settings, logs):
    """That no kernel of the fatbin's table was left out."""
    title = 'kernels: every kernel was launched'
    listed = run([program(settings.build, 'kernels'), '--kernels'], logs / 'kernel-table.log', 60)
    missing = [name for name in listed.text.split() if name not in launched]
    if not listed.passed:
        return entry(title, False, listed.seconds, f'the table cannot be listed: {listed.summary()}')
    if missing and not complete:
        return left_out(title, f'not all tests of the kernels ended; not launched so far: {" ".join(missing)}')
    return entry(title, not missing, listed.seconds,
                 f'not launched: {" ".join(missing)}' if missing else f'all {len(listed.text.split())} of the table')


def jest(settings):
    """An item, or the entry that says why there is none."""
    title = 'golden tests of the addon (Jest)'
    if settings.device == 'cpu':
        return left_out(title, 'npm run test:all runs them on a CPU')
    if shutil.which('node') is None or not (ROOT / 'node_modules').is_dir():
        return left_out(title, 'Node or node_modules are not there')
    env = {'LIBTORCH': str(settings.libtorch), 'ACOER_TEST_DEVICE': settings.device,
           'NODE_OPTIONS': '--experimental-vm-modules'}
    script = f'cd "{ROOT}" && node scripts/setup.mjs && npx jest test/native/golden'
    return Item(title, ['bash', '-c', script], 400, env)


def in_order(names):
    """FIRST, then the others as they come."""
    return [name for name in FIRST if name in names] + [name for name in names if name not in FIRST]


def chosen(names, settings, on_cpu):
    if settings.device == 'cpu':
        names = [name for name in names if any(part in name for part in on_cpu)]
    return [name for name in names if any(part in name for part in settings.only or [''])]


def check(settings, clock, logs):
    """Yields an entry (items.py) as each item ends."""
    engine, no_engine = names_of(settings.build, 'engine', logs)
    kernels, no_kernels = names_of(settings.build, 'kernels', logs)
    for kind, reason in (('engine', no_engine), ('kernels', no_kernels)):
        if reason:
            failed = 'cannot be listed' in reason
            yield entry(f'{kind}: all tests', False, 0, reason) if failed else left_out(f'{kind}: all tests', reason)
    on_device = chosen([name for name in in_order(engine) if name.startswith(ON_DEVICE)], settings, CPU_ENGINE)
    kernels = chosen(kernels, settings, CPU_KERNELS)
    first = [name for name in on_device if name in FIRST]
    rest = [name for name in on_device if name not in FIRST and name not in ALONE]
    together = [*(engine_item(name, settings) for name in first), *(kernel_item(name, settings) for name in kernels),
                *(engine_item(name, settings) for name in rest)]
    launched, ended = set(), 0
    for found, text in run_items(together, settings.jobs, clock, logs):
        if found['name'].startswith('kernels: '):
            launched |= launched_in(text)
            ended += found['passed'] is True
        yield found
    if kernels and settings.device != 'cpu' and not settings.only:
        yield every_kernel(launched, ended == len(kernels), settings, logs)
    for name in (name for name in on_device if name in ALONE):
        yield run_item(engine_item(name, settings), clock, logs)[0]
    if not settings.only:
        last = jest(settings)
        yield run_item(last, clock, logs)[0] if isinstance(last, Item) else last


def default_jobs(device, card):
    """Processes at a time: several share a card, unless it takes one process only."""
    if device == 'cpu' or card.get('computeMode', 'Default') != 'Default':
        return 1
    return max(1, min(4, len(os.sched_getaffinity(0)) // 4))
