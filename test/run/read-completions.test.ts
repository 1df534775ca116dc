import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeRollout, namedPrompt } from '../../src/lab/rollouts';
import { completionTables, readCompletions, runOfTable, writeCompletions } from '../../src/run';

const root = mkdtempSync(join(tmpdir(), 'acoer-tables-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const prompt = namedPrompt('p7', 3, '1+1?', '2', '4');
const rows = [
  { ...makeRollout(prompt, 0, true, 12, 20), laterThinkingTokens: 5, text: '<think>…</think>\\boxed{2}' },
  {
    ...makeRollout(prompt, 1, false, 40, 40),
    thinkingClosed: false,
    format: false,
    finish: 'length' as const,
  },
].map((rollout) => ({ rollout, reward: { total: 1.5, parts: { acc: 1, format: 0.5 } }, advantage: 0.25 }));

test('rows are read as they were written', async () => {
  const path = join(root, 'table.parquet');
  await writeCompletions(path, 9, rows);
  const read = await readCompletions(path);
  const shared = {
    step: 9,
    promptIndex: 3,
    prompt: '1+1?',
    problemId: 'p7',
    level: '4',
    gold: '2',
    extracted: null,
    reward: 1.5,
  };
  expect(read).toEqual([
    {
      ...shared,
      completion: '<think>…</think>\\boxed{2}',
      correct: true,
      format: true,
      thinkingTokens: 12,
      thinkingClosed: true,
      laterThinkingTokens: 5,
      totalTokens: 20,
      finish: 'stop',
    },
    {
      ...shared,
      completion: '',
      correct: false,
      format: false,
      thinkingTokens: 40,
      thinkingClosed: false,
      totalTokens: 40,
      finish: 'length',
    },
  ]);
});

test('a file that is not a table is rejected by name', async () => {
  const path = join(root, 'no.parquet');
  writeFileSync(path, 'text');
  await expect(readCompletions(path)).rejects.toMatchObject({ code: 'BAD_INPUT' });
  await expect(readCompletions(path)).rejects.toThrow(path);
  await expect(readCompletions(join(root, 'none.parquet'))).rejects.toMatchObject({ code: 'BAD_INPUT' });
});

test('a table of something else is rejected, naming the missing column', async () => {
  const { parquetWriteBuffer } = await import('hyparquet-writer');
  const path = join(root, 'other.parquet');
  const columnData = [{ name: 'step', data: [1], type: 'INT32' as const }];
  writeFileSync(path, new Uint8Array(parquetWriteBuffer({ columnData })));
  await expect(readCompletions(path)).rejects.toThrow(
    /in row 1 `prompt_index` must be a number, but it is missing/,
  );
});

test("a run's tables come in step order, and their run is found", () => {
  const run = join(root, 'run');
  mkdirSync(join(run, 'completions'), { recursive: true });
  for (const name of ['step-000020.parquet', 'step-000010.parquet', 'other.txt']) {
    writeFileSync(join(run, 'completions', name), '');
  }
  const tables = completionTables(run);
  expect(tables).toEqual(
    ['step-000010.parquet', 'step-000020.parquet'].map((name) => join(run, 'completions', name)),
  );
  expect(runOfTable(tables[0]!)).toBeNull();
  writeFileSync(join(run, 'config.json'), '{}');
  expect(runOfTable(tables[0]!)).toBe(run);
  expect(() => completionTables(root)).toThrow(/contains no completion tables/);
});
