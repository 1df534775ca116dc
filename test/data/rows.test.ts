/** The columns of rows: kept as JSON has them, from every format and from memory, and safe from their readers. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { datasetOf, type DatasetSpec, loadDataset } from '../../src/data';
import { referenceRule } from '../../src/judges';

const root = mkdtempSync(join(tmpdir(), 'acoer-rows-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const regex = referenceRule({ judge: 'regex', judgeParams: { pattern: 'x' } });
const spec = (more: Partial<DatasetSpec> = {}) => ({ split: 'train' as const, seed: 1, ...more });

async function file(name: string, text: string | Uint8Array, more: Partial<DatasetSpec> = {}) {
  const path = join(root, name);
  writeFileSync(path, text);
  return loadDataset({ name: path, ...spec(more) });
}

const inMemory = (rows: readonly object[], more: Partial<DatasetSpec> = {}) =>
  datasetOf('rows', rows as never, spec({ references: regex, ...more }));

test('every column of JSON Lines, JSON, CSV and TSV', async () => {
  const row = { question: 'q', answer: '1', tests: ['a', { b: null }], n: 3 };
  expect((await file('a.jsonl', JSON.stringify(row))).get(0).row).toEqual(row);
  expect((await file('a.json', JSON.stringify([row]))).get(0).row).toEqual(row);
  const texts = { question: 'q', answer: '1', tests: 'a b', n: null };
  expect((await file('a.csv', 'question,answer,tests,n\nq,1,a b,\n')).get(0).row).toEqual(texts);
  expect((await file('a.tsv', 'question\tanswer\ttests\tn\nq\t1\ta b\t\n')).get(0).row).toEqual(texts);
});

test('of Parquet: 64-bit numbers, times and lists as JSON has them', async () => {
  const { parquetWriteBuffer } = await import('hyparquet-writer');
  const columnData = [
    { name: 'question', type: 'STRING' as const, data: ['q'] },
    { name: 'answer', type: 'STRING' as const, data: ['1'] },
    { name: 'small', type: 'INT64' as const, data: [5n] },
    { name: 'large', type: 'INT64' as const, data: [9007199254740993n] },
    { name: 'time', type: 'TIMESTAMP' as const, data: [new Date('2026-01-02T03:04:05Z')] },
    { name: 'nested', type: 'JSON' as const, data: [{ a: [1, 2] }] },
  ];
  const dataset = await file('a.parquet', new Uint8Array(parquetWriteBuffer({ columnData })));
  expect(dataset.get(0).row).toEqual({
    question: 'q',
    answer: '1',
    small: 5,
    large: '9007199254740993',
    time: '2026-01-02T03:04:05.000Z',
    nested: { a: [1, 2] },
  });
});

test('a reader that writes into a row changes nothing, and neither does the owner of rows in memory', async () => {
  const rows = [{ question: 'q', tests: [1] }];
  const dataset = await inMemory(rows, { keepRows: true });
  (dataset.get(0).row!['tests'] as number[]).push(2);
  rows[0]!.tests.push(3);
  expect(dataset.get(0).row).toEqual({ question: 'q', tests: [1] });
});

test('rows in memory: no bytes, numbers that are not finite, or missing values', async () => {
  const row = { question: 'q', image: Uint8Array.of(1), x: NaN, y: undefined, z: new Float32Array([1.5]) };
  expect((await inMemory([row], { keepRows: true })).get(0).row).toEqual({ question: 'q', image: null, x: null, z: [1.5] });
}); // prettier-ignore

test('rows are not kept, read or part of the fingerprint unless asked for', async () => {
  const text = (extra: number) => `{"question":"q","answer":"1","extra":${extra}}`;
  const without = await file('b.jsonl', text(1), { keepRows: false });
  expect(without.get(0)).toEqual({ id: '0', question: 'q', gold: '1', level: null });
  const fingerprints = async (keepRows: boolean) => {
    const [one, two] = [await file('b.jsonl', text(1), { keepRows }), await file('b.jsonl', text(2), { keepRows })];
    return one.source!.fingerprint === two.source!.fingerprint;
  }; // prettier-ignore
  expect(await fingerprints(false)).toBe(true);
  expect(await fingerprints(true)).toBe(false);
});

test('a gold answer is optional where the judge needs none, and required where it does', async () => {
  const rows = [{ question: 'a' }, { question: 'b', answer: 'x' }, { question: 'c', answer: { no: 'text' } }];
  const free = await inMemory(rows);
  expect([0, 1, 2].map((i) => free.get(i).gold)).toEqual([null, 'x', null]);
  const exact = referenceRule({ judge: 'exact', judgeParams: {} });
  await expect(inMemory(rows, { references: exact })).rejects.toThrow(
    /^rows row 1 has no value for the answer or solution \(looked for answer, .*\); its columns are question\./,
  );
  await expect(file('c.jsonl', '{"question":"a"}')).rejects.toThrow(
    /c\.jsonl line 1 has no value for the answer/,
  );
  expect((await file('c.csv', 'question\na\n', { references: regex })).size).toBe(1);
});

test('what the judge cannot read is left out: a letter for choice, any text for exact', async () => {
  const rows = [
    { question: 'a', answer: 'B' },
    { question: 'b', answer: 'hello' },
    { question: 'c', answer: ' ' },
  ];
  const kept = async (judge: string) => {
    const data = await inMemory(rows, { references: referenceRule({ judge, judgeParams: {} }) });
    return Array.from({ length: data.size }, (_, i) => data.get(i).gold);
  };
  expect(await kept('choice')).toEqual(['B']);
  expect(await kept('exact')).toEqual(['B', 'hello']);
});

const nested = (depth: number): unknown => JSON.parse('['.repeat(depth) + ']'.repeat(depth)) as unknown;

test.each<[string, object, RegExp]>([
  ['a function', { run: () => 1 }, /^rows row 1 holds a function in run, which JSON cannot/],
  ['a map', { seen: new Map() }, /^rows row 1 holds a Map in seen, which JSON cannot/],
  ['deep nesting', { deep: nested(5000) }, /^rows row 1 is nested more than 100 levels deep in deep/],
  ['no question', {}, /^rows row 1 has no value for the problem/],
])('%s in a row is refused by name', async (_, columns, message) => {
  const question = Object.keys(columns).length > 0 ? { question: 'q' } : {};
  await expect(inMemory([{ ...question, ...columns }], { keepRows: true })).rejects.toThrow(message);
});

test('a row that is no object is refused', async () => {
  await expect(inMemory([7 as never])).rejects.toThrow('rows row 1 must be a JSON object.');
});

test('deep nesting in a file is an unreadable row, not a crash', async () => {
  const text = `{"question":"q","answer":"1","deep":${'['.repeat(50_000)}${']'.repeat(50_000)}}`;
  await expect(file('deep.jsonl', text)).rejects.toThrow(/deep\.jsonl line 1 is nested more than 100 levels/);
});
