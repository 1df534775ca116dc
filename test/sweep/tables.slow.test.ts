/** What the tables of a sweep say, from folders written by the test. */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'csv-parse/sync';
import { report } from '../../src/eval';
import { storedCompletion } from '../../src/eval/stored';
import { claimsText } from '../../src/sweep/claims';
import { renderTables, texText } from '../../src/sweep/render';
import { endOf, peakStep } from '../../src/sweep/results';
import { cellText, type Table } from '../../src/sweep/table';
import { makeSweepReport, sweepTables, writeTables, type SweepTables } from '../../src/sweep/tables-files';
import { writeSweep, type SweptRun } from '../helpers/swept-runs';

const root = mkdtempSync(join(tmpdir(), 'acoer-sweep-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const STABLE = { 0: [0.8, 900], 200: [0.8, 600], 400: [0.81, 420], 600: [0.8, 300] } as const;
const FALLS = { 0: [0.8, 900], 200: [0.82, 550], 400: [0.5, 90], 600: [0.45, 60] } as const;

const seedsOf = (seeds: number, run: Omit<SweptRun, 'seed'>): SweptRun[] =>
  Array.from({ length: seeds }, (_, i) => ({ ...run, seed: i + 1 }));

const method = (name: string, course: NonNullable<SweptRun['course']>) => ({
  method: name,
  reward: name,
  course,
});

const tableOf = ({ tables }: SweepTables, id: string): Table => tables.find((one) => one.id === id)!;

/** The rows of a table as text, by the names in their first column. */
const rowsOf = (table: Table): Record<string, string[]> =>
  Object.fromEntries(table.blocks.flat().map((row) => [cellText(row[0]!), row.slice(1).map(cellText)]));

describe('six seeds of three methods, one of which collapses', () => {
  let path: string;
  let made: SweepTables;

  beforeAll(async () => {
    path = await writeSweep(
      join(root, 'six'),
      [
        ...seedsOf(6, { ...method('grpo-lp', FALLS), guardAt: 390 }),
        ...seedsOf(6, method('acoer', STABLE)),
        ...seedsOf(6, method('acc', { ...STABLE, 600: [0.8, 880] })),
        {
          method: 'recut',
          reward: 'recut',
          seed: 1,
          state: 'failed',
          message: 'The reward threw: no | here.',
        },
        { method: 'recut', reward: 'recut', seed: 2, state: 'waiting' },
      ],
      90,
    );
    made = await sweepTables(path);
  });

  test('the main table has means with intervals, and collapsed runs at their peak as well', () => {
    const rows = rowsOf(tableOf(made, 'main'));
    expect(Object.keys(rows)).toEqual(['base', 'acoer', 'acc', 'recut', 'grpo-lp', 'grpo-lp @200 †']);
    const { results } = made;
    const acoer = results.methods.find(({ name }) => name === 'acoer')!;
    const found = acoer.runs.map((run) => endOf(run, 'math500')!.accuracy);
    const mean = (100 * found.reduce((sum, one) => sum + one, 0)) / found.length;
    expect(rows.acoer![1]).toMatch(
      new RegExp(`^${mean.toFixed(1).replace('.', '\\.')} \\[\\d+\\.\\d, \\d+\\.\\d\\]$`),
    );
    expect(rows.acoer![2]).toMatch(/\]∗$/);
    expect(rows['grpo-lp']![1]).toMatch(/\]∗§$/);
    expect(rows.recut).toEqual(['0', '–', '–', '–', '–']);
    expect(acoer.runs.map(peakStep).every((step) => step! > 0)).toBe(true);
  });

  test('the trajectories have a column for each run, and a dagger where the collapse began', () => {
    const tables = made.tables.filter(({ id }) => id.startsWith('trajectories'));
    expect(tables.map(({ columns }) => columns.length - 1)).toEqual([6, 6, 6, 2]);
    const rows = rowsOf(tables[0]!);
    expect(Object.keys(rows).sort()).toEqual(['200', '400', '600', 'base']);
    expect(rows['400']!.every((cell) => /^\d+\.\d† \/ \d+$/.test(cell))).toBe(true);
    expect(rows['600']!.join()).not.toContain('†');
  });

  test('the paper compares levels of the base and ACOER', () => {
    const levels = tableOf(made, 'levels').blocks.map((block) =>
      block.map((row) => row.slice(0, 2).map(cellText)),
    );
    expect(levels).toEqual(
      ['1', '2', '3'].map((level) => [
        [level, 'base'],
        [level, 'acoer'],
      ]),
    );
  });

  test('collapse is a share of seeds with its interval, by both criteria', () => {
    const rows = rowsOf(tableOf(made, 'collapse'));
    expect(rows['grpo-lp']![0]).toBe('6 of 6: 100.0 [61.0, 100.0]');
    expect(rows['grpo-lp']![1]).toBe('400, 400, 400, 400, 400, 400');
    expect(rows['grpo-lp']![4]).toBe('390, 390, 390, 390, 390, 390');
    expect(rows['grpo-lp']![5]).toBe('6 of 6: 100.0 [61.0, 100.0]');
    expect(rows.acoer![0]).toBe('0 of 6: 0.0 [0.0, 39.0]');
    // Of 90 problems the highest evaluation is above the last by chance, too.
    const low = made.results.methods
      .find(({ name }) => name === 'acoer')!
      .runs.map(({ evaluations }) => evaluations.get('math500')!.map(({ accuracy }) => accuracy))
      .filter((accuracies) => Math.max(...accuracies) - accuracies.at(-1)! > 0.05 - 1e-9);
    expect(rows.acoer![5]).toMatch(new RegExp(`^${low.length} of 6: `));
    expect(rows.recut).toEqual(['–', '–', '–', '–', '–', '–']);
  });

  test('a failed run is named with its reason, and does not stop the tables', () => {
    expect(rowsOf(tableOf(made, 'runs'))['recut-s1']).toEqual(
      expect.arrayContaining(['failed, exit 1', 'The reward threw: no | here.']),
    );
    expect(rowsOf(tableOf(made, 'runs'))['recut-s2']![0]).toBe('waiting');
  });

  test('every claim names its test and its numbers', () => {
    const words = claimsText(made.claims);
    expect(made.claims.map(({ outcome }) => outcome)).toEqual(['yes', 'yes', 'yes']);
    expect(words).toMatch(
      /^Reproduced here: rewards with a continuous signal.* 6 of 6 .*Fisher's exact test, p < 0\.001 after Holm/,
    );
    expect(words).toMatch(/95% [−+]\d+\.\d to [−+]\d+\.\d/);
  });

  test('the same folder gives the same tables to the last bit', async () => {
    const again = await sweepTables(path);
    for (const format of ['md', 'csv', 'tex'] as const)
      expect(renderTables(again.tables, format)).toBe(renderTables(made.tables, format));
  });

  test('CSV has every number once, as it is', () => {
    const rows = parse<Record<string, string>>(renderTables(made.tables, 'csv'), { columns: true });
    const one = rows.filter(
      ({ table, row, quantity }) => table === 'main' && row === 'acoer' && quantity === 'accuracy',
    );
    expect(one).toHaveLength(1);
    const { value, low, high, seeds } = one[0]!;
    expect(Number(low)).toBeLessThan(Number(value));
    expect(Number(high)).toBeGreaterThan(Number(value));
    expect(seeds).toBe('6');
    expect(rows.every(({ text }) => text !== undefined)).toBe(true);
  });

  test('Markdown rows have as many cells as their heading', () => {
    for (const line of renderTables(made.tables, 'md')
      .split('\n\n')
      .filter((block) => block.startsWith('|'))) {
      const cells = line.split('\n').map((row) => row.replaceAll(/\\\|/g, '').split('|').length);
      expect(new Set(cells).size).toBe(1);
    }
  });

  test('LaTeX has balanced environments and as many cells as columns', () => {
    const tex = renderTables(made.tables, 'tex');
    const open: string[] = [];
    for (const [, what, name] of tex.matchAll(/\\(begin|end)\{(\w+\*?)\}/g)) {
      if (what === 'begin') open.push(name!);
      else expect(open.pop()).toBe(name);
    }
    expect(open).toEqual([]);
    expect(tex.replaceAll(/\\[{}]/g, '').split('{').length).toBe(
      tex.replaceAll(/\\[{}]/g, '').split('}').length,
    );
    for (const [, columns, body] of tex.matchAll(/\\begin\{tabular\}\{(\S+)\}\n([^]*?)\\end\{tabular\}/g)) {
      const width = columns!.replaceAll(/p\{\w+\}/g, 'p').length;
      for (const row of body!.split('\n').filter((line) => line.endsWith(String.raw`\\`))) {
        const spans = [...row.matchAll(/\\multicolumn\{(\d+)\}/g)].map(([, n]) => Number(n) - 1);
        const cells = row.replaceAll(String.raw`\&`, '').split('&').length;
        expect(cells + spans.reduce((sum, n) => sum + n, 0)).toBe(width);
      }
    }
    expect([...tex].every((letter) => letter <= '~')).toBe(true);
  });

  test('the files are written beside the sweep, and the page opens with what reproduces', async () => {
    const warnings: string[] = [];
    await writeTables(path, (message) => warnings.push(message));
    expect(warnings).toEqual([]);
    const html = readFileSync(join(path, 'report.html'), 'utf8');
    expect(html).toMatch(/<p class="verdict">Reproduced here: /);
    expect(html).toContain('id="pareto-math500"');
    expect(html).toContain('runs/recut-s1 failed: The reward threw: no | here.');
    for (const format of ['md', 'csv', 'tex'] as const)
      expect(readFileSync(join(path, `table.${format}`), 'utf8')).toBe(renderTables(made.tables, format));
  });
});

