/** Training and evaluation data never share a question, however they are named. */
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { resolveConfig, type ConfigInput } from '../../src/config';
import { type Dataset, type GivenData, loadRunData } from '../../src/data';
import { heldOutCount } from '../../src/data/hold-out';
import { errorCode } from '../../src/base/errors';
import { hubForTests } from '../helpers/hub';

const root = mkdtempSync(join(tmpdir(), 'acoer-run-data-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** `rows` problems with the name of their source in each; every tenth repeats the question before. */
function rowsOf(source: string, rows: number) {
  return Array.from({ length: rows }, (_, i) => {
    const again = i % 10 === 9;
    const question = `${source}: what is ${again ? i - 1 : i}?`;
    return {
      problem: again ? `  ${question.replace(' ', '\n')} ` : question,
      answer: i % 13 === 12 ? '(((' : String(i),
      level: 1 + (i % 2),
    };
  });
}
const text = (rows: readonly object[]) => rows.map((row) => `${JSON.stringify(row)}\n`).join('');
function write(path: string, rows: readonly object[]): string {
  const file = join(root, path);
  mkdirSync(join(file, '..'), { recursive: true });
  writeFileSync(file, text(rows));
  return file;
}

const mine = write('mine.jsonl', rowsOf('mine', 40));
const other = write('other.jsonl', rowsOf('other', 60));
const few = write('few.jsonl', rowsOf('few', 12));
const overlapping = write('overlapping.jsonl', [...rowsOf('mine', 10), ...rowsOf('extra', 20)]);
const copy = join(root, 'copy.jsonl');
copyFileSync(mine, copy);
const link = join(root, 'link.jsonl');
symlinkSync(mine, link);
write('plain/train.jsonl', rowsOf('plain', 50));
const plain = join(root, 'plain');
write('tested/train.jsonl', [...rowsOf('tested', 50), ...rowsOf('tested-test', 3)]);
write('tested/test.jsonl', rowsOf('tested-test', 20));
const tested = join(root, 'tested');
write('validated/train.jsonl', rowsOf('validated', 50));
write('validated/validation.jsonl', rowsOf('validated-validation', 20));
write('validated/test.jsonl', rowsOf('validated-test', 20));
const validated = join(root, 'validated');

function inMemory(source: string, rows: number): Dataset {
  const problems = rowsOf(source, rows).map(({ problem, answer }, i) => ({
    id: String(i),
    question: problem,
    gold: answer,
    level: null,
  }));
  return { name: source, size: rows, get: (index) => problems[index]! };
}

const { hub } = hubForTests();
beforeEach(() => {
  hub().add('datasets/acoer-test/plain', { 'train.jsonl': text(rowsOf('hub', 50)) });
  hub().add('datasets/acoer-test/tested', {
    'train.jsonl': text(rowsOf('hub-tested', 50)),
    'test.jsonl': text(rowsOf('hub-tested-test', 20)),
  });
});

interface Side {
  settings: ConfigInput;
  given?: GivenData;
}

const TRAINING: Record<string, Side> = {
  'a file': { settings: { dataset: mine } },
  'a file, one level': { settings: { dataset: mine, levels: ['2'] } },
  'a file, every row': { settings: { dataset: mine, dropUnparsedGold: false } },
  'a file of few rows': { settings: { dataset: few } },
  'a folder with one split': { settings: { dataset: plain } },
  'a folder with a test split': { settings: { dataset: tested } },
  'the test split of a folder': { settings: { dataset: tested, datasetSplit: 'test' } },
  'the test split of three': { settings: { dataset: validated, datasetSplit: 'test' } },
  'a folder with three splits': { settings: { dataset: validated } },
  'two files': { settings: { dataset: `${mine} + ${other}` } },
  'a file twice': { settings: { dataset: `${mine} + ${copy}` } },
  'a file and a folder': { settings: { dataset: `${mine} + ${tested}` } },
  'one split on the hub': { settings: { dataset: 'acoer-test/plain' } },
  'two splits on the hub': { settings: { dataset: 'acoer-test/tested' } },
  'in memory': { settings: {}, given: { trainData: inMemory('memory', 40) } },
  'few in memory': { settings: {}, given: { trainData: inMemory('memory', 6) } },
};

const EVALUATION: Record<string, Side> = {
  nothing: { settings: {} },
  'the file': { settings: { evalDataset: mine } },
  'the file through a link': { settings: { evalDataset: link } },
  'a copy of the file': { settings: { evalDataset: copy } },
  'another file': { settings: { evalDataset: other } },
  'a file that overlaps': { settings: { evalDataset: overlapping } },
  'two files': { settings: { evalDataset: `${mine} + ${other}` } },
  'the folder': { settings: { evalDataset: plain } },
  'another folder': { settings: { evalDataset: tested } },
  'its training split': { settings: { evalDataset: tested, evalDatasetSplit: 'train' } },
  'its test split': { settings: { evalDataset: tested, evalDatasetSplit: 'test' } },
  'another split of its own': { settings: { evalDatasetSplit: 'validation' } },
  'the split trained on': { settings: { evalDatasetSplit: 'train' } },
  'the hub': { settings: { evalDataset: 'acoer-test/plain' } },
  tiny: { settings: { evalDataset: 'tiny' } },
  'in memory': { settings: {}, given: { evalData: inMemory('given', 20) } },
  'in memory, the same': { settings: {}, given: { evalData: inMemory('memory', 40) } },
};

const configOf = (...layers: ConfigInput[]) => resolveConfig([{ model: 'tiny' }, ...layers]);
const questions = (data: Dataset) =>
  Array.from({ length: data.size }, (_, i) => data.get(i).question.trim().replace(/\s+/g, ' '));
const sources = (data: Dataset) => [...new Set(questions(data).map((question) => question.split(':')[0]))];
const load = (training: Side, ...more: Side[]) =>
  loadRunData(
    configOf(training.settings, ...more.map(({ settings }) => settings)),
    Object.assign({}, training.given, ...more.map(({ given }) => given)) as GivenData,
  );

describe.each(Object.entries(TRAINING))('trained on %s', (_, training) => {
  test.each(Object.entries(EVALUATION))(
    'and evaluated on %s: no question on both sides',
    async (__, evaluation) => {
      const run = await load(training, evaluation).catch((error: unknown) => {
        expect(['BAD_CONFIG', 'BAD_INPUT']).toContain(errorCode(error));
        return null;
      });
      if (run === null) return;
      const evalData = run.evalData!;
      expect(evalData.size).toBeGreaterThan(0);
      const trained = new Set(questions(run.trainData));
      expect(questions(evalData).filter((question) => trained.has(question))).toEqual([]);
      expect(run.notices.filter((notice) => notice.includes('held out'))).toHaveLength(
        run.heldOut > 0 ? 1 : 0,
      );
      for (const notice of run.notices) expect(notice).not.toContain('\n');
    },
  );
});

test.each([
  ['a file', ['mine']],
  ['a folder with one split', ['plain']],
  ['a folder with a test split', ['tested-test']],
  ['the test split of a folder', ['tested-test']],
  ['the test split of three', ['validated-validation']],
  ['two files', ['mine', 'other']],
  ['a file and a folder', ['mine', 'tested-test']],
  ['one split on the hub', ['hub']],
  ['two splits on the hub', ['hub-tested-test']],
  ['in memory', ['memory']],
])('%s alone is evaluated on its own problems only', async (name, expected) => {
  const run = await load(TRAINING[name]!);
  expect(sources(run.evalData!).sort()).toEqual(expected);
});

test('the embedded task has its own evaluation problems, also next to a file of its problems', async () => {
  const own = await load({ settings: { dataset: 'tiny' } });
  expect([own.trainData.size, own.evalData!.size, own.notices]).toEqual([2 ** 17, 1000, []]);
  const rows = [0, 1, 2].map((i) => ({ problem: own.trainData.get(i).question, answer: '1' }));
  const evalDataset = write('of-tiny.jsonl', rows);
  const { trainData } = await load({ settings: { dataset: 'tiny', evalDataset } });
  expect(trainData.size).toBeLessThanOrEqual(2 ** 17 - 3);
  // All training problems are generated and compared.
});

test('the notice is one line with the count and the percentage', async () => {
  const file = write(
    'announced.jsonl',
    Array.from({ length: 400 }, (_, i) => ({ problem: `p ${i}`, answer: '1' })),
  );
  const run = await load({ settings: { dataset: file } });
  expect(run.notices).toEqual([
    `${file} names no evaluation set: held out 40 of 400 problems (10%) for evaluation; they are never trained on.`,
  ]);
  expect([run.trainData.size, run.evalData!.size, run.heldOut]).toEqual([360, 40, 40]);
});

test.each<[string, ConfigInput]>([
  ['the seed', { seed: 7 }],
  ['levels', { levels: ['1'] }],
  ['the number evaluated', { evalProblems: 1, evalSampledProblems: 0 }],
  ['unreadable gold answers', { dropUnparsedGold: false }],
])('which problems are held out does not depend on %s', async (_, settings) => {
  const held = questions((await load(TRAINING['a file']!)).evalData!);
  const again = await load({ settings: { ...settings, dataset: mine } });
  expect(questions(again.evalData!)).toEqual(held);
});

test('a different split of the same rows changes the fingerprint in checkpoints', async () => {
  const fingerprint = async (settings: ConfigInput) =>
    (await load({ settings: { dataset: mine, ...settings } })).trainData.source!.fingerprint;
  expect(await fingerprint({})).toBe(await fingerprint({ seed: 3 }));
  expect(await fingerprint({})).not.toBe(await fingerprint({ evalProblems: 0, evalSampledProblems: 0 }));
  expect(await fingerprint({})).not.toBe(await fingerprint({ evalDataset: overlapping }));
});

test('without an evaluation every problem is trained on', async () => {
  const run = await load({ settings: { dataset: other, evalProblems: 0, evalSampledProblems: 0 } });
  expect(run).toMatchObject({ evalData: null, heldOut: 0, notices: [] });
  expect(run.trainData.size).toBe(run.whole.size);
});

test('too few problems are an error that says what to do; many copies of one question are too few', async () => {
  await expect(load(TRAINING['a file of few rows']!)).rejects.toMatchObject({
    code: 'BAD_CONFIG',
    message: expect.stringMatching(
      /names no evaluation set, and its 12 problems are too few .* name evalDataset, or set evalProblems/,
    ) as string,
  });
  const same = write(
    'same.jsonl',
    Array.from({ length: 40 }, () => ({ problem: 'p', answer: '1' })),
  );
  await expect(load({ settings: { dataset: same } })).rejects.toThrow('too few different questions');
});

test('problems that are also in the evaluation set are left out of training, with a notice', async () => {
  const run = await load({ settings: { dataset: mine, evalDataset: overlapping } });
  expect(run.whole.size - run.trainData.size).toBe(10);
  expect(run.notices).toEqual([
    `${mine}: 10 of ${run.whole.size} problems are also in the evaluation data ${overlapping}; they are left out of training.`,
  ]);
  await expect(load({ settings: { dataset: mine, evalDataset: copy } })).rejects.toThrow(
    'Nothing is left to train on',
  );
});

test('both notices appear when problems of one part are held out and another part has an evaluation split', async () => {
  const run = await load(TRAINING['a file and a folder']!);
  expect(run.notices).toEqual([
    expect.stringMatching(/mine\.jsonl names no evaluation set: held out/),
    expect.stringMatching(
      /tested: 3 of \d+ problems are also in the evaluation data .*tested; they are left out/,
    ),
  ]);
  expect(run.trainData.size).toBe(run.whole.size - run.heldOut - 3);
});

test.each([
  [15, 0],
  [16, 4],
  [40, 8],
  [80, 8],
  [400, 40],
  [72_441, 1000],
])('of %d problems %d are held out', (problems, count) => {
  expect(heldOutCount(problems)).toBe(count);
});
