/**
 * examples/wandb.mjs, unchanged, with the built package and a stand-in for wandb that keeps the service's rule: a
 * run never goes back to an earlier step.
 */
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { readMetrics } from '../../src/run';
import { builtCli, ROOT } from '../helpers/cli';
import { needs } from '../helpers/needs';

const root = mkdtempSync(join(tmpdir(), 'acoer-wandb-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
beforeAll(() => void builtCli());

/** A folder whose python3 is `source`, for PATH. */
function python(name: string, source: string): string {
  const folder = join(root, name);
  mkdirSync(folder);
  writeFileSync(join(folder, 'python3'), source);
  chmodSync(join(folder, 'python3'), 0o755);
  return folder;
}

const STAND_IN = `#!${process.execPath}
const { appendFileSync } = require('node:fs');
let text = '';
process.stdin.on('data', (data) => (text += data));
process.stdin.on('end', () => {
  const [init, ...points] = text.trim().split('\\n').map((line) => JSON.parse(line));
  appendFileSync(process.env.RECORD, JSON.stringify({ init, points }) + '\\n');
});
`;

interface Session {
  init: { id: string; group: string; name: string; resume: string; config: { maxSteps: number } };
  points: (Record<string, number> & { 'train/global_step': number })[];
}

const SMALL = ['evalProblems=0', 'evalSampledProblems=0', 'promptsPerStep=2', 'maxCompletionLength=48'];
const sets = (...settings: string[]) => settings.flatMap((setting) => ['--set', setting]);
const SINK = `sinks=["${join(ROOT, 'examples', 'wandb.mjs')}"]`;

function acoer(words: string[], path: string, env: Record<string, string> = {}) {
  return spawnSync(process.execPath, [join(ROOT, 'dist', 'cli', 'main.js'), 'train', ...words], {
    encoding: 'utf8',
    env: { ...process.env, PATH: `${path}${delimiter}${process.env.PATH}`, ...env },
  });
}

/** What the service would show: by run, the points it has not refused. */
function shown(record: string): Map<string, Session['points']> {
  const runs = new Map<string, Session['points']>();
  for (const line of readFileSync(record, 'utf8').trim().split('\n')) {
    const { init, points } = JSON.parse(line) as Session;
    const kept = runs.get(init.id) ?? [];
    for (const point of points)
      if (point['train/global_step'] > (kept.at(-1)?.['train/global_step'] ?? 0)) kept.push(point);
    runs.set(init.id, kept);
  }
  return runs;
}

const stepsOf = (points: Session['points']) => points.map((point) => point['train/global_step']);

test('a resumed run goes on in the same wandb run, each step once', () => {
  const [record, out] = [join(root, 'resumed.jsonl'), join(root, 'resumed')];
  const path = python('resumed-bin', STAND_IN);
  const first = acoer(['--out', out, ...sets(SINK, 'maxSteps=2', ...SMALL)], path, { RECORD: record });
  expect(first.status).toBe(0);
  const second = acoer(['--resume', out, ...sets('maxSteps=4')], path, { RECORD: record });
  expect(second.status).toBe(0);
  const [points, ...more] = shown(record).values();
  expect(more).toEqual([]);
  expect(stepsOf(points!)).toEqual([1, 2, 3, 4]);
  const lines = readMetrics(join(out, 'metrics.jsonl'));
  expect(points!.map((point) => point['train/reward'])).toEqual(lines.map(({ reward }) => reward));
  expect(points!.map((point) => point['thinking/mean'])).toEqual(lines.map((line) => line['thinking/mean']));
});

test('after a rollback another wandb run of the group has every step of the run', () => {
  const [record, out] = [join(root, 'rolled.jsonl'), join(root, 'rolled')];
  const monitor = {
    spanGroups: 4,
    collapseAccuracyDrop: 0,
    collapseZ: null,
    collapseThinkingRatio: 100,
    collapseSteps: 2,
  };
  const settings = ['maxSteps=9', 'saveSteps=2', 'onCollapse=rollback', 'maxRollbacks=1'];
  const words = ['--out', out, ...sets(SINK, ...settings, `monitor=${JSON.stringify(monitor)}`, ...SMALL)];
  const { status, stderr } = acoer(words, python('rolled-bin', STAND_IN), { RECORD: record });
  expect({ status, stderr }).toEqual({
    status: 1,
    stderr: expect.stringContaining('rolled back as often as it may'),
  });
  const runs = shown(record);
  expect(runs.size).toBe(2);
  const lines = readMetrics(join(out, 'metrics.jsonl'));
  expect(stepsOf([...runs.values()].at(-1)!)).toEqual(lines.map(({ step }) => step));
  const ids = [...runs.keys()].map((id) => id.replace(/-\d$/, ''));
  expect(new Set(ids).size).toBe(1);
});

test.each([
  ['that fails at once', '#!/bin/sh\necho no wandb here >&2\nexit 1\n'],
  ['that is missing', null],
])('a Python %s does not end the run', (name, source) => {
  const out = join(root, name.replaceAll(' ', '-'));
  // Without an own python3 the path is empty, so that none is found.
  const path = source === null ? join(root, 'empty') : python(`${name.replaceAll(' ', '-')}-bin`, source);
  const env: Record<string, string> = source === null ? { PATH: path } : {};
  const { status } = acoer(['--out', out, ...sets(SINK, 'maxSteps=2', ...SMALL)], path, env);
  expect(status).toBe(0);
  expect(readMetrics(join(out, 'metrics.jsonl'))).toHaveLength(2);
  const why = source === null ? 'spawn python3 ENOENT' : 'no wandb here';
  expect(readFileSync(join(out, 'wandb.log'), 'utf8')).toContain(why);
});

const hasPython = spawnSync('python3', ['--version']).status === 0;

const FAKE_WANDB = `
import json, os

class Run:
    def __init__(self, given):
        self.lines = [given]
    def log(self, data, step):
        assert isinstance(step, int)
        self.lines.append([step, len(data)])
    def finish(self):
        open(os.environ["RECORD"], "w").write(json.dumps(self.lines))

def init(*, project, name, group, id, resume, config, dir, allow_val_change):
    return Run([project, group, id, resume, dir])
`;

needs('python3', hasPython).test('its Python lines call wandb with what it takes', () => {
  const [record, out] = [join(root, 'python.json'), join(root, 'python')];
  mkdirSync(join(root, 'modules'));
  writeFileSync(join(root, 'modules', 'wandb.py'), FAKE_WANDB);
  const env = { RECORD: record, PYTHONPATH: join(root, 'modules') };
  const { status } = acoer(['--out', out, ...sets(SINK, 'maxSteps=2', ...SMALL)], '', env);
  expect(status).toBe(0);
  const [init, ...points] = JSON.parse(readFileSync(record, 'utf8')) as [string[], ...[number, number][]];
  const id = readFileSync(join(out, 'wandb-id'), 'utf8');
  expect(init).toEqual(['acoer', id, `${id}-0`, 'allow', out]);
  expect(points.map(([step]) => step)).toEqual([1, 2]);
});