describe('fewer seeds than five', () => {
  test('have means with their number, no interval, and no test', async () => {
    const path = await writeSweep(join(root, 'three'), [
      ...seedsOf(3, method('acoer', STABLE)),
      ...seedsOf(3, method('beta0', STABLE)),
    ]);
    const made = await sweepTables(path);
    const table = tableOf(made, 'main');
    expect(rowsOf(table).acoer![1]).toMatch(/^\d+\.\d \(3 seeds\)$/);
    expect(table.notes.join(' ')).toContain('Nothing is tested: a test of a method needs 5 of its seeds.');
    expect(made.claims.map(({ outcome }) => outcome)).toEqual(['open', 'open', 'open']);
    expect(claimsText(made.claims)).toContain('not tested: a test needs 5 seeds');
  });
});

describe('other folders', () => {
  test('without kept answers there are means and no intervals', async () => {
    const path = await writeSweep(
      join(root, 'means'),
      seedsOf(5, { ...method('acoer', STABLE), answers: false }),
    );
    const rows = rowsOf(tableOf(await sweepTables(path), 'main'));
    expect(rows.acoer![1]).toMatch(/\(5 seeds\)$/);
  });

  test('joined benchmarks are columns of their own', async () => {
    const config = { evalDataset: 'math500 + aime25' };
    const path = await writeSweep(join(root, 'joined'), seedsOf(2, { ...method('acoer', STABLE), config }));
    const table = tableOf(await sweepTables(path), 'main');
    expect([...new Set(table.columns.map(({ group }) => group))]).toEqual([
      undefined,
      'MATH-500',
      'AIME 2025',
    ]);
    expect(rowsOf(table).acoer).toHaveLength(9);
  });

  test('each point of a grid has ACOER of its own to be compared with', async () => {
    const at = (rate: number, name: string) => ({
      ...method(name, STABLE),
      method: `${name} learningRate=${rate}`,
      point: { learningRate: rate },
    });
    const runs = [1, 2].flatMap((rate) => [...seedsOf(1, at(rate, 'acoer')), ...seedsOf(1, at(rate, 'acc'))]);
    const path = await writeSweep(join(root, 'grid'), runs);
    const names = tableOf(await sweepTables(path), 'comparisons').blocks[1]!.map((row) => cellText(row[0]!));
    expect([...new Set(names)]).toEqual([
      'acc learningRate=1 against ACOER',
      'acc learningRate=2 against ACOER',
    ]);
  });

  test('a damaged run is left out and named', async () => {
    const path = await writeSweep(join(root, 'damaged'), seedsOf(2, method('acoer', STABLE)));
    writeFileSync(join(path, 'runs/acoer-s1/metrics.jsonl'), 'no\nmetrics\n');
    const { results, tables } = await sweepTables(path);
    expect(results.notes).toEqual([
      expect.stringMatching(/^runs\/acoer-s1 is left out: .*metrics\.jsonl line 1/),
    ]);
    expect(tables.length).toBeGreaterThan(3);
  });

  test('what is no sweep is refused in a sentence', async () => {
    await expect(sweepTables(join(root, 'none'))).rejects.toThrow(/none is not the folder of a sweep/);
  });
});

