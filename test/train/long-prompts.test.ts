/** Prompts that leave no room for a completion: skipped in training, unanswered in evaluation, never fatal. */
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Dataset } from '../../src/data';
import { findLongPrompts, skippedPrompts } from '../../src/train/long-prompts';
import { DataOrder } from '../../src/grpo/order';
import { nextPrompts, type PromptContext } from '../../src/grpo/prompts';
import { NO_WATCH } from '../../src/grpo/watch';
import { resolveTrainConfig } from '../../src/train/inputs';
import { TINY_MODEL } from '../../src/models';
import { readPlannedModel, type PlannedModel } from '../../src/plan';
import { loadTokenizer, renderPrompt, type Tokenizer } from '../../src/tokenizer';
import type { Problem } from '../../src/base/types';
import { acoer, linesFile, objects } from '../helpers/cli';

const root = mkdtempSync(join(tmpdir(), 'acoer-long-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let tokenizer: Tokenizer;
beforeAll(async () => (tokenizer = await loadTokenizer(TINY_MODEL)));

/** The embedded model has 1,024 positions; each of these questions has one token per character. */
const LONG = `${'1+'.repeat(495)}1 mod 10?`;
const IMPOSSIBLE = `${'1+'.repeat(2000)}1 mod 10?`;
const short = (i: number) => ({
  problem: `${i % 9}+${(i * 7) % 9} mod 10?`,
  answer: String(((i % 9) + ((i * 7) % 9)) % 10),
});
const rows = Array.from({ length: 24 }, (_, i) => (i === 5 ? { problem: LONG, answer: '6' } : short(i)));

const SMALL = {
  numGenerations: 2,
  maxCompletionLength: 64,
  evalProblems: 0,
  evalSampledProblems: 0,
};
const set = (values: Record<string, unknown>) =>
  Object.entries(values).flatMap(([name, value]) => ['--set', `${name}=${String(value)}`]);

const trainOn = (file: string, out: string, more: Record<string, unknown>, ...words: string[]) =>
  acoer('train', '--preset', 'tiny', ...set({ dataset: file, ...SMALL, ...more }), '--out', out, ...words);

function problemsOf(questions: readonly string[]): Dataset {
  const get = (index: number): Problem => ({
    id: `p${index}`,
    question: questions[index]!,
    gold: '1',
    level: null,
  });
  return { name: 'mine', size: questions.length, get };
}

const config = (more = {}) => resolveTrainConfig([{ model: 'tiny', ...SMALL, ...more }]);
let planned: PlannedModel;
beforeAll(async () => {
  planned = await readPlannedModel(TINY_MODEL);
});

describe('a run on the embedded model', () => {
  const file = linesFile(rows);

  test('skips a prompt that cannot fit with one warning, trains on every other problem, and can be resumed', async () => {
    const out = join(root, 'skips');
    const settings = { promptsPerStep: 8, maxSteps: 4, saveSteps: 2 };
    const { code, stderr } = await trainOn(file, out, settings);
    expect(stderr).toMatch(
      /1 of 24 problems skipped: the prompt is longer than the 960 tokens that maxCompletionLength = 64 leaves of the model's 1,024 positions \(the longest, of problem 5: 1,007\)/,
    );
    expect(stderr.match(/problems skipped/g)).toHaveLength(1);
    expect(code).toBe(0);
    const resumed = await acoer('train', '--resume', out, '--max-steps', '5');
    expect([resumed.code, resumed.stderr.match(/problems skipped/g)?.length]).toEqual([0, 1]);
  });

  test('can be resumed with another maxPromptLength, which is stored and reported; other changes are refused, naming fork', async () => {
    const out = join(root, 'limit');
    const settings = { promptsPerStep: 4, maxSteps: 2, saveSteps: 1 };
    expect((await trainOn(file, out, settings)).code).toBe(0);
    const { code, stderr } = await acoer(
      'train',
      '--resume',
      out,
      '--max-steps',
      '3',
      '--set',
      'maxPromptLength=900',
    );
    expect(stderr).toContain(
      'changed on resuming: maxPromptLength null -> 900 (later numbers are no longer those of an uninterrupted run)',
    );
    expect(stderr).toContain(
      '1 of 24 problems skipped: the prompt is longer than maxPromptLength = 900 tokens',
    );
    expect(code).toBe(0);
    const stored = (path: string) =>
      JSON.parse(readFileSync(join(out, path), 'utf8')) as Record<string, unknown>;
    expect(stored('config.json')).toMatchObject({ maxPromptLength: 900 });
    expect(stored('checkpoints/step-000003/state.json')).toMatchObject({ config: { maxPromptLength: 900 } });
    const refused = await acoer(
      'train',
      '--resume',
      out,
      '--max-steps',
      '4',
      '--set',
      'maxCompletionLength=32',
    );
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain(`continue in a new folder: acoer fork ${out} --at 3 --set ...`);
  });

  test('is refused before anything is written when no prompt fits, or no prompt could', async () => {
    const out = join(root, 'refused');
    const none = await trainOn(file, out, { maxPromptLength: 2 });
    expect(none.stderr).toMatch(
      /^acoer: Every prompt of \S+ is longer than maxPromptLength = 2 tokens; raise it\.$/m,
    );
    const impossible =
      'maxCompletionLength is 1024, but tiny has only 1024 positions for prompt and completion; lower maxCompletionLength.';
    const train = await trainOn(file, out, { maxCompletionLength: 1024 });
    const plan = await acoer('plan', '--preset', 'tiny', '--no-measure', '--set', 'maxCompletionLength=1024');
    for (const { stderr } of [train, plan]) expect(stderr).toBe(`acoer: ${impossible}\n`);
    expect([none.code, train.code, plan.code]).toEqual([2, 2, 2]);
    expect(existsSync(out)).toBe(false);
  });

  test('a problem that leaves no room counts as unanswered in evaluation', async () => {
    const benchmark = linesFile([short(1), { problem: IMPOSSIBLE, answer: '1' }, short(2)]);
    const out = join(root, 'evaluated');
    const settings = { evalDataset: benchmark, evalProblems: 3, evalMaxNewTokens: 64, maxSteps: 1 };
    const { code, stderr } = await trainOn(file, out, settings);
    expect(stderr).toMatch(
      /1 of the 3 evaluated problems count as unanswered: .* 1,024 positions \(the longest, of problem 1: 4,017 tokens\)/,
    );
    expect(code).toBe(0);
    const summary = JSON.parse(readFileSync(join(out, 'summary.json'), 'utf8')) as {
      base: { greedy: object };
    };
    expect(summary.base.greedy).toMatchObject({ n: 3 });
  });
});

test('acoer eval names a problem that leaves no room and counts each of its answers as wrong', async () => {
  const benchmark = linesFile([short(1), { problem: IMPOSSIBLE, answer: '1' }, short(2)]);
  const out = join(root, 'eval');
  const words = [
    '--model',
    'tiny',
    '--benchmark',
    benchmark,
    '--max-new-tokens',
    '64',
    '-n',
    '2',
    '--out',
    out,
  ];
  const { code, stdout, stderr } = await acoer('eval', ...words, '--json');
  expect(stderr).toMatch(
    /acoer: problem 1 counts as unanswered: its prompt of 4017 tokens leaves no room for an answer in the model's 1024 positions\./,
  );
  expect(stderr.match(/unanswered/g)).toHaveLength(1);
  expect(code).toBe(0);
  expect(objects<object>(stdout)[0]).toMatchObject({ n: 6 });
  const name = readdirSync(out).find((one) => one.endsWith('.jsonl'))!;
  const answers = objects<Record<string, unknown>>(readFileSync(join(out, name), 'utf8'));
  const unanswered = answers.filter(({ prompt_index: index }) => index === 1);
  expect(unanswered).toHaveLength(2);
  for (const one of unanswered) {
    expect(one).toMatchObject({ correct: false, completion: '', total_tokens: 0, finish: 'length' });
  }
});

test('finds the same prompts as rendering every one of them, at every limit', async () => {
  const questions = [
    '1+1 mod 10?',
    '',
    LONG,
    'é'.repeat(40),
    '\u{1D160}'.repeat(9),
    '1'.repeat(63),
    '1'.repeat(64),
  ];
  const dataset = problemsOf(questions);
  const settings = { promptTemplate: '{problem} {problem}', enableThinking: true };
  const lengths = questions.map((_, i) => renderPrompt(tokenizer, dataset.get(i), i, settings).ids.length);
  for (const limit of [1, 4, ...lengths, ...lengths.map((length) => length - 1)]) {
    const found = await findLongPrompts(limit, { dataset, count: dataset.size, tokenizer, config: settings });
    expect([...found.rows]).toEqual(lengths.flatMap((length, i) => (length > limit ? [i] : [])));
    const longest = Math.max(...lengths);
    expect(found.longest?.tokens ?? 0).toBe(longest > limit ? longest : 0);
  }
});

test('training follows the order of the data without the skipped rows, whether found before or on the way', async () => {
  const questions = rows.map(({ problem }) => problem);
  const dataset = problemsOf(questions);
  const order = new DataOrder(dataset.size, 42);
  const data = { trainData: dataset, tokenizer };
  const skippedRows = await skippedPrompts(config(), planned, data, {});
  const expected = Array.from({ length: 60 }, (_, position) => order.rowAt(position)).filter(
    (row) => row !== 5,
  );
  for (const known of [skippedRows, new Set<number>()]) {
    const context: PromptContext = {
      config: config(),
      dataset,
      order,
      tokenizer,
      promptLimit: 960,
      skippedRows: known,
      watch: NO_WATCH,
    };
    let cursor = 0;
    const seen: string[] = [];
    for (let step = 0; step < 5; step++) {
      const next = await nextPrompts(context, cursor, 8);
      seen.push(...next.prompts.map(({ problem }) => problem.id));
      ({ cursor } = next);
    }
    expect(seen).toEqual(expected.slice(0, 40).map((row) => `p${row}`));
    expect([...known]).toEqual([5]);
  }
});

test('the search ends early when no prompt fits', async () => {
  let read = 0;
  const all = problemsOf(new Array<string>(50_000).fill(LONG));
  const get = (index: number) => {
    read++;
    return all.get(index);
  };
  const search = skippedPrompts(config(), planned, { trainData: { ...all, get }, tokenizer }, {});
  await expect(search).rejects.toMatchObject({
    code: 'BAD_CONFIG',
    message: expect.stringMatching(
      /^Every one of 512 prompts spread over mine is longer than the 960 tokens/,
    ),
  });
  expect(read).toBe(512);
});

test('every prompt that is measured while a step is planned is progress', async () => {
  const dataset = problemsOf(rows.map(({ problem }) => problem));
  let progress = 0;
  const watch = { ...NO_WATCH, progress: () => progress++ };
  const order = new DataOrder(dataset.size, 1);
  const skippedRows = new Set<number>();
  const context = { config: config(), dataset, order, tokenizer, promptLimit: 960, skippedRows, watch };
  await nextPrompts(context, 0, 20);
  expect(progress).toBeGreaterThanOrEqual(20);
});

test('measuring prompts lets timers run and ends when the signal aborts', async () => {
  const dataset = problemsOf(new Array<string>(5_000).fill(LONG));
  const aborting = new AbortController();
  setTimeout(() => aborting.abort(), 1);
  const data = { trainData: dataset, tokenizer };
  const measured = skippedPrompts(config(), planned, data, { signal: aborting.signal });
  await expect(measured).rejects.toMatchObject({ code: 'INTERRUPTED' });
  const context: PromptContext = {
    config: config(),
    dataset,
    order: new DataOrder(dataset.size, 1),
    tokenizer,
    promptLimit: 1_000_000,
    skippedRows: new Set(),
    signal: aborting.signal,
    watch: NO_WATCH,
  };
  await expect(nextPrompts(context, 0, 5_000)).rejects.toThrow(/abort/i);
});
