/** `acoer report` without a browser: what the file contains. How it looks and acts is in test/browser. */
import { appendFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { parse } from 'csv-parse/sync';
import { readMetrics } from '../../src/run';
import { makeReport, readRun, writeFigures } from '../../src/report';
import { paretoFront, type ParetoPoint } from '../../src/report/evaluation-figures';
import { escaped } from '../../src/base/printable';
import { marksOf } from '../../src/report/marks';
import type { ShownCompletions } from '../../src/report/shown';
import { acoer } from '../helpers/cli';
import { writeReportedRun } from '../helpers/reported-runs';
import { uniform } from '../helpers/synthetic-runs';
import { appendLines, rollBack, watchedFolder, watchedLines } from '../helpers/watched-runs';

const root = watchedFolder();

async function newRun(name: string, run: Parameters<typeof writeReportedRun>[1] = {}): Promise<string> {
  const path = join(root, name);
  await writeReportedRun(path, run);
  return path;
}

let parseHTML: (html: string) => { document: unknown };
beforeAll(async () => {
  ({ parseHTML } = (await import('linkedom')) as { parseHTML: typeof parseHTML });
});

const documentOf = (html: string) => parseHTML(html).document as HtmlDocument;

/** What the tests need of a document, whose types are those of a browser. */
interface HtmlElement {
  textContent: string;
  getAttribute(name: string): string | null;
  querySelectorAll(selector: string): HtmlElement[];
}
interface HtmlDocument {
  querySelector(selector: string): HtmlElement | null;
  querySelectorAll(selector: string): HtmlElement[];
}

const textsOf = (elements: Iterable<HtmlElement>) =>
  [...elements].map(({ textContent }) => textContent.replaceAll(/\s+/g, ' ').trim());

function unpacked<T>(document: HtmlDocument, id: string): T {
  const text = document.querySelector(`#${id}`)!.textContent;
  return JSON.parse(gunzipSync(Buffer.from(text, 'base64')).toString()) as T;
}

describe('a report on one run', () => {
  test('has the figures of its metrics, with their numbers, and no address of anything else', async () => {
    const path = await newRun('one');
    const { html, figures } = await makeReport([path]);
    const document = documentOf(html);
    const drawn = [...document.querySelectorAll('figure')].map((figure) => figure.getAttribute('id'));
    expect(drawn).toEqual(
      expect.arrayContaining(['accuracy', 'thinking', 'budget', 'kl', 'step-time', 'memory']),
    );
    expect(drawn).toEqual(figures.map(({ id }) => id));
    const attributes = [
      ...html.replaceAll(/<script>[^]*?<\/script>/g, '').matchAll(/\b(?:src|href|action|srcset)="([^"]*)"/g),
    ].map(([, value]) => value!);
    expect(attributes.filter((value) => !/^(#|data:)/.test(value))).toEqual([]);
    expect(html).not.toMatch(/url\(\s*['"]?https?:|@import/);
    const csv = unpacked<Record<string, string>>(document, 'figure-data');
    const rows = parse<Record<string, number>>(csv.thinking!, { columns: true, cast: true });
    const lines = readMetrics(join(path, 'metrics.jsonl'));
    for (const line of lines) {
      const row = rows.find(({ step }) => step === line.step)!;
      expect(row['thinking/mean']! / line['thinking/mean']!).toBeCloseTo(1, 4);
    }
  });

  test('compares the same problems before and after with the numbers of the summary', async () => {
    const path = await newRun('levels', { problems: 100 });
    const { summary } = readRun(path);
    const { html } = await makeReport([path]);
    const document = documentOf(html);
    const tables = [...document.querySelectorAll('table')];
    const levels = tables.find((table) => table.textContent.includes('By level'))!;
    const cells = [...levels.querySelectorAll('tbody tr')].map((row) =>
      textsOf(row.querySelectorAll('th, td')),
    );
    expect(cells.map(([level]) => level)).toEqual(['1', '2', '3', '4', '5', 'all']);
    for (const [level, n, before, after] of cells.slice(0, 5)) {
      const [was, is] = [
        summary!.base.sampled!.perLevel[level!]!,
        summary!.trained.sampled!.perLevel[level!]!,
      ];
      expect(n).toBe(String(is.n));
      expect(before).toMatch(new RegExp(`^${(100 * was.accuracy).toFixed(1)}% `));
      expect(after).toMatch(new RegExp(`^${(100 * is.accuracy).toFixed(1)}% `));
    }
    const pairs = [...document.querySelectorAll('details.pair')];
    expect(pairs.length).toBeGreaterThanOrEqual(3);
    const [first] = pairs;
    const [before, after] = [...first!.querySelectorAll('.thinking-text')];
    const cut = [...before!.querySelectorAll('del')].map((line) => line.textContent);
    const kept = [...before!.querySelectorAll('span')].map((line) => line.textContent);
    expect(cut.length).toBeGreaterThan(0);
    expect(kept.join('\n')).toBe(after!.textContent);
  });

  test('marks rollbacks and changes of the monitor, and draws what was taken back', async () => {
    const path = await newRun('marks', { steps: 60, maxSteps: 100, summary: false });
    rollBack(path, 60, 40, 100);
    appendLines(path, [
      { ...watchedLines(41, 41, 100)[0]!, 'monitor/state': 1 },
      { step: 42, update_applied: 0, 'monitor/state': 2 },
    ]);
    const { html } = await makeReport([path]);
    const document = documentOf(html);
    const events = textsOf(document.querySelectorAll('.marks li'));
    expect(events.map((text) => text.slice(0, 30))).toEqual([
      'Rollback 1, from step 60 to 40',
      'Step 41: the monitor went from',
      'Step 42: the monitor went from',
      'Step 42 was refused: a number ',
    ]);
    const accuracy = document.querySelector('#accuracy')!;
    const signs = textsOf(accuracy.querySelectorAll('text')).filter((text) => /[↩!✕∅]/.test(text));
    expect(signs.map((text) => text.trim()[0])).toEqual(['↩', '!', '✕', '∅']);
    expect(
      document.querySelectorAll('#accuracy path[stroke-dasharray="1 3"], #accuracy g[stroke-dasharray="1 3"]')
        .length,
    ).toBe(1);
  });

  test('stays under 3 MB with 1,200 steps, long completions and every number drawn', async () => {
    const path = await newRun('long', { steps: 1200, tableSteps: 10, problems: 16, words: 1500 });
    const { html } = await makeReport([path]);
    expect(Buffer.byteLength(html)).toBeLessThan(3_000_000);
    const { completions } = unpacked<ShownCompletions>(documentOf(html), 'completion-data');
    expect(completions.length).toBeGreaterThan(40);
    expect(new Set(completions.map(({ step }) => step)).size).toBeGreaterThan(20);
  });

  test('of a run that has only begun, or keeps nothing, says so', async () => {
    const path = await newRun('bare', { steps: 1, maxSteps: 100, summary: false, tableSteps: 1000 });
    for (const folder of ['evaluations', 'completions']) rmSync(join(path, folder), { recursive: true });
    writeFileSync(join(path, 'metrics.jsonl'), '');
    const { html } = await makeReport([path]);
    const text = documentOf(html).querySelector('main')!.textContent;
    expect(text).toContain('The run has not evaluated a model');
    expect(text).toContain('There are no completions to show');
    expect(html).toContain('Stopped; it can be resumed, after step 0 of 100.');
  });

  test('writes text of models and data as text', async () => {
    const text =
      '</script><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\u202e\ud800 & "quoted"';
    const path = await newRun('<b>hostile', { text, problemId: () => '"><script>alert(3)</script>' });
    const { html } = await makeReport([path]);
    expect(html).not.toContain('<script>alert');
    expect(html).not.toContain('<img src=x');
    expect(html).not.toContain('\x1b');
    expect(html).not.toContain('\u202e');
    const scripts = documentOf(html).querySelectorAll('script');
    expect([...scripts].length).toBe(3);
  });
});

describe('a report on several runs', () => {
  const verdict = async (...paths: string[]) =>
    documentOf((await makeReport(paths)).html).querySelector('.verdict')!.textContent;

  test('opens with which of two needs fewer tokens, and at what accuracy', async () => {
    const long = await newRun('long', { problems: 200, thinking: 90 });
    const short = await newRun('short', { problems: 200, thinking: 40, config: { reward: 'grpo-lp' } });
    expect(await verdict(long, short)).toMatch(
      /^short needs \d\d% fewer tokens than long: [\d.]+ against [\d.]+, sampled; accuracy [+-][\d.]+ points \[.*\], p = [\d.]+\.$/,
    );
  });

  test('never opens with the savings of a run that lost accuracy for them', async () => {
    const held = await newRun('held', { problems: 200, thinking: 90 });
    const fallen = await newRun('fallen', {
      problems: 200,
      accuracy: 20,
      thinking: 10,
      config: { reward: 'grpo-lp' },
    });
    expect(await verdict(held, fallen)).toMatch(
      /^fallen is less accurate than held \(-[\d.]+ points \[.*p < 0.001\)/,
    );
  });

  test('groups seeds, overlays methods, and tests their differences on the same problems', async () => {
    const paths = [
      await newRun('a1', { seed: 1, problems: 60 }),
      await newRun('a2', { seed: 2, problems: 60 }),
      await newRun('b1', {
        seed: 1,
        problems: 60,
        accuracy: 40,
        thinking: 60,
        config: { reward: 'grpo-lp' },
      }),
    ];
    const { html, figures } = await makeReport(paths);
    const document = documentOf(html);
    const results = [...document.querySelectorAll('#results table')][0]!;
    const names = textsOf(results.querySelectorAll('tbody th'));
    expect(names).toEqual(['base', 'acoer, seed 1', 'acoer, seed 2', 'grpo-lp']);
    const dynamics = figures.find(({ id }) => id === 'overlaid-thinking-mean')!;
    const lines = new Set(dynamics.table.rows.map(([method]) => method));
    expect(lines).toEqual(new Set(['acoer (2 seeds)', 'grpo-lp']));
    const tests = [...document.querySelectorAll('#results table')].at(-1)!;
    const rows = [...tests.querySelectorAll('tbody tr')].map((row) =>
      textsOf(row.querySelectorAll('th, td')),
    );
    expect(rows.map(([runs]) => runs)).toEqual(['a2 against a1', 'b1 against a1', 'b1 against a2']);
    expect(rows[1]![3]).toBe('< 0.001');
    // The answer comes first: of the runs that are as accurate as the best, the one with the fewest tokens.
    expect(documentOf(html).querySelector('.verdict')!.textContent).toMatch(
      /^Of 3 runs a[12] needs the fewest tokens \([\d.]+ tokens at [\d.]+%, sampled\) of those that are not less accurate than the best, [\d.]+%\.$/,
    );
    const pareto = figures.find(({ id }) => id === 'pareto-sampled')!;
    expect(pareto.table.rows.map(([name]) => name)).toEqual([
      'base',
      'acoer, seed 1',
      'acoer, seed 2',
      'grpo-lp',
    ]);
  });

  test('the Pareto front is what no other point beats', () => {
    const random = uniform(7);
    const points = Array.from({ length: 200 }, (_, i): ParetoPoint => {
      const [accuracy, tokens] = [Math.round(20 * random()) / 20, Math.round(30 * random())];
      const around = { accuracyLow: accuracy, accuracyHigh: accuracy, tokensLow: tokens, tokensHigh: tokens };
      return { label: String(i), index: 0, accuracy, tokens, ...around };
    });
    const front = paretoFront(points);
    for (const point of points) {
      const better = points.filter(
        ({ accuracy, tokens }) =>
          (accuracy > point.accuracy && tokens <= point.tokens) ||
          (accuracy >= point.accuracy && tokens < point.tokens),
      );
      expect(front.includes(point)).toBe(better.length === 0);
    }
    expect(front.map(({ tokens }) => tokens)).toEqual(
      front.map(({ tokens }) => tokens).sort((a, b) => a - b),
    );
  });
});

test('figures are written as SVG, PNG and CSV', async () => {
  const path = await newRun('figures');
  const { figures } = await makeReport([path]);
  const folder = join(root, 'figure-files');
  await writeFigures(folder, figures.slice(0, 2));
  expect(readdirSync(folder).sort()).toEqual(
    ['accuracy', 'thinking'].flatMap((id) => [`${id}.csv`, `${id}.png`, `${id}.svg`]),
  );
  const svg = readFileSync(join(folder, 'accuracy.svg'), 'utf8');
  expect(svg).toMatch(/^<svg [^>]*xmlns="http:\/\/www.w3.org\/2000\/svg"/);
  expect(svg).not.toMatch(/var\(|currentColor|NaN|undefined/);
  const png = readFileSync(join(folder, 'accuracy.png'));
  expect(png.subarray(1, 4).toString()).toBe('PNG');
  expect([png.readUInt32BE(16), png.readUInt32BE(20)]).toEqual([960, 520]);
});

test('no figure has a coordinate that is not a number', async () => {
  const path = await newRun('numbers', { steps: 3 });
  const { figures } = await makeReport([path]);
  expect(figures.filter(({ svg }) => /NaN|Infinity|undefined/.test(svg)).map(({ id }) => id)).toEqual([]);
});

test('control characters and reordering marks are shown, newlines kept', () => {
  const text = 'a\nc\x00\x1b\x7f\x9b\u202eד\ud800&<>"\'';
  const shown = 'a\nc\\x00\\x1b\\x7f\\x9b\\u202eד\\ud800&amp;&lt;&gt;&quot;&#39;';
  expect(escaped(text)).toBe(shown);
});

test('marks are in step order', () => {
  const rollback = { number: 1, from: 9, to: 5, pressure: 0.5, reason: 'Fell.' };
  const lines = [
    { step: 3, 'monitor/state': 1 },
    { step: 7, 'monitor/state': 0 },
  ];
  expect(marksOf(lines, [rollback]).map(({ step, kind }) => [step, kind])).toEqual([
    [3, 'warning'],
    [5, 'rollback'],
    [7, 'healthy'],
  ]);
});

describe('the command', () => {
  test('writes the file and says where', async () => {
    const path = await newRun('command');
    const out = join(root, 'deep', 'report.html');
    const { code, stdout } = await acoer('report', path, '--out', out);
    expect([code, stdout]).toEqual([
      0,
      expect.stringMatching(/^report .*report\.html \(\d\.\d MB, \d+ figures\)\n$/),
    ]);
    expect(readFileSync(out, 'utf8')).toMatch(/^<!doctype html>/);
  });

  test('a folder that is no run, a damaged line and a file that cannot be written are exit 2', async () => {
    const path = await newRun('damaged');
    const none = await acoer('report', join(root, 'none'));
    expect([none.code, none.stderr]).toEqual([
      2,
      expect.stringContaining('is not a run: it has no config.json'),
    ]);
    const unwritable = await acoer('report', path, '--out', join(path, 'config.json', 'x.html'));
    expect([unwritable.code, unwritable.stderr]).toEqual([2, expect.stringContaining('Cannot write')]);
    const again = await acoer('report', path, `${path}/`);
    expect([again.code, again.stderr]).toEqual([2, expect.stringContaining('is given twice')]);
    appendFileSync(join(path, 'metrics.jsonl'), '{"step": "x"}\n');
    const damaged = await acoer('report', path, '--out', join(root, 'x.html'));
    expect([damaged.code, damaged.stderr]).toEqual([2, expect.stringContaining('metrics.jsonl line 61')]);
  });
});
