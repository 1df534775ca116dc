/**
 * The sink `wandb` of the built package, with a stand-in for wandb that keeps the service's rule: a run never goes back
 * to an earlier step. Where the Python package is installed, with that as well, offline.
 */
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
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
const SINK = 'sinks=[wandb]';

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

test.each<[string, string | null, RegExp]>([
  [
    'that fails at once',
    '#!/bin/sh\necho "no wandb here" >> "$LOG"\nexit 3\n',
    /Sink wandb failed at \w+ and gets nothing more: Python ended with 3: no wandb here \(.*wandb\.log\)/,
  ],
  [
    'that is missing',
    null,
    /Sink wandb failed at rewind and gets nothing more: there is no python3; .*pip install wandb/,
  ],
])('a Python %s does not end the run, and why is said once', (name, source, warning) => {
  const out = join(root, name.replaceAll(' ', '-'));
  // Without an own python3 the path is empty, so that none is found.
  const path = source === null ? join(root, 'empty') : python(`${name.replaceAll(' ', '-')}-bin`, source);
  const env: Record<string, string> = { LOG: join(out, 'wandb.log'), ...(source === null && { PATH: path }) };
  const { status, stderr } = acoer(['--out', out, ...sets(SINK, 'maxSteps=2', ...SMALL)], path, env);
  expect(status).toBe(0);
  expect(readMetrics(join(out, 'metrics.jsonl'))).toHaveLength(2);
  expect(stderr.match(/Sink wandb failed/g)).toHaveLength(1);
  expect(stderr).toMatch(warning);
});

test("somebody else's run that names it is not continued without --trust", () => {
  const [record, out] = [join(root, 'foreign.jsonl'), join(root, 'foreign')];
  const path = python('foreign-bin', STAND_IN);
  expect(acoer(['--out', out, ...sets('maxSteps=1', ...SMALL)], path).status).toBe(0);
  const config = join(out, 'config.json');
  writeFileSync(config, readFileSync(config, 'utf8').replace('"sinks": []', '"sinks": ["wandb"]'));
  const env = { RECORD: record, XDG_STATE_HOME: join(root, 'nobody') };
  const { status, stderr } = acoer(['--resume', out, ...sets('maxSteps=2')], path, env);
  expect(status).toBe(2);
  expect(stderr).toContain('names the sink wandb, code that would run with your rights');
  expect(existsSync(record)).toBe(false);
  expect(acoer(['--resume', out, '--trust', ...sets('maxSteps=2')], path, env).status).toBe(0);
  expect(acoer(['--resume', out, ...sets('maxSteps=3')], path, env).status).toBe(0);
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

/**
 * Reads what wandb has written for a later `wandb sync`: its own messages in a log of LevelDB's form, blocks of 32 KB
 * with pieces of records (checksum, length, and whether it is whole 1, the first 2, a middle 3 or the last 4).
 */
const READER = `
import glob, json, struct, sys
from wandb.proto import wandb_internal_pb2

def records(data):
    place, parts = 7, b""
    while place + 7 <= len(data):
        if 32768 - place % 32768 < 7:
            place += 32768 - place % 32768
            continue
        _, length, kind = struct.unpack_from("<IHB", data, place)
        parts += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):
            yield parts
            parts = b""

for path in sorted(glob.glob(sys.argv[1] + "/wandb/offline-run-*/*.wandb")):
    found = {"id": None, "group": None, "steps": [], "rewards": []}
    for data in records(open(path, "rb").read()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        if record.HasField("run"):
            found["id"], found["group"] = record.run.run_id, record.run.run_group
        if record.HasField("history"):
            items = {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
            found["steps"].append(items["_step"])
            found["rewards"].append(items["train/reward"])
    print(json.dumps(found))
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

const hasWandb = spawnSync('python3', ['-c', 'import wandb']).status === 0;

needs('wandb (pip)', hasWandb).test('the real package, offline, has every step of the run and its id', () => {
  const out = join(root, 'real');
  const env = { WANDB_MODE: 'offline', WANDB_SILENT: 'true' };
  const slow = 'sinkTimeoutMs=120000';
  expect(acoer(['--out', out, ...sets(SINK, slow, 'maxSteps=2', ...SMALL)], '', env).status).toBe(0);
  expect(acoer(['--resume', out, ...sets('maxSteps=3')], '', env).status).toBe(0);
  const { stdout } = spawnSync('python3', ['-c', READER, out], { encoding: 'utf8' });
  const sessions = stdout.trim().split('\n').map((line) => JSON.parse(line) as { id: string; group: string; steps: number[]; rewards: number[] });
  const id = readFileSync(join(out, 'wandb-id'), 'utf8');
  expect(sessions.map(({ steps }) => steps)).toEqual([[1, 2], [1, 2, 3]]);
  expect(sessions.map((one) => [one.id, one.group])).toEqual(Array(2).fill([`${id}-0`, id]));
  expect(sessions[1]!.rewards).toEqual(readMetrics(join(out, 'metrics.jsonl')).map(({ reward }) => reward));
}); // prettier-ignore
