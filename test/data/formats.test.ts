/** Every file format gives the same problems, and says where a bad row is. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { loadDataset, type DatasetSpec } from '../../src/data';
import { errorCode } from '../../src/base/errors';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'acoer-formats-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

/**
 * Commas, quotes, line ends, non-ASCII and a separator that ends a line in JavaScript but not in JSON Lines.
 */
const ROWS = [
  { problem: 'What is 1 + 1?', answer: '2', level: 'Level 1', id: 'a' },
  { problem: 'Say "x, y"\nand z: \u2028 é π 😀', answer: '\\frac{1}{2}', level: 'Level 5', id: 'b' },
  { problem: 'Last', answer: '-7', level: 'Level 5', id: 'c' },
];
const EXPECTED = ROWS.map(({ problem, answer, level, id }) => ({
  id,
  question: problem,
  gold: answer,
  level: level.slice('Level '.length),
}));

const jsonl = ROWS.map((row) => JSON.stringify(row)).join('\n');
const quoted = (text: string) => `"${text.replaceAll('"', '""')}"`;
const separated = (by: string) =>
  [Object.keys(ROWS[0]!), ...ROWS.map((row) => Object.values(row))]
    .map((fields) => fields.map(quoted).join(by))
    .join('\r\n');

async function parquet(options: { rowGroupSize?: number } = {}, rows = ROWS): Promise<Uint8Array> {
  const { parquetWriteBuffer } = await import('hyparquet-writer');
  const names = ['problem', 'answer', 'level', 'id'] as const;
  const columnData = names.map((name) => ({
    name,
    data: rows.map((row) => row[name]),
    type: 'STRING' as const,
  }));
  return new Uint8Array(parquetWriteBuffer({ columnData, ...options }));
}

