/** What a run's TensorBoard shows: one point a step for every number, whatever happened to the run. */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { trackerTag } from '../../src/base/metric-names';
import {
  EventFile,
  experimentValue,
  readMetrics,
  sessionStartValue,
  summaryEvent,
  textValue,
} from '../../src/run';
import { train, type RunSummary, type TrainEvent } from '../../src/train';
import { samplesMarkdown, type Sample } from '../../src/life/tensorboard';
import { eventsOf, pointsOf, type DecodedEvent, type EventValue } from '../helpers/event-file';
import { fakeParts, fakeRun, newFolder, removeFakeRuns } from '../helpers/fake-run';
import { needs } from '../helpers/needs';
import { copyAsCrashed, untimedFiles } from '../helpers/run-files';
import { asCall, type Given } from '../helpers/given';

afterAll(removeFakeRuns);

const lines = (folder: string) => readMetrics(join(folder, 'metrics.jsonl'));
const tagsOf = (events: readonly DecodedEvent[]) =>
  new Set(events.flatMap(({ values }) => values.map(({ tag }) => tag)));
const stepsOf = (events: readonly DecodedEvent[], tag: string) => pointsOf(events, tag).map(([step]) => step);

/** The only value of a tag. */
function valueOf(events: readonly DecodedEvent[], tag: string): EventValue {
  const [point, ...more] = pointsOf(events, tag);
  expect(more).toEqual([]);
  return point![1];
}

/** Each number of metrics.jsonl is one point of its tag, at its step, and there are no other scalars. */
function expectOnePointPerStep(folder: string): void {
  const events = eventsOf(folder);
  const wanted: Record<string, [number, number][]> = {};
  for (const { step, ...metrics } of lines(folder)) {
    for (const [name, value] of Object.entries(metrics))
      (wanted[trackerTag(name)] ??= []).push([step!, Math.fround(value!)]);
  }
  const found: Record<string, [number, number][]> = {};
  for (const { step, values } of events) {
    for (const { tag, scalar } of values)
      if (scalar !== undefined && step > 0) (found[tag] ??= []).push([step, scalar]);
  }
  expect(found).toEqual(wanted);
  const wallTimes = events.filter(({ step }) => step > 0).map(({ wallTime }) => wallTime);
  expect(wallTimes).toEqual(wallTimes.toSorted((a, b) => a - b));
}

async function whole(more: Given = {}): Promise<{ folder: string; summary: RunSummary }> {
  const given = fakeRun({ completionsSteps: 3, evalSteps: 4, ...more });
  const summary = await (await train(...asCall(given))).result();
  return { folder: given.out, summary };
}

/** A run with two rollbacks: every batch counts as a collapse. */
async function rolledBack(): Promise<{ out: string }> {
  const monitor = {
    spanGroups: 4,
    collapseAccuracyDrop: 0,
    collapseZ: null,
    collapseThinkingRatio: 100,
    collapseSteps: 2,
  };
  const more = { maxSteps: 12, saveSteps: 2, promptsPerStep: 2, completionsSteps: 1 };
  const given = fakeRun({ ...more, onCollapse: 'rollback', maxRollbacks: 2, monitor });
  await expect((await train(...asCall(given))).result()).rejects.toMatchObject({ code: 'COLLAPSED' });
  return given;
}

const resume = async (folder: string, more: Given = {}) =>
  (await train(...asCall({ resume: folder, ...fakeParts(), ...more }))).result();

