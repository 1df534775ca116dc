/** Files of evaluations: what a kill, a full disk or another hand left in them. */
import { appendFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'; // prettier-ignore
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { storedRow } from '../../src/eval';
import { EvaluationFolder, evaluationRows, recordOf, type EvaluationFile } from '../../src/run';

const root = mkdtempSync(join(tmpdir(), 'acoer-evaluation-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const SETTINGS = { benchmark: 'b', problems: 3, samples: 2 };
const row = (index: number, sample: number, text = 'x') => ({
  benchmark: 'b',
  prompt_index: index,
  problem_id: `p${index}`,
  sample,
  level: null,
  completion: text,
  gold: '1',
  correct: true,
  status: 'correct',
  extracted: '1',
  thinking_tokens: 1,
  thinking_closed: true,
  total_tokens: 2,
  finish: 'stop',
});
const line = (value: unknown): string => `${JSON.stringify(value)}\n`;

async function read(file: EvaluationFile): Promise<unknown[]> {
  const rows = [];
  for await (const { values, where } of file.rows()) rows.push(storedRow(values, where));
  return rows;
}

/** A folder with these lines after the record. */
function folderWith(text: string | Buffer): string {
  const path = mkdtempSync(join(root, 'e-'));
  writeFileSync(join(path, 'e.json'), JSON.stringify({ settings: SETTINGS, report: null }));
  writeFileSync(join(path, 'e.jsonl'), text);
  return path;
}

test('a folder is locked while it is open, and goes if nothing was written', () => {
  const path = join(root, 'new');
  {
    using folder = new EvaluationFolder(path);
    expect(() => new EvaluationFolder(path)).toThrow(`${path} is in use by this process`);
    expect(folder.path).toBe(path);
  }
  expect(existsSync(path)).toBe(false);
  mkdirSync(path);
  new EvaluationFolder(path)[Symbol.dispose]();
  expect(existsSync(path)).toBe(true);
});

test('another process that is refused leaves the line in progress of the first', () => {
  const path = folderWith(line(row(0, 0)));
  using folder = new EvaluationFolder(path);
  using file = folder.open('e', SETTINGS);
  appendFileSync(file.completions, '{"half');
  expect(() => new EvaluationFolder(path)).toThrow('is in use');
  expect(readFileSync(file.completions, 'utf8')).toContain('{"half');
});

test.each<[string, Buffer]>([
  ['torn', Buffer.from(line(row(0, 1)).slice(0, 40))],
  ['torn and long', Buffer.from(`{"completion":"${'x'.repeat(200_000)}`)],
  ['of NULs', Buffer.alloc(5000)],
])('a last line that is %s is dropped', async (_, rest) => {
  const kept = line(row(0, 0)) + line(row(1, 1, 'a\u2028b\u0085c\rd'));
  const path = folderWith(Buffer.concat([Buffer.from(kept), rest]));
  using folder = new EvaluationFolder(path);
  using file = folder.open('e', SETTINGS);
  expect(readFileSync(file.completions, 'utf8')).toBe(kept);
  expect(await read(file)).toHaveLength(2);
  file.append(row(0, 1));
  expect(readFileSync(file.completions, 'utf8')).toBe(kept + line(row(0, 1)));
});

test('a file that is one torn line becomes empty', async () => {
  using folder = new EvaluationFolder(folderWith('{"benchmark'));
  using file = folder.open('e', SETTINGS);
  expect(await read(file)).toEqual([]);
  expect(readFileSync(file.completions, 'utf8')).toBe('');
});

test.each<[string, string, RegExp]>([
  ['torn', '{"benchmark": "b", "pro\n', /e\.jsonl line 2 is not a JSON object/],
  ['a list', '[1]\n', /e\.jsonl line 2 is not a JSON object/],
  ['empty', '\n', /e\.jsonl line 2 is not a JSON object/],
  ['of another benchmark', line({ ...row(1, 0), benchmark: 'c' }), /line 2 does not belong to this evaluation: benchmark "c"/],
  ['of another problem', line(row(3, 0)), /line 2 does not belong .*: prompt_index 3, sample 0/],
  ['of another sample', line(row(1, 2)), /line 2 does not belong .*: prompt_index 1, sample 2/],
  ['not of an evaluation', line({ step: 1, loss: 2 }), /line 2 does not belong .*: prompt_index nothing/],
  ['without a column', line({ ...row(1, 0), total_tokens: 'many' }), /line 2 is not a row .*: see its total_tokens/],
  ['there already', line(row(0, 0, 'y')), /line 2 has an answer that is there already: prompt_index 0, sample 0 of .*e\.jsonl line 1/],
])('a line %s is named', async (_, text, sentence) => {
  const path = folderWith(line(row(0, 0)) + text + line(row(2, 0)));
  const whole = readFileSync(join(path, 'e.jsonl'));
  {
    using folder = new EvaluationFolder(path);
    using file = folder.open('e', SETTINGS);
    await expect(read(file)).rejects.toThrow(
      expect.objectContaining({ code: 'BAD_INPUT', message: expect.stringMatching(sentence) as string }) as Error,
    );
  }
  expect(readFileSync(join(path, 'e.jsonl'))).toEqual(whole);
  const compared = async () => {
    const completions = join(path, 'e.jsonl');
    for await (const { values, where } of evaluationRows(completions, recordOf(completions)!)) storedRow(values, where);
  };
  await expect(compared()).rejects.toThrow(sentence);
}); // prettier-ignore

test('an answer is appended once, and only while the folder is ours', async () => {
  const path = folderWith(line(row(0, 0)));
  using folder = new EvaluationFolder(path);
  using file = folder.open('e', SETTINGS);
  await read(file);
  expect(() => file.append(row(0, 0))).toThrow('is there already');
  file.append(row(0, 1));
  writeFileSync(join(path, 'lock.json'), JSON.stringify({ pid: 17, host: 'elsewhere' }));
  expect(() => file.append(row(1, 0))).toThrow('was taken over by process 17 on elsewhere');
  expect(readFileSync(file.completions, 'utf8')).toBe(line(row(0, 0)) + line(row(0, 1)));
});

test('a disk that takes a part of a row gives it back', async () => {
  const path = folderWith(line(row(0, 0)));
  using folder = new EvaluationFolder(path);
  using file = folder.open('e', SETTINGS);
  await read(file);
  const { writeSync } = fs;
  let writes = 0;
  const full = jest.spyOn(fs, 'writeSync').mockImplementation(((handle: number, data: Buffer, at: number) => {
    if (++writes > 1) throw Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });
    return writeSync(handle, data, at, 5);
  }) as typeof fs.writeSync);
  expect(() => file.append(row(0, 1))).toThrow('ENOSPC');
  full.mockRestore();
  expect(readFileSync(file.completions, 'utf8')).toBe(line(row(0, 0)));
});

test.each(['null', '{}', '{"settings":[],"report":null}', '{"settings":{},"report":3}', '{'])(
  'a record that is %s is named',
  (text) => {
    const path = folderWith('');
    writeFileSync(join(path, 'e.json'), text);
    using folder = new EvaluationFolder(path);
    expect(() => folder.open('e', SETTINGS)).toThrow(/e\.json/);
  },
);
