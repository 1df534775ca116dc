import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bursts } from '../../src/cli/bursts';
import { listRewards } from '../../src/rewards';
import { acoer, ended, linesFile, objects, spawnAcoer } from '../helpers/cli';

const root = mkdtempSync(join(tmpdir(), 'acoer-reward-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

interface Line {
  step: number;
  group: number | string;
  correct: boolean;
  thinkingTokens: number;
  totalTokens: number;
  format: boolean;
  thinkingClosed?: boolean;
}
interface Output extends Line {
  reward: number;
  parts: Record<string, number>;
  advantage: number;
}

const line = (step: number, group: number | string, correct: boolean, tokens: number, more = {}): Line => ({
  step,
  group,
  correct,
  thinkingTokens: tokens,
  totalTokens: tokens + 20,
  format: true,
  ...more,
});

async function rewards(lines: readonly unknown[], ...words: string[]): Promise<Output[]> {
  const result = await acoer('reward', ...words, linesFile(lines));
  expect(result.stderr).toBe('');
  expect(result.code).toBe(0);
  return objects<Output>(result.stdout);
}

/** TRL's normalisation of a group of two. */
const ofPair = (mine: number, other: number) => {
  const mean = (mine + other) / 2;
  const std = Math.sqrt((mine - mean) ** 2 + (other - mean) ** 2);
  return (mine - mean) / (std + 1e-4);
};

test('each line is written with its reward, named parts and advantage', async () => {
  const given = [
    line(0, 'a', true, 2048),
    line(0, 'b', false, 10, { note: 'kept' }),
    line(0, 'a', false, 4096, { format: false, thinkingClosed: false }),
    line(0, 'b', true, 0),
  ];
  const out = await rewards(given, '--reward', 'beta0.10');
  // 1 + 0.3 (1 - 2048/8192), -0.1 (1 - 10/8192), -0.1 (1 - 4096/8192), 1 + 0.3.
  const whole = [1.225, -0.1 * (1 - 10 / 8192), -0.05, 1.3];
  const format = [1, 1, 0, 1];
  out.forEach((one, i) => {
    expect(one).toMatchObject(given[i]!);
    expect(Object.keys(one.parts)).toEqual(['beta0.10', 'format']);
    expect(one.parts['beta0.10']).toBeCloseTo(whole[i]!, 12);
    expect(one.parts.format).toBe(format[i]);
    expect(one.reward).toBeCloseTo(whole[i]! + format[i]!, 12);
  });
  expect(out[1]).toHaveProperty('note', 'kept');
  // Groups are keyed, not adjacent: lines 0 and 2, 1 and 3.
  [2, 3, 0, 1].forEach((other, i) =>
    expect(out[i]!.advantage).toBeCloseTo(ofPair(out[i]!.reward, out[other]!.reward), 9),
  );
});

test('groups are keyed by step and group: the same name in another step is another group', async () => {
  const out = await rewards([line(0, 1, true, 10), line(1, 1, false, 10)], '--reward', 'acc');
  expect(out.map((one) => one.advantage)).toEqual([0, 0]);
});

test('settings reach the rewards: maxLength, formatWeight, scaleRewards, parameters', async () => {
  const given = [line(0, 1, true, 500), line(0, 1, false, 250)];
  const sets = ['maxLength=1000', 'formatWeight=0.5', 'scaleRewards=none', 'alpha=1'];
  const out = await rewards(given, '--reward', 'grpo-lp', ...sets.flatMap((set) => ['--set', set]));
  expect(out.map((one) => one.reward)).toEqual([1, 0.25]);
  expect(out.map((one) => one.parts)).toEqual([
    { 'grpo-lp': 0.5, format: 0.5 },
    { 'grpo-lp': -0.25, format: 0.5 },
  ]);
  expect(out.map((one) => one.advantage)).toEqual([0.375, -0.375]);
  const bare = await rewards(given, '--reward', 'acc', '--set', 'formatWeight=0');
  expect(bare.map((one) => one.parts)).toEqual([
    { acc: 1, format: 0 },
    { acc: 0, format: 0 },
  ]);
});

test('ACOER’s controller is updated every step, and --state records it', async () => {
  const state = join(root, 'state.jsonl');
  const given = Array.from({ length: 6 }, (_, step) => [
    line(step, 0, true, 1000),
    line(step, 0, step % 2 === 0, 3000),
  ]).flat();
  const sets = ['warmupSteps=2', 'checkWindow=2', 'emaSpan=1', 'minBudget=100', 'maxLength=4000'];
  const words = ['--reward', 'acoer', '--state', state, ...sets.flatMap((set) => ['--set', set])];
  const out = await rewards(given, ...words);
  const states = objects<Record<string, number>>(readFileSync(state, 'utf8'));
  expect(states[0]).toEqual({
    step: 0,
    alpha: 0.02,
    budget: 4000,
    emaAccuracy: 1,
    emaCorrectLength: 2000,
  });
  // Accuracy 1, 0.5, 1, ...: at step 2 it rose, at step 3 it fell.
  expect(states.map((one) => one.alpha)).toEqual([
    0.02,
    0.02,
    0.02 * 1.02,
    0.02 * 1.02 * 0.95,
    expect.closeTo(0.02 * 1.02 * 0.95 * 1.02, 15),
    expect.closeTo(0.02 * (1.02 * 0.95) ** 2, 15),
  ]);
  expect(states.map((one) => one.budget)).toEqual([4000, 4000, 1700, 850, 1700, 850]);
  // Step 3 is rewarded with the state after step 2.
  const bonus = 0.02 * 1.02 * (Math.log1p(5 * (1 - 1000 / 1700)) / Math.log(6));
  expect(out[6]!.parts.acoer).toBeCloseTo(1 + bonus, 12);
});

test('open thinking earns no bonus; the field defaults to true', async () => {
  const given = [line(0, 0, true, 100, { thinkingClosed: false }), line(0, 0, true, 100)];
  const out = await rewards(given, '--reward', 'acoer');
  expect(out[0]!.parts.acoer).toBe(1);
  expect(out[1]!.parts.acoer).toBeGreaterThan(1.01);
});

test('"problem" names the prompt for rewards that remember prompts', async () => {
  const given = [
    line(0, 0, true, 80, { problem: 'p' }),
    line(1, 0, true, 80, { problem: 'q' }),
    line(1, 1, true, 80, { problem: 'p' }),
  ];
  const out = await rewards(given, '--reward', 'hapo');
  // l = h: cos(pi/2) = 0, which is also the value without a history; so the test uses a shorter answer.
  expect(out.map((one) => one.parts.hapo)).toEqual([1, 1, expect.closeTo(1, 12)]);
  const shorter = await rewards([...given, line(2, 0, true, 30, { problem: 'p' })], '--reward', 'hapo');
  expect(shorter[3]!.parts.hapo).toBeCloseTo(1 + Math.cos(Math.PI / 4), 12);
});

test('characters are counted in "text"', async () => {
  const text = `<think>${'x'.repeat(400)}</think>\\boxed{1}`;
  const given = [{ ...line(0, 0, true, 7), text }];
  const words = ['--reward', 'grpo-lp', '--set', 'lengthUnit=chars', '--set', 'maxLength=1000'];
  expect((await rewards(given, ...words))[0]!.parts['grpo-lp']).toBeCloseTo(1 - 0.03, 12);
  const result = await acoer('reward', ...words, linesFile([line(0, 0, true, 7)]));
  expect(result).toMatchObject({ code: 2, stdout: '' });
  expect(result.stderr).toMatch(/line 1: "text" is missing/);
});

describe('bad input is rejected before any output', () => {
  const good = [line(0, 0, true, 5), line(1, 0, true, 5)];
  test.each<[string, unknown, RegExp]>([
    ['not JSON', '{"step": 2', /line 3: not JSON/],
    ['not an object', [1], /line 3: not a JSON object/],
    ['a negative length', line(2, 0, true, -1), /line 3: "thinkingTokens" is -1; .*at least 0/],
    ['a missing field', { step: 2, group: 0 }, /line 3: "correct" is missing; it must be true or false/],
    ['text as a verdict', { ...line(2, 0, true, 1), correct: 'yes' }, /"correct" is "yes"/],
    ['an earlier step', line(0, 0, true, 1), /line 3: step 0 comes after step 1/],
    ['a group that is not a name', { ...line(2, 0, true, 1), group: {} }, /"group" is \{\}/],
  ])('%s', async (_, bad, message) => {
    const state = join(root, 'never.jsonl');
    const result = await acoer('reward', '--reward', 'acc', '--state', state, linesFile([...good, bad]));
    expect(result).toMatchObject({ code: 2, stdout: '' });
    expect(result.stderr).toMatch(message);
    expect(existsSync(state)).toBe(false);
  });

  test.each<[string, string[], RegExp]>([
    ['no reward', [], /--reward is required/],
    ['an unknown reward', ['--reward', 'acor'], /Unknown reward "acor"; did you mean `acoer`/],
    ['an unknown parameter', ['--reward', 'acoer', '--set', 'alfaInit=1'], /alfaInit.*`alphaInit`/],
    ['a bad setting', ['--reward', 'acc', '--set', 'maxLength=0'], /maxLength: must be at least 1/],
    [
      'a bad parameter',
      ['--reward', 'beta0', '--set', 'alpha=x'],
      /rewardParams\.beta0\.alpha: must be a number/,
    ],
    ['format on its own', ['--reward', 'format'], /formatWeight/],
    [
      'a state file in a missing folder',
      ['--reward', 'acc', '--state', '/nowhere/at/all'],
      /Cannot write \/nowhere/,
    ],
    ['a missing file', ['--reward', 'acc', join(root, 'none.jsonl')], /Cannot read/],
  ])('%s', async (_, words, message) => {
    const result = await acoer(
      'reward',
      ...words,
      ...(words.at(-1)?.endsWith('.jsonl') ? [] : [linesFile(good)]),
    );
    expect(result).toMatchObject({ code: 2, stdout: '' });
    expect(result.stderr).toMatch(message);
  });
});

describe('--list', () => {
  test('is a table of every reward with the taxonomy', async () => {
    const { code, stdout } = await acoer('reward', '--list');
    expect(code).toBe(0);
    const rows = stdout.trim().split('\n');
    expect(rows[0]).toMatch(/^reward +correct +incorrect +bounded +continuous +adaptive +scope$/);
    expect(Math.max(...rows.map((row) => row.length))).toBeLessThanOrEqual(100);
    const names = rows.slice(2, rows.indexOf('')).map((row) => row.split(' ')[0]);
    expect(names).toEqual(listRewards().map(({ name }) => name));
    expect(stdout).toMatch(/^acoer +shorter +none +yes +yes +yes +history/m);
  });

  test('takes a list of names, and reports an unknown one', async () => {
    const { stdout } = await acoer('reward', '--list', '--reward', 'recut,acoer', '--json');
    expect((JSON.parse(stdout) as { name: string }[]).map(({ name }) => name)).toEqual(['acoer', 'recut']);
    const wrong = await acoer('reward', '--list', '--reward', 'recut,acoerr');
    expect(wrong).toMatchObject({ code: 2, stdout: '' });
    expect(wrong.stderr).toContain('Unknown reward "acoerr"; did you mean `acoer`?');
  });

  test('is also data, and one reward’s parameters', async () => {
    const { stdout } = await acoer('reward', '--list', '--json');
    const records = JSON.parse(stdout) as { name: string; correct: string; defaults: object }[];
    expect(records.find(({ name }) => name === 'recut')).toMatchObject({
      correct: 'shorter',
      incorrect: 'longer',
      bounded: false,
      defaults: { wrongPenaltySign: 'table' },
    });
    expect((await acoer('reward', '--list', '--reward', 'acoer')).stdout).toMatch(/\bwarmupSteps = 200\b/);
  });
});

describe('as a process', () => {
  test('a program that waits for a step’s results gets them once the next step has begun', async () => {
    const child = spawnAcoer('reward', '--reward', 'acc');
    const done = ended(child);
    try {
      let text = '';
      const answered = new Promise<void>((resolve) =>
        child.stdout.on('data', (data) => {
          text += String(data);
          if (text.split('\n').length > 2) resolve();
        }),
      );
      for (const one of [line(0, 0, true, 5), line(0, 0, false, 5), line(1, 0, true, 5)]) {
        child.stdin.write(`${JSON.stringify(one)}\n`);
      }
      await answered;
      expect(objects<Output>(text).map(({ step }) => step)).toEqual([0, 0]);
    } finally {
      child.stdin.end();
    }
    expect(objects((await done).stdout)).toHaveLength(3);
  });

  test('a bad line in a pipe is rejected before any output', async () => {
    const child = spawnAcoer('reward', '--reward', 'acc');
    // Small enough for the pipe to hold at once, however busy this process is.
    const good = Array.from({ length: 400 }, (_, i) => `${JSON.stringify(line(i, 0, true, 5))}\n`);
    child.stdin.end(`${good.join('')}{"step": 400}\n`);
    const result = await ended(child);
    expect(result).toMatchObject({ code: 2, stdout: '' });
    expect(result.stderr).toMatch(/line 401/);
  });
});

describe('bursts', () => {
  async function* timed(...parts: (number | 'pause' | Error)[]) {
    for (const part of parts) {
      if (part instanceof Error) throw part;
      if (part === 'pause') await new Promise((resolve) => setTimeout(resolve, 120));
      else yield part;
    }
  }
  const collected = async (items: AsyncGenerator<number>) => {
    const all: number[][] = [];
    for await (const burst of bursts(items, 40)) all.push(burst);
    return all;
  };

  test('end when the input is quiet or ends', async () => {
    expect(await collected(timed(1, 2, 'pause', 3, 'pause', 'pause'))).toEqual([[1, 2], [3]]);
    expect(await collected(timed())).toEqual([]);
  });

  test('an error is thrown before its burst is yielded', async () => {
    const seen: number[][] = [];
    const reading = (async () => {
      for await (const burst of bursts(timed(1, 'pause', 2, new Error('bad')), 40)) seen.push(burst);
    })();
    await expect(reading).rejects.toThrow('bad');
    expect(seen).toEqual([[1]]);
  });
});