/** The files that `acoer eval` leaves. */
function writeEvaluation(
  folder: string,
  label: string,
  benchmark: string,
  right: number,
  more: object = {},
): object {
  mkdirSync(folder, { recursive: true });
  const rows = Array.from({ length: 40 }, (_, i) => ({
    index: i >> 1,
    sample: i % 2,
    problemId: `q${i >> 1}`,
    gold: '2',
    level: null,
    verdict: {
      correct: i < right,
      status: i < right ? ('correct' as const) : ('incorrect' as const),
      extracted: '2',
    },
    thinkingTokens: 100,
    thinkingClosed: true,
    totalTokens: 120,
    truncated: false,
  }));
  const lines = rows.map((row) =>
    storedCompletion(benchmark, { ...row, prompt: { text: 'q' }, text: 'a' } as never),
  );
  writeFileSync(
    join(folder, `${label}.${benchmark}.jsonl`),
    lines.map((line) => `${JSON.stringify(line)}\n`).join(''),
  );
  const settings = { benchmark, problems: 20, samples: 2 };
  writeFileSync(join(folder, `${label}.${benchmark}.json`), JSON.stringify({ settings, report: {} }));
  return { label, benchmark, temperature: 1, ...report(rows), ...more };
}

test('folders of acoer eval are columns of their runs, and a table with pass@k', async () => {
  const path = await writeSweep(join(root, 'evaluated'), seedsOf(2, method('acoer', STABLE)));
  const folder = join(path, 'evals', 'aime');
  const entries = [
    writeEvaluation(folder, 'base', 'aime25', 20),
    writeEvaluation(folder, 'acoer-s1@600', 'aime25', 30, { run: '/elsewhere/runs/acoer-s1', step: 600 }),
  ];
  writeFileSync(join(folder, 'summary.json'), JSON.stringify(entries));
  const made = await sweepTables(path);
  const [, , , , , aime] = rowsOf(tableOf(made, 'main')).acoer!;
  expect(aime).toBe('75.0 (1 seed)');
  const table = tableOf(made, 'benchmarks');
  expect(table.columns.map(({ name }) => name)).toEqual(
    expect.arrayContaining(['acc. per 1K', 'pass@2 (%)']),
  );
  expect(rowsOf(table)['acoer-s1@600']!.slice(0, 2)).toEqual(['AIME 2025', '40']);
  const elsewhere = join(root, 'moved');
  cpSync(folder, elsewhere, { recursive: true });
  rmSync(join(path, 'evals'), { recursive: true });
  const { html } = await makeSweepReport(path, { evaluations: [elsewhere] });
  expect(html).toContain('Evaluations by acoer eval');
});

