/**
 * Data sets from the hub, over HTTP from a local server that speaks its protocol, in the layouts and schemas
 * of those the paper uses. The rows are ours; their order per configuration and split is that of the
 * `datasets` library (scripts/fixtures/hub_datasets.py).
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadDataset, type Dataset, type DatasetSpec } from '../../src/data';
import { hubForTests } from '../helpers/hub';

const FOLDER = join(__dirname, '..', 'fixtures', 'data', 'hub');

interface Expected {
  question: string;
  gold: string | null;
  level: string | null;
}
const { repos } = JSON.parse(readFileSync(join(FOLDER, 'expected.json'), 'utf8')) as {
  repos: Record<string, Record<string, Record<string, Expected[]>>>;
};

function filesOf(repo: string): Record<string, Buffer> {
  const entries = readdirSync(join(FOLDER, repo), { recursive: true, withFileTypes: true });
  return Object.fromEntries(
    entries
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .map((path) => [path.slice(join(FOLDER, repo, '/').length), readFileSync(path)]),
  );
}

const { hub, setEnvironment } = hubForTests();
beforeEach(() => {
  for (const repo of Object.keys(repos)) hub().add(`datasets/${repo}`, filesOf(repo));
});

const load = (name: string, spec: Partial<DatasetSpec> = {}) =>
  loadDataset({ name, split: 'train', seed: 1, ...spec });
const rowsOf = (dataset: Dataset): Expected[] =>
  Array.from({ length: dataset.size }, (_, i) => {
    const { question, gold, level } = dataset.get(i);
    return { question, gold, level };
  });
const parsed = (rows: readonly Expected[]) => rows.filter(({ gold }) => gold !== '');
const fetched = () => hub().log.filter((line) => line.includes('/resolve/'));

test.each([
  ['numinamath-tir', 'train', parsed(repos['AI-MO/NuminaMath-TIR']!.default!.train!)],
  ['numinamath-tir', 'eval', repos['AI-MO/NuminaMath-TIR']!.default!.test!],
  ['math', 'train', Object.values(repos['EleutherAI/hendrycks_math']!).flatMap(({ train }) => train!)],
  ['math', 'eval', Object.values(repos['EleutherAI/hendrycks_math']!).flatMap(({ test: rows }) => rows!)],
  ['gsm8k', 'train', repos['openai/gsm8k']!.main!.train!],
  ['gsm8k', 'eval', repos['openai/gsm8k']!.main!.test!],
  ['math500', 'eval', repos['HuggingFaceH4/MATH-500']!.default!.test!],
  ['math-hard', 'train', repos['lighteval/MATH-Hard']!.default!.train!],
  ['math-hard', 'eval', repos['lighteval/MATH-Hard']!.default!.test!],
  ['aime25', 'eval', repos['math-ai/aime25']!.default!.test!],
  ['olympiadbench', 'eval', repos['Hothan/OlympiadBench']!.OE_TO_maths_en_COMP!.train!],
] as const)(
  '%s, %s: the rows of the hub, with their gold answers and levels',
  async (name, split, expected) => {
    expect(expected.length).toBeGreaterThan(0);
    expect(rowsOf(await load(name, { split }))).toEqual(expected);
  },
);

test('OlympiadBench rows say how their answers are judged', async () => {
  const dataset = await load('olympiadbench', { split: 'eval' });
  expect(dataset.get(0).grading).toEqual({ countRepeats: true });
  expect((await load('math500', { split: 'eval' })).get(0).grading).toBeUndefined();
});

test('every configuration and split by hub id matches the datasets library', async () => {
  for (const [repo, configs] of Object.entries(repos)) {
    for (const [config, splits] of Object.entries(configs)) {
      for (const [splitName, rows] of Object.entries(splits)) {
        const dataset = await load(repo, { split: 'eval', config, splitName });
        expect({ repo, config, splitName, rows: rowsOf(dataset) }).toEqual({ repo, config, splitName, rows });
      }
    }
  }
});

test('NuminaMath-TIR rows without a parseable gold answer are left out of training and reported', async () => {
  const { source, size } = await load('numinamath-tir');
  expect(source).toMatchObject({ rows: 6, split: 'train', unparsedGold: { count: 1 } });
  expect(source!.unparsedGold.examples[0]!.at).toBe(
    'AI-MO/NuminaMath-TIR data/train-00000-of-00001.parquet row 6',
  );
  expect(size).toBe(5);
  expect((await load('numinamath-tir', { dropUnparsedGold: false })).size).toBe(6);
});

test('only the card and the files of the split are fetched', async () => {
  await load('gsm8k');
  expect(fetched().map((line) => line.replace(/.*\/resolve\/\w+\//, ''))).toEqual([
    'README.md',
    'main/train-00000-of-00001.parquet',
  ]);
});

test('a pinned name means the same rows after the hub has changed, also offline', async () => {
  const before = await load('math500', { split: 'eval' });
  expect(before.source!.pinned).toMatch(/^math500@[0-9a-f]{40}$/);
  hub().add('datasets/HuggingFaceH4/MATH-500', {
    'test.jsonl': '{"problem":"new","answer":"1","level":1,"unique_id":"n"}\n',
  });
  expect((await load('math500', { split: 'eval' })).size).toBe(1);
  const again = await load(before.source!.pinned!, { split: 'eval' });
  expect(again.source!.fingerprint).toBe(before.source!.fingerprint);
  setEnvironment({ HF_HUB_OFFLINE: '1' });
  expect(rowsOf(await load(before.source!.pinned!, { split: 'eval' }))).toEqual(rowsOf(before));
});

test('a repository without data files is read from its Parquet copy', async () => {
  hub().add('datasets/acoer-test/program', { 'program.py': 'print()' });
  const file = filesOf('acoer-test/sharded')['data/train-00000-of-00003.parquet']!;
  hub().add(
    'datasets/acoer-test/program',
    { 'first/train/0000.parquet': file, 'second/test/0000.parquet': file },
    { branch: 'refs/convert/parquet' },
  );
  expect(rowsOf(await load('acoer-test/program', { config: 'first' }))).toEqual([
    { question: 'shard 0', gold: '0', level: null },
  ]);
  await expect(load('acoer-test/program')).rejects.toMatchObject({
    code: 'BAD_CONFIG',
    message: 'acoer-test/program has several configurations; choose one of first, second',
  });
});

test.each([
  ['math500', {}, 'BAD_CONFIG', /math500 is made for evaluation; .*datasetSplit to test/],
  ['openai/gsm8k', { splitName: 'dev' }, 'BAD_CONFIG', /has no split dev; it has test, train/],
  ['gsm8k', { config: 'sokratic' }, 'BAD_CONFIG', /no configuration "sokratic"; it has main, socratic/],
  ['acoer-test/nowhere', {}, 'HUB', /acoer-test\/nowhere/],
  ['gsm8k', { levels: ['3'] }, 'BAD_CONFIG', /has no levels/],
  [
    'acoer-test/bare',
    { columns: { problem: 'task' } },
    'BAD_INPUT',
    /train\.jsonl line 1 .*looked for task.*its columns are question, answer/,
  ],
] as [string, Partial<DatasetSpec>, string, RegExp][])(
  '%s with %j is refused',
  async (name, spec, code, message) => {
    await expect(load(name, spec)).rejects.toMatchObject({ code, message: expect.stringMatching(message) });
  },
);

test('math500 can be trained on by setting its split', async () => {
  expect((await load('math500', { splitName: 'test' })).size).toBe(3);
});

test('levels keep only their problems', async () => {
  const dataset = await load('math', { levels: ['3'] });
  expect(rowsOf(dataset).map(({ level }) => level)).toEqual(['3', '3']);
  expect(dataset.source!.otherLevels).toBe(2);
});

test('several data sets are joined in the order they are named', async () => {
  const [math, gsm, both] = [await load('math'), await load('gsm8k'), await load('math + gsm8k')];
  expect(rowsOf(both)).toEqual([...rowsOf(math), ...rowsOf(gsm)]);
  expect(both.source).toMatchObject({ rows: 6, split: 'train' });
  expect(rowsOf(await load(both.source!.pinned!))).toEqual(rowsOf(both));
  const ids = Array.from({ length: both.size }, (_, i) => both.get(i).id);
  expect(new Set(ids).size).toBe(both.size);
});

test('a folder on disk is read like a repository', async () => {
  const folder = join(FOLDER, 'lighteval', 'MATH-Hard');
  const dataset = await load(folder, { split: 'eval' });
  expect(rowsOf(dataset)).toEqual(repos['lighteval/MATH-Hard']!.default!.test);
  expect(hub().log).toEqual([]);
  const empty = mkdtempSync(join(tmpdir(), 'acoer-empty-'));
  await expect(load(empty)).rejects.toMatchObject({ message: expect.stringContaining('no data files') });
  rmSync(empty, { recursive: true });
});