describe('a run', () => {
  let folder: string;
  let summary: RunSummary;
  let events: DecodedEvent[];
  beforeAll(async () => {
    ({ folder, summary } = await whole({ maxSteps: 10 }));
    events = eventsOf(folder);
  });

  test('has a point for every number of every step', () => {
    expect(lines(folder)).toHaveLength(10);
    expectOnePointPerStep(folder);
  });

  test("has TRL's tags for what TRL logs, and the metric's name for all else", () => {
    const tags = tagsOf(events);
    const of = ['reward', 'completions/mean_length', 'rewards/format/mean', 'step_time', 'learning_rate'];
    for (const name of of) expect(tags).toContain(`train/${name}`);
    for (const name of ['thinking/mean', 'acoer/alpha', 'eval/greedy_accuracy', 'memory/resident_bytes'])
      expect(tags).toContain(name);
    expect(tags).not.toContain('train/step');
  });

  test('has histograms and samples of the steps with a table', () => {
    for (const name of ['thinking_tokens', 'total_tokens', 'reward', 'samples'])
      expect(stepsOf(events, `completions/${name}`)).toEqual([3, 6, 9]);
    const line = lines(folder)[5]!;
    const [, { histogram }] = pointsOf(events, 'completions/total_tokens')[1]!;
    expect(histogram!.sum / histogram!.num).toBeCloseTo(line['completions/mean_length']!);
    expect(histogram).toMatchObject({
      min: line['completions/min_length'],
      max: line['completions/max_length'],
    });
  });

  test('has its settings, its result and a good end', () => {
    const start = valueOf(events, '_hparams_/session_start_info');
    expect(start.hparams).toMatchObject({
      model: 'tiny',
      maxSteps: 10,
      tensorboard: true,
      'rewardParams.acoer.alphaUp': expect.any(Number),
    });
    expect(valueOf(events, '_hparams_/session_end_info').status).toBe(1);
    expect(valueOf(events, 'final/greedy_accuracy').scalar).toBe(
      Math.fround(summary.trained.greedy!.accuracy),
    );
  });

  test('can do without: tensorboard: false', async () => {
    const other = await whole({ maxSteps: 1, tensorboard: false });
    expect(existsSync(join(other.folder, 'tensorboard'))).toBe(false);
  });
});

describe('one point a step', () => {
  const settings = { maxSteps: 9, saveSteps: 4 };

  test('after an end between two steps, which counts as a failure until the run is resumed', async () => {
    const { folder } = await whole(settings);
    const given = fakeRun({ completionsSteps: 3, evalSteps: 4, ...settings });
    for await (const { index } of await train(...asCall(given))) if (index === 5) break;
    expect(valueOf(eventsOf(given.out), '_hparams_/session_end_info').status).toBe(2);
    expectOnePointPerStep(given.out);
    await resume(given.out);
    expectOnePointPerStep(given.out);
    expect(untimedFiles(given.out).get('tensorboard')).toEqual(untimedFiles(folder).get('tensorboard'));
  });

  test('after an end during the evaluation of a step that has a table', async () => {
    const more = { ...settings, completionsSteps: 2, evalSteps: 4 };
    const { folder } = await whole(more);
    const controller = new AbortController();
    const onEvent = (event: TrainEvent) => {
      if (event.type === 'eval-progress' && event.phase === 'step' && event.done === 5) controller.abort();
    };
    const given = fakeRun({ ...more, onEvent, signal: controller.signal });
    await expect((await train(...asCall(given))).result()).rejects.toMatchObject({ code: 'INTERRUPTED' });
    expect(lines(given.out).at(-1)!.step).toBe(3);
    await resume(given.out);
    expectOnePointPerStep(given.out);
    expect(stepsOf(eventsOf(given.out), 'completions/samples')).toEqual([2, 4, 6, 8]);
    expect(untimedFiles(given.out).get('tensorboard')).toEqual(untimedFiles(folder).get('tensorboard'));
  });

  test('after a crash, with an event more or less than lines, or half of one', async () => {
    const given = fakeRun({ completionsSteps: 3, ...settings });
    const copies: string[] = [];
    for await (const { index } of await train(...asCall(given))) {
      if (index !== 6) continue;
      for (const cut of [0, 11, 4000]) {
        const copy = newFolder();
        copyAsCrashed(given.out, copy);
        const folder = join(copy, 'tensorboard');
        const path = join(folder, readdirSync(folder).at(-1)!);
        const bytes = readFileSync(path);
        writeFileSync(path, bytes.subarray(0, bytes.length - cut));
        copies.push(copy);
      }
    }
    for (const copy of copies) {
      await resume(copy);
      expectOnePointPerStep(copy);
      expect(untimedFiles(copy).get('tensorboard')).toEqual(untimedFiles(given.out).get('tensorboard'));
    }
  });

  test('after rollbacks', async () => {
    const given = await rolledBack();
    expect(lines(given.out).at(-1)!['monitor/rollbacks']).toBe(2);
    expectOnePointPerStep(given.out);
    const steps = lines(given.out).map(({ step }) => step);
    expect(stepsOf(eventsOf(given.out), 'completions/samples')).toEqual(steps);
  });

  test('when it is turned on later: the lines before have points, dated by their step times', async () => {
    const given = fakeRun({ ...settings, tensorboard: false });
    for await (const { index } of await train(...asCall(given))) if (index === 5) break;
    await resume(given.out, { tensorboard: true });
    expectOnePointPerStep(given.out);
    const events = eventsOf(given.out).filter(({ step }) => step > 0);
    const written = lines(given.out);
    for (const i of [1, 2, 3, 4]) {
      const apartSeconds = events[i]!.wallTime - events[i - 1]!.wallTime;
      expect(apartSeconds).toBeCloseTo(written[i]!.step_time!, 3);
    }
  });

  test('in a fork, which begins with the steps before it', async () => {
    const source = fakeRun(settings);
    await (await train(...asCall(source))).result();
    const out = newFolder();
    const run = await train({ learningRate: 50 }, { fork: { run: source.out, at: 4 }, ...fakeParts(), out });
    await run.result();
    expectOnePointPerStep(out);
    expect(stepsOf(eventsOf(out), 'train/loss')).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(valueOf(eventsOf(out), '_hparams_/session_start_info').hparams).toMatchObject({
      learningRate: 50,
    });
    expectOnePointPerStep(source.out);
  });

  test('with refused steps, whose numbers that are not finite are left out', async () => {
    let updates = 0;
    const nonFinite = (call: string) => call === 'step' && ++updates === 3;
    const given = fakeRun({ ...settings, ...fakeParts({ nonFinite }) });
    await (await train(...asCall(given))).result();
    const refused = lines(given.out).filter((line) => line.update_applied === 0);
    expect(refused.map(({ step }) => step)).toEqual([3]);
    expectOnePointPerStep(given.out);
    const loss = stepsOf(eventsOf(given.out), 'train/grad_norm');
    expect(loss).toEqual(lines(given.out).flatMap((line) => ('grad_norm' in line ? [line.step] : [])));
  });
});