test('the report says what of the evaluation data is in the training data, where both are files', async () => {
  const file = (name: string, problems: readonly string[]): string => {
    const lines = problems.map((problem) => `${JSON.stringify({ problem, answer: '1' })}\n`);
    writeFileSync(join(root, name), lines.join(''));
    return join(root, name);
  };
  const config = {
    dataset: file('training.jsonl', ['What is 1+1?', 'What is 2+2?']),
    evalDataset: file('held.jsonl', ['what is 2 + 2', 'What is 3+3?']),
  };
  const local = await writeSweep(join(root, 'local'), seedsOf(1, { ...method('acoer', STABLE), config }));
  expect((await makeSweepReport(local)).html).toMatch(
    /Contamination: 1 of 2 problems of \S+held\.jsonl are also in the training data, 0 nearly\./,
  );
  const hub = { dataset: 'numinamath-tir', evalDataset: 'math500' };
  const remote = await writeSweep(
    join(root, 'remote'),
    seedsOf(1, { ...method('acoer', STABLE), config: hub }),
  );
  expect((await makeSweepReport(remote)).html).toContain(
    'acoer data numinamath-tir --against math500 checks it.',
  );
});

test('text for LaTeX is escaped', () => {
  expect(texText('50% of a_b & {c} #1 ~ ^ \\ é')).toBe(
    String.raw`50\% of a\_b \& \{c\} \#1 \textasciitilde{} \textasciicircum{} \textbackslash{} ?`,
  );
});
