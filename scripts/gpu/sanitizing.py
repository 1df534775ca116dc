"""Parts `sanitize` and `profile`: NVIDIA's compute-sanitizer and ncu over small pieces of work, where installed."""
import shutil

from items import Item, left_out, run_item, run_items

# Small shapes: a sanitizer makes a kernel tens of times slower.
KERNELS = ['attention_lengths_fp32', 'sampler_options', 'backward_bf16', 'advance', 'any_row_count', 'sampler_marks',
           'dropout_bf16', 'log_probs_bf16', 'head_norm_bf16', 'lora_add_bf16', 'lora_swiglu_bf16',
           'quantised_plain_nf4_bf16', 'quantised_product_nf4_bf16', 'adamw']
ENGINE = ['device_sampler_gap_bfloat16', 'device_gradients_bfloat16']
TOOLS = ('memcheck', 'racecheck', 'initcheck')
ITEM_SECONDS = 80
# Without the caching allocator every tensor has bounds of its own.
ENV = {'PYTORCH_NO_CUDA_MEMORY_CACHING': '1'}


def why_not(tool, device):
    if device == 'cpu':
        return 'there is no GPU'
    return None if shutil.which(tool) else f'{tool} is not installed; it comes with the CUDA toolkit'


def items_of(settings):
    """What finds most comes first: memory errors of the engine and of every kernel, then races, then what is read
    before it is written.
    """
    kernels, engine = settings.build / 'acoer-check-kernels', settings.build / 'acoer-check'
    for tool in TOOLS:
        words = ['compute-sanitizer', '--tool', tool, '--error-exitcode', '3']
        if tool == 'memcheck' and engine.exists():
            for name in ENGINE:
                yield Item(f'{tool}: {name}', [*words, engine, '--device', settings.device, '--exact', name],
                           ITEM_SECONDS, ENV, slow=True)
        for name in KERNELS:
            yield Item(f'{tool}: {name}', [*words, kernels, '--device', settings.device, name], ITEM_SECONDS, ENV,
                       slow=True)


def sanitize(settings, clock, logs):
    reason = why_not('compute-sanitizer', settings.device)
    if reason:
        yield left_out('compute-sanitizer', reason)
        return
    chosen = [item for item in items_of(settings) if any(part in item.name for part in settings.only or [''])]
    for found, _ in run_items(chosen, settings.jobs, clock, logs):
        yield found


def profile(settings, clock, logs):
    """One run of ncu; its table of shares of the card's limits lies beside the other results as profile.csv."""
    reason = why_not('ncu', settings.device)
    if reason:
        yield left_out('ncu', reason)
        return
    words = ['ncu', '--clock-control', 'none', '-k', 'regex:acoer_', '-c', '60', '--kill', 'yes', '--section',
             'SpeedOfLight', '--section', 'Occupancy', '--csv', settings.build / 'acoer-measure', '--device',
             settings.device, '--repeats', '1']
    found, text = run_item(Item('ncu', words, clock.limit, slow=True), clock, logs)
    table = [line for line in text.splitlines() if line.startswith('"')]
    if table:
        (settings.out / 'profile.csv').write_text('\n'.join(table) + '\n')
        # ncu ends a program that it kills with an error code of its own.
        found.update(passed=True, result=f'{len(table) - 1} lines in profile.csv')
    yield found