function write(name: string, content: string | Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

const load = (path: string, spec: Partial<DatasetSpec> = {}) =>
  loadDataset({ name: path, split: 'train', seed: 1, keepRows: false, ...spec });

async function problemsOf(path: string, spec: Partial<DatasetSpec> = {}) {
  const dataset = await load(path, spec);
  return Array.from({ length: dataset.size }, (_, i) => dataset.get(i));
}

const TEXTS: Record<string, string> = {
  'a.jsonl': jsonl,
  'a.ndjson': jsonl.replaceAll('\n', '\r\n'),
  'bom.jsonl': `\ufeff${jsonl}\n\n`,
  'list.json': JSON.stringify(ROWS, null, 2),
  'lines.json': jsonl,
  'a.csv': separated(','),
  'bom.csv': `\ufeff${separated(',')}`,
  'a.tsv': separated('\t'),
};

describe.each(Object.keys(TEXTS))('%s', (name) => {
  test('gives the problems', async () => {
    expect(await problemsOf(write(name, TEXTS[name]!))).toEqual(EXPECTED);
  });
  test('gives them zipped', async () => {
    expect(await problemsOf(write(`${name}.gz`, gzipSync(TEXTS[name]!)))).toEqual(EXPECTED);
  });
});

test.each([1, 2, 100])('Parquet in row groups of %d', async (rowGroupSize) => {
  const bytes = await parquet({ rowGroupSize });
  expect(await problemsOf(write(`g${rowGroupSize}.parquet`, bytes))).toEqual(EXPECTED);
  expect(await problemsOf(write(`g${rowGroupSize}.parquet.gz`, gzipSync(bytes)))).toEqual(EXPECTED);
});

test('Parquet row groups longer than a window are read whole and in order', async () => {
  const many = Array.from({ length: 4321 }, (_, i) => ({
    problem: `Problem ${i}`,
    answer: String(i),
    level: `Level ${1 + (i % 5)}`,
    id: `n${i}`,
  }));
  const path = write('many.parquet', await parquet({ rowGroupSize: 3000 }, many));
  const found = await problemsOf(path);
  expect(found.map(({ id, gold }) => [id, gold])).toEqual(many.map(({ id, answer }) => [id, answer]));
});

test.each([
  ['bad.jsonl', '{"problem":"a","answer":"1"}\n\n{"problem":', /bad\.jsonl line 3 is not valid JSON/],
  [
    'bad-list.json',
    '[{"problem":"a","answer":"1"},{"problem"',
    /bad-list\.json is not valid JSON after row 1/,
  ],
  ['scalar.json', '[{"problem":"a","answer":"1"}, 5]', /scalar\.json row 2 must be a JSON object/],
  ['short.csv', 'problem,answer\n"a\nb",1\nc\n', /short\.csv line 4 has 1 fields but the header has 2/],
  ['quote.csv', 'problem,answer\na,1\n"b,2\n', /quote\.csv line 3: .*[Qq]uot/],
  ['empty.jsonl', '\n', /empty\.jsonl has no problems/],
  ['x.txt', 'text', /x\.txt has an unknown file extension/],
  ['broken.parquet', 'not parquet at all', /Cannot read .*broken\.parquet as Parquet/],
  ['cut.jsonl.gz', gzipSync(jsonl).subarray(0, 60), /Cannot read .*cut\.jsonl\.gz: unexpected end of file/],
  [
    'gold.jsonl',
    '{"problem":"a","text":"1"}',
    /line 1 has no value for the answer or solution .*its columns are problem, text\. Set the right one with columns\.answer or columns\.solution/,
  ],
  [
    'q.csv',
    'task,answer\na,1\n',
    /q\.csv has no value for the problem .*its columns are task, answer\. Set the right one with columns\.problem/,
  ],
])('%s is rejected with its position', async (name, content, message) => {
  await expect(load(write(name, content))).rejects.toMatchObject({
    code: 'BAD_INPUT',
    message: expect.stringMatching(message),
  });
});

test('a bad row is skipped only on request, and is counted', async () => {
  const path = write(
    'some-bad.jsonl',
    '{"problem":"a","answer":"1"}\nnonsense\n{"problem":"c"}\n{"problem":"","answer":"2"}\n{"problem":"e","answer":"3"}',
  );
  await expect(load(path)).rejects.toMatchObject({ message: expect.stringMatching(/line 2 .*skipBadRows/) });
  const dataset = await load(path, { skipBadRows: true });
  expect([0, 1].map((i) => dataset.get(i).question)).toEqual(['a', 'e']);
  // The id is the row's number, whatever was skipped before it.
  expect(dataset.get(1).id).toBe('4');
  expect(dataset.source).toMatchObject({ rows: 5, badRows: { count: 3 } });
  expect(dataset.source!.badRows.examples.map((text) => /line (\d)/.exec(text)![1])).toEqual(['2', '3', '4']);
});

test('a column may be configured, also inside an object, and a chat prompt is its user turn and what stands before it', async () => {
  const row = {
    prompt: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'How many?' },
    ],
    reward_model: { ground_truth: 12 },
    extra: { hard: 3 },
  };
  const path = write('nested.jsonl', JSON.stringify(row));
  const columns = { answer: 'reward_model.ground_truth', level: 'extra.hard' };
  expect(await problemsOf(path, { columns })).toEqual([
    {
      id: '0',
      question: 'How many?',
      before: [{ role: 'system', content: 'Be brief.' }],
      gold: '12',
      level: '3',
    },
  ]);
  await expect(load(path, { columns: { answer: 'gold_answer' } })).rejects.toMatchObject({
    message: expect.stringContaining('looked for gold_answer'),
  });
});

test('reading does not block the event loop', async () => {
  const line = (i: number) =>
    JSON.stringify({ problem: `Problem ${i} ${'text '.repeat(100)}`, answer: String(i) });
  const path = write('long.jsonl', Array.from({ length: 20_000 }, (_, i) => line(i)).join('\n'));
  let turns = 0;
  const timer = setInterval(() => turns++, 1);
  const begunMs = performance.now();
  await load(path);
  const tookMs = performance.now() - begunMs;
  clearInterval(timer);
  // A reader that blocks the loop would allow one turn or two; ours allows one every 10 ms of its own work.
  expect(turns).toBeGreaterThan(tookMs / 200);
});

test.each([
  ['endless.jsonl.gz', ''],
  ['endless.json.gz', '[{"problem":"'],
])('%s with a row that unzips to 17 MB of text is rejected', async (name, start) => {
  const path = write(name, gzipSync(Buffer.concat([Buffer.from(start), Buffer.alloc(17e6, 'a')])));
  // Compare only the error's code: the matchers would walk through its cause, which holds the row.
  const code = await problemsOf(path).then(() => 'none', errorCode);
  expect(code).toBe('BAD_INPUT');
});
