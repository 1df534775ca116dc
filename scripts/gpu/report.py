"""The record of a run: one JSON and one Markdown file."""
import json
import re

RESULT = {True: 'pass', False: '**FAIL**', None: 'skipped'}


def slug(text):
    return re.sub(r'[^a-z0-9]+', '-', text.lower()).strip('-')


def table(header, rows):
    lines = ['| ' + ' | '.join(header) + ' |', '|' + '|'.join([' --- '] * len(header)) + '|']
    return '\n'.join(lines + ['| ' + ' | '.join(row) + ' |' for row in rows])


def percent(share):
    return '-' if share is None else f'{100 * share:.0f}%'


def milliseconds(spread):
    return f"{1e3 * spread['median']:.3g} ({1e3 * spread['min']:.3g}-{1e3 * spread['max']:.3g})"


def path_cells(paths):
    cells = []
    for path in ('acoer', 'aten'):
        result = paths.get(path, {})
        if 'seconds' in result:
            cells += [milliseconds(result['seconds']), percent(result['share'])]
        else:
            cells += [result.get('skipped', 'no result'), '-']
    return cells


def facts_text(machine):
    card = machine['card']
    rows = [['card', card['name']], ['commit', machine['commit']], ['libtorch', machine['libtorch']],
            ['nvcc', machine['nvcc'] or 'not installed'], ['compiler', machine['compiler']],
            ['CPUs', str(machine['cpus'])]]
    for name, title in (('driver', 'driver'), ('memory', 'memory'), ('computeCapability', 'compute capability')):
        if name in card:
            rows.insert(1, [title, card[name]])
    return table(['machine', ''], rows)


def counts(items):
    """`12 passed, 1 failed, 3 skipped`."""
    of = [sum(item['passed'] is result for item in items) for result in (True, False, None)]
    return ', '.join(f'{n} {word}' for n, word in zip(of, ('passed', 'failed', 'skipped')))


def check_text(check):
    rows = [[item['name'], RESULT[item['passed']], f"{item['seconds']:.0f}", item['result'].replace('|', '/')]
            for item in check['items']]
    return f"{counts(check['items'])}.\n\n" + table(['check', 'result', 's', ''], rows)


def gates_text(gates):
    rows = [[g['gate'], percent(g['required']), percent(g['measured']),
             g['result'] + (f" ({g['reason']})" if g['reason'] else '')] for g in gates]
    return table(['gate', 'required', 'measured', 'result'], rows)


def speed_text(measure):
    ceilings = measure['ceilings']
    copy, matmul = ceilings['copyBytesPerSecond'], ceilings['matmulFlopsPerSecond']
    kernels = ', '.join(f"{path}: {k['used']}" + (f" ({k['reason']})" if k['reason'] else '')
                        for path, k in measure['kernels'].items())
    parts = [
        f"Ceilings of this run: copy {copy['median'] / 1e9:.0f} GB/s ({copy['min'] / 1e9:.0f}-{copy['max'] / 1e9:.0f}), "
        f"bfloat16 product {matmul['median'] / 1e12:.3g} TFLOP/s "
        f"({matmul['min'] / 1e12:.3g}-{matmul['max'] / 1e12:.3g}). Kernels used, by column: {kernels}.",
        'Times are medians (range) in ms; a share is the time at the ceilings over the measured one.',
        table(['decode step', 'limit', 'as shipped', 'share', 'ACOER_KERNELS=aten', 'share'],
              [[f"{d['rows']} x {d['context']:,}", f"{1e3 * d['floorSeconds']:.3g}", *path_cells(d['paths'])]
               for d in measure['decode']]),
    ]
    work = [[f"{title}, {w['sequences']} x ({w['promptTokens']} + {w['completionTokens']:,})",
             f"{1e3 * w['floorSeconds']:.3g}", *path_cells(w['paths'])]
            for key, title in (('train', 'forward and backward'), ('step', 'whole step')) if (w := measure.get(key))]
    parts.append(table(['work', 'limit', 'as shipped', 'share', 'ACOER_KERNELS=aten', 'share'], work))
    if measure['ownKernels']:
        parts.append(table(['kernel', 'ms', 'share of the copy bandwidth'],
                           [[k['name'], milliseconds(k['seconds']), percent(k['share'])] for k in measure['ownKernels']]))
    parts.append(other_text('Parts through torch', measure['parts']))
    parts.append(peers_text(measure['peers']))
    return '\n\n'.join(parts)


def other_text(title, found):
    if 'notRun' in found:
        return f"{title}: not run ({found['notRun']})."
    rows = [[name, f'{value:.3g}' if isinstance(value, float) else str(value)] for name, value in found.items()]
    return table([title, ''], rows)


def peers_text(peers):
    if 'notRun' in peers:
        return f"Peers: not run ({peers['notRun']})."
    rows = []
    for run in peers['runs']:
        size = (f"{run['rows']} x {run['context']:,}" if run['kind'] == 'decode' else
                f"{run['sequences']} x ({run['promptTokens']} + {run['completionTokens']:,})")
        rows.append([run['name'], size, f"{1e3 * run['seconds']:.3g}", percent(run['share'])])
    versions = ', '.join(f'{name} {version}' for name, version in peers['versions'].items())
    return f'{table(["peer", "size", "ms", "share"], rows)}\n\n{versions}.'


def markdown(record):
    machine = record['machine']
    parts = [f"# {machine['card']['name']}, {machine['date'][:10]}",
             'Made by `scripts/gpu-check`; all figures are in the JSON file beside this one.']
    if machine['device'] == 'cpu':
        parts.append('**On a CPU with tiny sizes: a check of the scripts. No figure here says anything about a GPU.**')
    parts.append(facts_text(machine))
    if 'build' in record:
        build = record['build']
        parts.append(f"Build: {'passed' if build['passed'] else '**FAILED**'} in {build['seconds']:.0f} s, "
                     f"{build['warnings']} warnings.")
        if build.get('limitLibrary', 'built') != 'built':
            parts.append(f"Without libacoer_cuda.so, so no memory limit could be set: {build['limitLibrary']}.")
    for part, title in (('check', 'Correctness'), ('sanitize', 'Sanitizers'), ('profile', 'Profile')):
        if part in record:
            parts += [f'## {title}', check_text(record[part])]
    if 'measure' in record:
        measure = record['measure']
        parts += ['## Gates', gates_text(measure['gates']), '## Speed']
        if 'ceilings' in measure:
            parts.append(speed_text(measure))
        parts += [f'Problem: {problem}' for problem in measure['problems']]
        parts += [f'Not run: {reason}' for reason in measure['notRun']]
    return '\n\n'.join(parts) + '\n'


def write(record, folder):
    """Paths of the JSON and the Markdown file."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{record['machine']['date'][:10]}-{slug(record['machine']['card']['name'])}"
    paths = folder / f'{name}.json', folder / f'{name}.md'
    paths[0].write_text(json.dumps(record, indent=1) + '\n')
    paths[1].write_text(markdown(record))
    return paths
