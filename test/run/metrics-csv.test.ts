/** metrics.csv: what metrics.jsonl holds, as a table. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'csv-parse/sync';
import { MetricsCsv, MetricsFile, readMetrics } from '../../src/run';
import type { StepMetrics } from '../../src/base/types';

const root = mkdtempSync(join(tmpdir(), 'acoer-csv-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** Both files of a run, and the text of the table. */
function filesOf(name: string) {
  const source = join(root, `${name}.jsonl`);
  const path = join(root, `${name}.csv`);
  const text = () => readFileSync(path, 'utf8');
  const open = async (step: number) => {
    const metrics = await MetricsFile.open(source, step, () => undefined);
    const csv = new MetricsCsv(path, source);
    const add = (line: StepMetrics) => (metrics.append(line), csv.append(line));
    const close = () => (metrics.close(), csv.close());
    return { add, close };
  };
  /** The table by csv-parse, which is not ours, as lines of metrics. */
  const rows = () =>
    parse<Record<string, string>>(text(), { columns: true }).map((row) =>
      Object.fromEntries(
        Object.entries(row).flatMap(([key, value]) => (value === '' ? [] : [[key, +value]])),
      ),
    );
  const lines = () => readMetrics(source);
  return { text, open, rows, lines };
}

test('has a row for each line; columns that appear later are empty before', async () => {
  const { text, open, rows, lines } = filesOf('later');
  const { add, close } = await open(0);
  expect(text()).toBe('');
  add({ step: 1, reward: 0.1 + 0.2 });
  add({ step: 2, reward: -1e-21 });
  add({ step: 3, reward: 1, 'eval/greedy_accuracy': 0.5 });
  add({ step: 4, 'eval/greedy_accuracy': 0 });
  close();
  expect(text()).toBe('step,reward,eval/greedy_accuracy\n1,0.30000000000000004,\n2,-1e-21,\n3,1,0.5\n4,,0\n');
  expect(rows()).toEqual(lines());
});

test('names with commas, quotes and line ends are quoted; numbers that are not finite are left out', async () => {
  const { open, rows, lines } = filesOf('names');
  const { add, close } = await open(0);
  add({ step: 1, 'a,b': 1, 'c"d': 2, 'e\nf': 3, g: NaN });
  add({ step: 2, 'a,b': Infinity, 'c"d': 5 });
  close();
  expect(rows()).toEqual([
    { step: 1, 'a,b': 1, 'c"d': 2, 'e\nf': 3 },
    { step: 2, 'c"d': 5 },
  ]);
  expect(rows()).toEqual(lines());
});

test('a run that goes back drops the rows after that step, and columns that only they had', async () => {
  const { text, open, rows, lines } = filesOf('back');
  const first = await open(0);
  for (const step of [1, 2]) first.add({ step, reward: step });
  first.add({ step: 3, reward: 3, late: 1 });
  first.close();
  const second = await open(2);
  expect(text()).toBe('step,reward\n1,1\n2,2\n');
  second.add({ step: 3, reward: 30 });
  second.close();
  expect(rows()).toEqual(lines());
  expect(text()).toBe('step,reward\n1,1\n2,2\n3,30\n');
});
