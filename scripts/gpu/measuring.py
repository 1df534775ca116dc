"""Part `measure`: speed, each figure as a share of the limit measured in the same run."""
import json
import statistics
import sys

import floors
import gates
from items import Item, run_item
from machine import ROOT

# The engine with its own kernels, and with libtorch's operations in their place.
PATHS = {'acoer': {}, 'aten': {'ACOER_KERNELS': 'aten'}}
MOST_ROUNDS = 4


def spread(values):
    return {'median': statistics.median(values), 'min': min(values), 'max': max(values)}


def json_of(line):
    """A line's JSON object; None for any other line, and for one that was cut off."""
    try:
        return json.loads(line) if line.startswith('{') else None
    except ValueError:
        return None


class Runs:
    """Runs programs as long as there is time, and hands on every figure as it comes."""

    def __init__(self, settings, clock, logs, keep):
        """`keep(line)` gets each figure at once, with `program`, so that nothing is lost with what comes after it."""
        self.settings, self.clock, self.logs, self.keep = settings, clock, logs, keep
        self.not_run, self.problems, self.seconds = [], [], {}

    def run(self, name, words, limit, env=None, log=None):
        """The JSON objects that the program printed, also if it did not end well."""
        took = self.seconds.get(name, 0)
        if took > self.clock.left():
            self.not_run.append(f'{name}, another round: it took {took:.0f} s, {self.clock.left():.0f} s are left')
            return []
        figures = []

        def take(line):
            figure = json_of(line)
            if figure is not None:
                figures.append(figure)
                self.keep({'program': name, **figure})

        item = Item(log or name, words, limit, env, slow=True)
        found, _ = run_item(item, self.clock, self.logs, take)
        self.seconds[name] = found['seconds']
        if found['passed'] is None:
            self.not_run.append(f"{name}: {found['result']}")
        elif not found['passed']:
            self.problems.append(f"{name}: {found['result']}")
        return figures


def engine_round(runs, number, lines):
    """One run of acoer-measure with each path; their lines are added to `lines`."""
    settings = runs.settings
    tiny = ['--tiny'] if settings.device == 'cpu' else []
    for path, env in PATHS.items():
        words = [settings.build / 'acoer-measure', '--device', settings.device, '--repeats', '1', *tiny]
        lines[path] += runs.run(f'acoer-measure ({path})', words, 180, env, f'measure-{path}-{number}')


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


def from_script(name, runs):
    """JSON of a script of this folder, or why there is none."""
    problems = len(runs.problems)
    found = runs.run(name, [sys.executable, ROOT / 'scripts/gpu' / name, '--device', runs.settings.device], 150)
    # What torch or a peer's version breaks says nothing about the engine.
    runs.not_run += runs.problems[problems:]
    del runs.problems[problems:]
    if found:
        return found[-1]
    why = [reason for reason in runs.not_run if reason.startswith(name)]
    return {'notRun': '; '.join(why) or f'{name} printed nothing'}


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


def measure(settings, clock, logs, keep):
    """Everything as one dictionary. First one round of all; further rounds of the engine as long as there is time."""
    runs = Runs(settings, clock, logs, keep)
    lines = {path: [] for path in PATHS}
    engine_round(runs, 1, lines)
    parts, peers = from_script('parts.py', runs), from_script('peers.py', runs)
    for number in range(2, 1 + (1 if settings.device == 'cpu' else MOST_ROUNDS)):
        engine_round(runs, number, lines)
    return {**results(lines, settings.card, parts, peers), 'problems': runs.problems, 'notRun': runs.not_run}


def results(lines, card, parts, peers):
    """The figures of all rounds together."""
    facts = {path: next(iter(of_kind(lines[path], 'facts')), None) for path in PATHS}
    if facts['acoer'] is None or not of_kind(lines['acoer'], 'ceilings'):
        return {'gates': gates.judge(card, {}, None), 'parts': parts, 'peers': peers}
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
        'parts': parts,
        'peers': peer_shares(peers, facts['acoer'], limit),
        'gates': gates.judge(card, shares, training),
    }