test('a folder that cannot be written is reported once and does not end the run', async () => {
  const given = fakeRun({ maxSteps: 4 });
  const warnings: string[] = [];
  const onEvent = (event: TrainEvent) => void (event.type === 'warning' && warnings.push(event.message));
  mkdirSync(given.out, { recursive: true });
  writeFileSync(join(given.out, 'tensorboard'), 'a file, not a folder');
  await (await train(...asCall({ ...given, onEvent }))).result();
  expect(warnings.filter((message) => message.includes('tensorboard'))).toEqual([
    expect.stringMatching(/^Sink tensorboard failed at rewind and gets nothing more: E/),
  ]);
  expect(lines(given.out)).toHaveLength(4);
});

describe('samples', () => {
  const sample = (completion: string): Sample => ({
    prompt: 'What is 1 + 1?',
    completion,
    correct: true,
    thinkingTokens: 1,
    totalTokens: 2,
    reward: 0.5,
  });
  /** The text between two fences, which are as the opening one. */
  function blocksOf(markdown: string): string[] {
    const found: string[] = [];
    let open: { fence: string; from: number } | null = null;
    const rows = markdown.split('\n');
    rows.forEach((row, i) => {
      if (open === null && /^`{3,}$/.test(row)) open = { fence: row, from: i };
      else if (open !== null && row === open.fence) {
        found.push(rows.slice(open.from + 1, i).join('\n'));
        open = null;
      }
    });
    expect(open).toBeNull();
    return found;
  }

  test.each([
    ['HTML', '<script>alert(1)</script>'],
    ['fences', '````\n```\n<b>x</b>\n``````'],
    ['a heading and a link', '# a\n[x](javascript:alert(1))'],
  ])('%s stays inside its block', (_, text) => {
    expect(blocksOf(samplesMarkdown([sample(text)]))).toEqual(['What is 1 + 1?', text]);
  });

  test('control characters are replaced, and a long line is cut in the middle', () => {
    const [, shown] = blocksOf(
      samplesMarkdown([sample(`\u001b[31m\u0000\u202e\r${'x'.repeat(1_000_000)}end`)]),
    );
    expect(shown).toMatch(/^\\x1b\[31m(\\[xu][0-9a-f]+){3}x+\n\[\.\.\. 997811 characters \.\.\.\]\nx+end$/);
    expect(shown!.length).toBeLessThan(2500);
  });

  test('are four, spread over the groups', () => {
    const many = Array.from({ length: 16 }, (_, i) => sample(`completion ${i}`));
    const shown = blocksOf(samplesMarkdown(many)).filter((block) => block.startsWith('completion'));
    expect(shown).toEqual(['completion 0', 'completion 4', 'completion 8', 'completion 12']);
  });
});

const SCRIPT = join(__dirname, '..', '..', 'scripts', 'fixtures', 'tensorboard_events.py');
const ready = spawnSync('python3', ['-c', 'import tensorboard']).status === 0;

needs('python3 with tensorboard', ready).describe("TensorBoard's own readers", () => {
  interface Seen {
    scalars: Record<string, [wallTime: number, step: number, value: number][]>;
    texts: Record<string, [step: number, shown: { html: string }][]>;
    status: string | null;
  }
  const seen = (folder: string) =>
    JSON.parse(execFileSync('python3', [SCRIPT, folder], { encoding: 'utf8' })) as Seen;

  function expectSeen(run: string, status: string): void {
    const read = seen(join(run, 'tensorboard'));
    for (const { step, ...metrics } of lines(run)) {
      for (const [name, value] of Object.entries(metrics)) {
        const points = read.scalars[trackerTag(name)]!.filter(([, at]) => at === step);
        expect(points.map(([, , found]) => found)).toEqual([Math.fround(value!)]);
      }
    }
    const steps = lines(run).map(({ step }) => step);
    expect(read.scalars['train/loss']!.map(([, step]) => step)).toEqual(steps);
    expect(read.status).toBe(status);
  }

  test('see one point a step after a crash and a resume', async () => {
    const given = fakeRun({ maxSteps: 8, saveSteps: 3 });
    const copy = newFolder();
    for await (const { index } of await train(...asCall(given)))
      if (index === 5) copyAsCrashed(given.out, copy);
    expect(seen(join(copy, 'tensorboard')).scalars['train/loss']).toHaveLength(5);
    await resume(copy);
    expectSeen(copy, 'STATUS_SUCCESS');
  });

  test('see one point a step after rollbacks', async () => {
    expectSeen((await rolledBack()).out, 'STATUS_FAILURE');
  });

  test('show hostile completions as text', () => {
    const hostile = '</code></pre><script>alert(1)</script>\n````\n<img src=x>\n# **x** [a](javascript:b)';
    const sample = { correct: false, thinkingTokens: 1, totalTokens: 2, reward: 0 };
    const text = samplesMarkdown([{ ...sample, prompt: hostile, completion: `${hostile}\n\n    ~~~\n` }]);
    const folder = newFolder();
    const settings = [experimentValue(1, {}, []), sessionStartValue(1, {})];
    const file = new EventFile(folder, `${folder}-staged`, 1, [summaryEvent(1, 0, settings)]);
    file.append(summaryEvent(2, 1, [textValue('samples', text)]));
    file.close();
    const [[, { html }]] = seen(folder).texts['samples'] as [[number, { html: string }]];
    const elements = Array.from(html.matchAll(/<(\w+)/g), ([, name]) => name);
    expect([...new Set(elements)].sort()).toEqual(['code', 'p', 'pre', 'strong']);
    expect(elements.filter((name) => name === 'pre')).toHaveLength(2);
    expect(html).toContain('&lt;script&gt;alert(1)&lt;/script&gt;');
  });
});
