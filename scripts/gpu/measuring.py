"""Part `measure`: speed, each figure as a share of the limit measured in the same run."""
import json
import statistics
import sys

import floors
import gates
from machine import ROOT
from running import run

# The engine with its own kernels, and with libtorch's operations in their place.
PATHS = {'acoer': {}, 'aten': {'ACOER_KERNELS': 'aten'}}


def spread(values):
    return {'median': statistics.median(values), 'min': min(values), 'max': max(values)}


def json_lines(text):
    """The lines that are JSON objects; a program may print others."""
    found = []
    for line in text.splitlines():
        if line.startswith('{'):
            try:
                found.append(json.loads(line))
            except ValueError:
                pass  # cut off by a time limit
    return found


def engine_rounds(device, build, logs, rounds, repeats):
    """Lines of acoer-measure by path; the paths take turns. Also the problems that came up."""
    lines, problems = {path: [] for path in PATHS}, []
    tiny = ['--tiny'] if device == 'cpu' else []
    for number in range(rounds):
        for path, env in PATHS.items():
            words = [build / 'acoer-measure', '--device', device, '--repeats', str(repeats), *tiny]
            outcome = run(words, logs / f'measure-{path}-{number + 1}.log', 180, env)
            lines[path] += json_lines(outcome.text)
            if not outcome.passed:
                problems.append(f'acoer-measure ({path}): {outcome.summary()}')
    return lines, problems


def of_kind(lines, kind):
    return [line for line in lines if line['kind'] == kind]


def ceilings_of(lines):
    all_lines = [line for path in PATHS for line in of_kind(lines[path], 'ceilings')]
    names = ('copyBytesPerSecond', 'matmulFlopsPerSecond')
    return {name: spread([line[name] for line in all_lines]) for name in names}


def with_share(seconds, floor):
    """Median, range, and how much of the limit that is."""
    return {'seconds': spread(seconds), 'share': floor / statistics.median(seconds)}


def decode_results(lines, facts, limit):
    shape, element, rank = facts['shape'], facts['bytesPerElement'], facts['loraRank']
    keys = sorted({(line['rows'], line['context']) for path in PATHS for line in of_kind(lines[path], 'decode')})
    results = []
    for rows, context in keys:
        floor = floors.seconds(floors.decode_step(shape, rows, context, element, rank), limit)
        result = {'rows': rows, 'context': context, 'floorSeconds': floor, 'paths': {}}
        for path in PATHS:
            mine = [l for l in of_kind(lines[path], 'decode') if (l['rows'], l['context']) == (rows, context)]
            timed = [line['seconds'] / line['steps'] for line in mine if 'seconds' in line]
            skipped = next((line['skipped'] for line in mine if 'skipped' in line), 'no result')
            result['paths'][path] = with_share(timed, floor) if timed else {'skipped': skipped}
        results.append(result)
    return results


def work_results(lines, facts, limit):
    """Training pass and whole step."""
    shape, element, rank = facts['shape'], facts['bytesPerElement'], facts['loraRank']
    results = {}
    for kind, seconds_of in (('train', lambda l: l['seconds']),
                             ('step', lambda l: l['rolloutSeconds'] + l['trainSeconds'] + l['optimizerSeconds'])):
        some = next((line for path in PATHS for line in of_kind(lines[path], kind)), None)
        if some is None:
            continue
        sizes = [some[name] for name in ('sequences', 'promptTokens', 'completionTokens')]
        floor = floors.seconds(floors.training(shape, *sizes, element, rank), limit)
        if kind == 'step':
            floor += floors.rollout_seconds(shape, *sizes, element, rank, limit)
        result = {'sequences': sizes[0], 'promptTokens': sizes[1], 'completionTokens': sizes[2],
                  'floorSeconds': floor, 'paths': {}}
        for path in PATHS:
            mine = of_kind(lines[path], kind)
            if mine:
                result['paths'][path] = {**with_share([seconds_of(line) for line in mine], floor),
                                         'runs': [{k: v for k, v in line.items() if k.endswith('econds')} for line in mine]}
        results[kind] = result
    return results


def kernel_results(lines, limit):
    results = {}
    for line in of_kind(lines['acoer'], 'kernel'):
        results.setdefault(line['name'], []).append(line)
    return [{'name': name, 'seconds': spread([line['seconds'] for line in mine]),
             'share': mine[0]['bytes'] / limit['copyBytesPerSecond'] / statistics.median(l['seconds'] for l in mine)}
            for name, mine in results.items()]


def from_script(name, device, logs, limit):
    """JSON of a script of this folder, or why there is none."""
    outcome = run([sys.executable, ROOT / 'scripts/gpu' / name, '--device', device], logs / f'{name}.log', limit)
    found = json_lines(outcome.text)
    if outcome.passed and found:
        return found[-1]
    return {'notRun': outcome.summary()}


def peer_shares(peers, facts, limit):
    """Adds each peer's share of the same limit."""
    shape, element, rank = facts['shape'], facts['bytesPerElement'], facts['loraRank']
    for peer in peers.get('runs', []):
        if peer['kind'] == 'decode':
            floor = floors.seconds(floors.decode_step(shape, peer['rows'], peer['context'], element, rank), limit)
        else:
            sizes = [peer[name] for name in ('sequences', 'promptTokens', 'completionTokens')]
            floor = floors.seconds(floors.training(shape, *sizes, element, rank), limit)
        peer['share'] = floor / peer['seconds']
    return peers


def measure(device, card, build, logs):
    """Everything as one dictionary."""
    rounds, repeats = (1, 1) if device == 'cpu' else (2, 2)
    lines, problems = engine_rounds(device, build, logs, rounds, repeats)
    facts = {path: next(iter(of_kind(lines[path], 'facts')), None) for path in PATHS}
    if facts['acoer'] is None or not of_kind(lines['acoer'], 'ceilings'):
        return {'problems': problems or ['acoer-measure printed nothing'], 'gates': gates.judge(card, {}, None)}
    ceilings = ceilings_of(lines)
    limit = {name: value['median'] for name, value in ceilings.items()}
    decode = decode_results(lines, facts['acoer'], limit)
    work = work_results(lines, facts['acoer'], limit)
    # The gates are for the engine as it runs by itself, whichever kernels that takes.
    shares = {(d['rows'], d['context']): d['paths']['acoer'].get('share') for d in decode}
    training = work.get('train', {}).get('paths', {}).get('acoer', {}).get('share')
    return {
        'subject': facts['acoer'],
        'kernels': {path: {'used': f['kernels'], 'reason': f['kernelsReason']} for path, f in facts.items() if f},
        'ceilings': ceilings,
        'decode': decode,
        **work,
        'ownKernels': kernel_results(lines, limit),
        'parts': from_script('parts.py', device, logs, 150),
        'peers': peer_shares(from_script('peers.py', device, logs, 150), facts['acoer'], limit),
        'gates': gates.judge(card, shares, training),
        'problems': problems,
    }
